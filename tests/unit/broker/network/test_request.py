"""A request and its answer's frame."""

import pytest

from ottla.broker.network.request import Api, Request
from tests.support.kit.sessions import client_session


def request(key: int, version: int) -> tuple[Request, list[bytes]]:
    made = Request(
        key=key, version=version, correlation_id=-2, client_id=None, session=client_session(), buffer=memoryview(bytearray()), body_at=0
    )
    sent: list[bytes] = []
    made.send = sent.extend  # type: ignore[assignment]
    return made, sent


@pytest.mark.parametrize(("key", "version", "head"), [(12, 3, b""), (12, 4, b"\0"), (18, 4, b"")])
def test_the_frame_of_an_answer(key: int, version: int, head: bytes) -> None:
    made, sent = request(key, version)
    made.reply_body([b"ab", b"c"])
    data = b"".join(sent)
    assert data == (4 + len(head) + 3).to_bytes(4, "big") + b"\xff\xff\xff\xfe" + head + b"abc"


def test_an_answer_before_there_is_a_connection_is_our_bug() -> None:
    made = Request(key=12, version=0, correlation_id=1, client_id=None, session=client_session(), buffer=memoryview(b""), body_at=0)
    with pytest.raises(AssertionError):
        made.reply_body([])


def test_an_answer_in_pieces_has_the_same_frame() -> None:
    values = {"throttle_time": 0, "error_code": 0, "groups": [{"group_id": "g", "protocol_type": "consumer", "group_state": "Empty"}]}
    for version in (0, 4):
        once, sent_once = request(16, version)
        once.reply(values)
        in_pieces, sent_in_pieces = request(16, version)
        assert list(in_pieces.reply_in_pieces(values)) == []
        assert b"".join(sent_in_pieces) == b"".join(sent_once)


# How a handler gets its collaborators.


def ping() -> Request:
    return Request(key=12, version=0, correlation_id=1, client_id=None, session=client_session(), buffer=memoryview(b""), body_at=0)


def note(request: Request, *, notes: list[Request], prefix: str = "unused") -> None:
    notes.append(request)


class Noting:
    def __init__(self, *, notes: list[Request]) -> None:
        self._notes = notes

    def handle(self, request: Request) -> None:
        self._notes.append(request)


@pytest.mark.parametrize("handle", [note, Noting])
def test_a_handler_gets_the_collaborators_that_it_names(handle) -> None:
    api = Api(key=12, versions=range(5), handle=handle, access=(), elements_max=7)
    notes: list[Request] = []
    others: list[Request] = []
    served = api.bind({"notes": notes, "prefix": "p", "other": 1})
    api.bind({"notes": others, "prefix": "p"})
    one = ping()
    served.handle(one)
    assert (notes, others) == ([one], [])
    assert (served.key, served.versions, served.elements_max, served.decodes_itself) == (12, range(5), 7, False)


@pytest.mark.parametrize("handle", [note, Noting])
def test_a_name_that_is_unknown_is_an_error_at_the_start(handle) -> None:
    with pytest.raises(LookupError, match=r"test_request needs notes; the collaborators are clock, prefix"):
        Api(key=12, versions=range(5), handle=handle, access=()).bind({"clock": 1, "prefix": "p"})
