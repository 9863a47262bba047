"""One line in the log for a client and a feature, however often it asks, and a bound for clients with ever new names."""

import pytest

from ottla.broker.network.missing_features import KEPT_MAX, REPEATED_AFTER_S, MissingFeatures
from ottla.broker.protocol.request import Request


class Clock:
    now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def missing(clock: Clock) -> MissingFeatures:
    return MissingFeatures(clock)


def request_of(client_id: str | None) -> Request:
    return Request(key=10, version=4, correlation_id=1, client_id=client_id, client_host="/127.0.0.1", buffer=memoryview(b""), body_at=0)


def test_a_client_is_named_once_for_each_feature(missing: MissingFeatures, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for client_id, feature in [("app", "this"), ("app", "this"), ("app", "that"), ("other", "this"), (None, "this"), ("app", "this")]:
        missing.report(feature, request_of(client_id))
    assert caplog.messages == [
        "client app of /127.0.0.1 asks for this",
        "client app of /127.0.0.1 asks for that",
        "client other of /127.0.0.1 asks for this",
        "client (no id) of /127.0.0.1 asks for this",
    ]
    clock.now_s += REPEATED_AFTER_S
    missing.report("this", request_of("app"))
    assert len(caplog.messages) == 5


def test_ever_new_names_fill_neither_memory_nor_the_log(missing: MissingFeatures, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2 * KEPT_MAX):
        missing.report("this", request_of(f"{number}-" + "x" * 30_000))
    assert len(caplog.messages) == KEPT_MAX
    assert max(map(len, caplog.messages)) < 200
    clock.now_s += REPEATED_AFTER_S
    missing.report("this", request_of("app"))
    assert caplog.messages[-1] == "client app of /127.0.0.1 asks for this"
    assert len(missing._logged_at_s) == 1


def test_a_name_that_would_forge_a_line(missing: MissingFeatures, caplog: pytest.LogCaptureFixture) -> None:
    missing.report("this", request_of("app\nERROR \x1b[31m"))
    assert caplog.messages == [r"client app\nERROR \x1b[31m of /127.0.0.1 asks for this"]
