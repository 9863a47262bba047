"""Deadlines of calls; calls with deadlines: test_brokers.py."""

import pytest

from ottla.client.deadlines import RETRIABLE, Deadline, DeadlineExceededError, raise_for
from ottla.client.errors import BrokerUnavailableError, RequestFailedError
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def deadline(self, timeout_ms: int) -> Deadline:
        settings = ClientSettings(bootstrap_servers="a:1", reconnect_backoff_ms=10, reconnect_backoff_max_ms=15)
        return Deadline("asks", timeout_ms, settings, clock=lambda: self.now, pause=self.pause, rng=lambda: 0.5)


def test_waits_grow_and_connections_have_their_own() -> None:
    time = Time()
    deadline = time.deadline(10_000)
    for _ in range(2):
        deadline.wait("NOT_COORDINATOR")
    deadline.wait(None, BrokerUnavailableError("gone"))
    assert time.waits == pytest.approx([0.1, 0.2, 0.015])
    assert deadline.left_ms() == pytest.approx(9_685, abs=1)


def test_there_is_no_wait_beyond_the_end() -> None:
    time = Time()
    deadline = time.deadline(150)
    deadline.wait("NOT_COORDINATOR")
    with pytest.raises(DeadlineExceededError, match=r"Timed out after 2 attempt\(s\), the last: NOT_COORDINATOR. Call: asks"):
        deadline.wait("NOT_COORDINATOR")
    assert time.waits == [0.1]
    with pytest.raises(DeadlineExceededError, match=r"Timed out waiting for a node assignment. Call: asks \(gone\)"):
        time.deadline(5).wait(None, BrokerUnavailableError("gone"))


def test_an_error_is_raised_with_its_code() -> None:
    raise_for(ErrorCode.NONE, "x")
    with pytest.raises(RequestFailedError, match="x: NOT_COORDINATOR") as raised:
        raise_for(ErrorCode.NOT_COORDINATOR, "x")
    assert raised.value.code in RETRIABLE
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED not in RETRIABLE
