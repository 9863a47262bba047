"""A partition read from canned Fetch answers: positions, asking ahead, retries, and records that are gone."""

import struct
from collections.abc import Callable
from typing import NamedTuple

import pytest

from ottla.consumer import reading
from ottla.consumer.errors import BrokerUnavailableError, OffsetOutOfRangeError, RequestFailedError, UnknownTopicError
from ottla.consumer.fetch_messages import Fetched
from ottla.consumer.reading import PartitionReader
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.model import TopicPartition

TP = TopicPartition("t", 0)


class Canned(NamedTuple):
    """Answers by fetch offset; each is (next offset or None, high watermark, error)."""

    next_offset: int | None
    high_watermark: int = 100
    error: ErrorCode = ErrorCode.NONE


class FakeCluster:
    """A leader that answers Fetch from a script; a script's exception is raised when the answer is awaited."""

    def __init__(self, script: dict[int, list[Canned | Exception]]) -> None:
        self.script = {offset: list(answers) for offset, answers in script.items()}
        self.log: list[str] = []
        self.sent: list[int] = []

    def leader(self, partition: TopicPartition) -> "FakeCluster":
        assert partition == TP
        return self

    def send(self, api_key: int, version: int, body: bytes) -> None:
        (offset,) = struct.unpack_from(">q", body, body.index(b"\x02t\x02") + 11)
        self.sent.append(offset)
        self.log.append(f"ask {offset}")

    def receive(self) -> Fetched:
        answer = self.script[self.sent.pop(0)].pop(0)
        if isinstance(answer, Exception):
            raise answer
        self.log.append("answer")
        records = b"" if answer.next_offset is None else str(answer.next_offset).encode()
        return Fetched(answer.error, answer.high_watermark, 0, memoryview(records))

    def forget(self) -> None:
        self.sent.clear()
        self.log.append("forget")


class Scan(NamedTuple):
    next_offset: int | None


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[int | None], FakeCluster]]:
    """`read(start, end, script)` gives the offsets after each answer, and the cluster with its log."""
    monkeypatch.setattr(reading, "decode_fetch", lambda answer, topic, partition: answer)

    def run(start: int, end: int, script: dict[int, list[Canned | Exception]], stop_after: int = 99):
        cluster = FakeCluster(script)
        seen = []
        batches = PartitionReader(cluster, TP, pause=lambda seconds: cluster.log.append("pause")).read(
            start, end, lambda records: Scan(int(bytes(records)) if records else None)
        )
        for scanned in batches:
            seen.append(scanned.next_offset)
            cluster.log.append(f"work {scanned.next_offset}")
            if len(seen) == stop_after:
                batches.close()
        return seen, cluster

    return run


def test_the_next_fetch_is_asked_before_the_batches_are_worked_on(read):
    seen, cluster = read(5, 100, {5: [Canned(40)], 40: [Canned(90)], 90: [Canned(100)]})
    assert seen == [40, 90, 100]
    assert cluster.log == ["ask 5", "answer", "ask 40", "work 40", "answer", "ask 90", "work 90", "answer", "work 100"]


def test_a_range_without_offsets_asks_nothing(read):
    assert read(5, 5, {})[1].log == []


def test_a_reader_that_stops_early_leaves_no_answer_for_somebody_else(read):
    seen, cluster = read(0, 100, {0: [Canned(40)]}, stop_after=1)
    assert seen == [40]
    assert cluster.log[-1] == "forget"


@pytest.mark.parametrize("failure", [BrokerUnavailableError("gone"), Canned(None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), Canned(None)])
def test_what_may_pass_is_asked_again_from_the_same_offset(read, failure):
    seen, cluster = read(0, 100, {0: [failure, Canned(50)], 50: [failure, failure, failure, Canned(100)]})
    assert seen == [50, 100]
    assert cluster.log.count("pause") == 4


def test_patience_ends(read):
    with pytest.raises(BrokerUnavailableError):
        read(0, 100, {0: [BrokerUnavailableError("gone")] * 4})


def test_a_failure_to_ask_ahead_loses_no_batch(read, monkeypatch: pytest.MonkeyPatch):
    failed = []

    def send_once_failing(self: FakeCluster, api_key: int, version: int, body: bytes, send=FakeCluster.send) -> None:
        if not failed and b"\x00(" in body:  # offset 40
            failed.append(True)
            raise BrokerUnavailableError("gone")
        send(self, api_key, version, body)

    monkeypatch.setattr(FakeCluster, "send", send_once_failing)
    seen, _ = read(0, 100, {0: [Canned(40)], 40: [Canned(100)]})
    assert (seen, failed) == ([40, 100], [True])


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (Canned(None, error=ErrorCode.OFFSET_OUT_OF_RANGE), OffsetOutOfRangeError, "partition 0 of topic t"),
        (Canned(None, high_watermark=99), OffsetOutOfRangeError, "ends at offset 99, but more records"),
        (Canned(None, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), UnknownTopicError, "does not exist any more"),
        (Canned(None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), RequestFailedError, "TOPIC_AUTHORIZATION_FAILED"),
        (Canned(0), PeerError, "records before it"),
    ],
)
def test_what_will_not_pass_is_told_at_once(read, answer: Canned, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        read(0, 100, {0: [answer]})
