"""How a handler gets its collaborators."""

import pytest

from ottla.broker.protocol.api import Api
from ottla.broker.protocol.request import Request


def request() -> Request:
    return Request(key=12, version=0, correlation_id=1, client_id=None, client_host="/", buffer=memoryview(b""), body_at=0)


def note(request: Request, *, notes: list[Request], prefix: str = "unused") -> None:
    notes.append(request)


class Noting:
    def __init__(self, *, notes: list[Request]) -> None:
        self._notes = notes

    def handle(self, request: Request) -> None:
        self._notes.append(request)


@pytest.mark.parametrize("handle", [note, Noting])
def test_a_handler_gets_the_collaborators_that_it_names(handle) -> None:
    api = Api(key=12, versions=range(5), handle=handle, elements_max=7)
    notes: list[Request] = []
    others: list[Request] = []
    served = api.bind({"notes": notes, "prefix": "p", "other": 1})
    api.bind({"notes": others, "prefix": "p"})
    one = request()
    served.handle(one)
    assert (notes, others) == ([one], [])
    assert (served.key, served.versions, served.elements_max, served.decodes_itself) == (12, range(5), 7, False)


@pytest.mark.parametrize("handle", [note, Noting])
def test_a_name_that_is_unknown_is_an_error_at_the_start(handle) -> None:
    with pytest.raises(LookupError, match=r"test_api needs notes; the collaborators are clock, prefix"):
        Api(key=12, versions=range(5), handle=handle).bind({"clock": 1, "prefix": "p"})
