"""Tests of reading and printing until there is a reason to end."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.cli.consume.formats import text_format
from ottla.cli.consume.reading import BATCH, Ends, Limits, Reading
from ottla.cli.groups.failures import CommandFailed
from ottla.cli.record_progress import RecordProgress
from ottla.cli.signals import Stopped, StopRequest
from ottla.client.consumer.kafka_errors import KafkaError
from ottla.client.consumer.message import ErrorMessage
from ottla.client.consumer.topic_partition import OFFSET_INVALID, TopicPartition


class Record:
    """A message of partition 0."""

    def __init__(self, offset: int) -> None:
        self.number = offset

    def value(self) -> bytes:
        return b"%d" % self.number

    def error(self) -> None:
        return None


def end(partition: int = 0) -> ErrorMessage:
    return ErrorMessage(KafkaError(KafkaError._PARTITION_EOF), "t", partition, 9)


class Consumer:
    """Gives one list of `batches` after the other, then calls `then`."""

    def __init__(self, batches: Sequence[Sequence[Any]], then: Callable[[], None]) -> None:
        self._batches = list(batches)
        self._then = then
        self.asked: list[int] = []
        self.stored: list[int] = []
        self._position = 0

    def consume(self, num_messages: int, timeout: float) -> Sequence[Any]:
        self.asked.append(num_messages)
        if not self._batches:
            self._then()
            return []
        batch = self._batches.pop(0)
        self._position += sum(isinstance(each, Record) for each in batch)
        return batch

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0), TopicPartition("t", 1)]

    def position(self, partitions: Sequence[Any]) -> list[TopicPartition]:
        return [TopicPartition("t", 0, self._position), TopicPartition("t", 1, OFFSET_INVALID)]

    def store_offsets(self, *, offsets: Sequence[Any]) -> None:
        self.stored += [each.offset for each in offsets]


class Run:
    """One run, whose time passes by a second with each look at the clock."""

    def __init__(self, *batches: Sequence[Any], stores: bool = False, write: Callable[[bytes, StopRequest], None] | None = None) -> None:
        self.written: list[bytes] = []
        self.ends = Ends()
        self.ends.on_assign(None, [TopicPartition("t", 0)])
        self.stop = StopRequest()
        self.consumer = Consumer(batches, self._signal)
        self.err = io.StringIO()
        seconds = iter(range(10_000))
        self._reading = Reading(
            self.consumer,
            render=text_format(r"%s\n"),
            write=write or (lambda data, _: self.written.append(data)),
            ends=self.ends,
            progress=RecordProgress(self.err),
            stop=self.stop,
            stores=stores,
            clock=lambda: float(next(seconds)),
        )

    def _signal(self) -> None:
        self.stop.is_set = True

    def __call__(self, **limits: Any) -> "Run":
        self._reading.run(Limits(**limits))
        return self


def records(*offsets: int) -> list[Record]:
    return [Record(offset) for offset in offsets]


def test_records_are_printed_until_a_signal_comes() -> None:
    run = Run(records(0, 1), [], records(2))()
    assert run.written == [b"0\n1\n", b"2\n"]
    assert set(run.consumer.asked) == {BATCH}
    assert run.consumer.stored == []


def test_a_count_is_exact() -> None:
    run = Run(records(0, 1), records(2), records(3))(count=3)
    assert run.written == [b"0\n1\n", b"2\n"]
    assert run.consumer.asked == [3, 1]


def test_the_end_of_all_partitions() -> None:
    run = Run(records(0), [end()], records(1))
    run.ends.on_assign(None, [TopicPartition("t", 1)])
    assert run(at_end=True).written == [b"0\n", b"1\n"]  # partition 1 has not ended: a signal came
    run = Run([*records(0), end()], records(1))(at_end=True)
    assert run.written == [b"0\n"]
    assert Run([end()], records(1))().written == [b"1\n"]  # the end alone is no reason


def test_some_time_without_a_record() -> None:
    assert Run(records(0), [], [], [], records(1))(timeout_s=3.0).written == [b"0\n"]
    with pytest.raises(CommandFailed, match=r"1 of 2 records did not come within 3 s"):
        Run(records(0), [], [], [], records(1))(timeout_s=3.0, count=2)
    assert Run(records(0), records(1))(timeout_s=3.0, count=2).written == [b"0\n", b"1\n"]


def test_offsets_are_stored_when_records_are_written() -> None:
    run = Run(records(0, 1), records(2), stores=True)
    seen: list[list[int]] = []
    run._reading._write = lambda *_: seen.append(list(run.consumer.stored))
    run()
    assert seen == [[], [2]]
    assert run.consumer.stored == [2, 3]


@pytest.mark.parametrize("error", [BrokenPipeError, Stopped])
def test_what_is_not_written_is_not_stored(error: type[BaseException]) -> None:
    def refuse(*_: object) -> None:
        raise error

    run = Run(records(0), stores=True, write=refuse)
    with pytest.raises(error):
        run()
    assert run.consumer.stored == []


def test_errors_end_it_and_a_late_poll_does_not() -> None:
    late = ErrorMessage(KafkaError(KafkaError._MAX_POLL_EXCEEDED, "polled too late"))
    run = Run([late], records(0))()
    assert (run.written, run.err.getvalue()) == ([b"0\n"], "polled too late\n")
    failed = ErrorMessage(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "t-0 cannot be read"), "t", 0)
    run = Run([*records(0), failed], records(1))
    with pytest.raises(CommandFailed, match="t-0 cannot be read"):
        run()
    assert run.written == [b"0\n"]


def test_ends_follow_the_assignment() -> None:
    ends = Ends()
    assert not ends.are_reached  # nothing is assigned yet
    both = [TopicPartition("t", 0), TopicPartition("t", 1)]
    ends.on_assign(None, both)
    ends.reach("t", 0)
    assert not ends.are_reached
    ends.on_revoke(None, both[1:])
    assert ends.are_reached
    ends.on_revoke(None, both[:1])
    assert not ends.are_reached
    ends.on_assign(None, both[:1])
    assert not ends.are_reached  # it is read again from the committed offset
    ends.reach("t", 0)
    assert ends.are_reached
