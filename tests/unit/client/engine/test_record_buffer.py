"""Buffered records: their order, their bounds, and records that cannot be read."""

import gc
import sys
import threading
from collections.abc import Iterator
from typing import ClassVar
from weakref import WeakSet

import pytest

from ottla.client.engine.record_buffer import NO_RUN, NOTHING, RecordBuffer, RecordRun, UndecodableRecords, next_rows
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.errors import PeerError
from ottla.protocol.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
BYTES_MAX = 1_000


class Rows:
    def __init__(self, first: int, count: int) -> None:
        self.first, self.count = first, count
        self.size_bytes = count

    def __len__(self) -> int:
        return self.count

    def offset(self, row: int) -> int:
        return self.first + row

    def leader_epoch(self, row: int) -> int:
        return 7


def decode(fetched: FetchedRecords) -> Iterator[Rows]:
    """Each byte is a batch with so many records; 0 cannot be read."""
    offset = fetched.position
    for count in bytes(fetched.records):
        if count == 0:
            raise PeerError("bad")
        yield Rows(offset, count)
        offset += count


def fetched(partition: TopicPartition, position: int, following: int, *batches: int) -> FetchedRecords:
    return FetchedRecords(partition, position, following, memoryview(bytes(batches)))


def all_readable(partition: TopicPartition) -> bool:
    return True


def offsets(buffer: RecordBuffer, count: int) -> list[tuple[int, int]]:
    return [
        (part.partition.partition, part.columns.offset(row))
        for part in buffer.take(count, all_readable)
        for row in range(part.first, part.end)
    ]


def test_records_come_in_order_and_at_most_as_many_as_wanted() -> None:
    buffer = RecordBuffer(decode, BYTES_MAX)
    buffer.add(fetched(A, 0, 5, 2, 3))
    assert offsets(buffer, 1) == [(0, 0)]
    assert offsets(buffer, 3) == [(0, 1), (0, 2), (0, 3)]
    assert buffer.partition_bytes(A) == 2
    assert buffer.end(A) is not None
    assert offsets(buffer, 9) == [(0, 4)]
    assert (buffer.partition_bytes(A), buffer.size_bytes, buffer.end(A)) == (0, 0, None)


def test_partitions_take_turns_after_each_fetch() -> None:
    buffer = RecordBuffer(decode, BYTES_MAX)
    buffer.add(fetched(A, 0, 2, 2))
    buffer.add(fetched(A, 2, 4, 2))
    buffer.add(fetched(B, 0, 1, 1))
    assert offsets(buffer, 9) == [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3)]


@pytest.mark.conformance(
    "FetcherTest.testUpdatePositionWithLastRecordMissingFromBatch",
    "FetcherTest.testUpdatePositionOnEmptyBatch",
    "FetcherTest.testConsumerPositionUpdatedWhenSkippingAbortedTransactions",
)
def test_the_position_moves_behind_offsets_without_records() -> None:
    buffer = RecordBuffer(decode, BYTES_MAX)
    buffer.add(fetched(A, 0, 10, 2))
    (part,) = buffer.take(5, all_readable)
    assert (part.next_offset, part.epoch) == (10, 7)
    buffer.add(fetched(A, 10, 20))
    (part,) = buffer.take(5, all_readable)
    assert (part.first, part.end, part.next_offset) == (0, 0, 20)


@pytest.mark.conformance(
    "FetcherTest.testFetchOnCompletedFetchesForSomePausedPartitions", "FetcherTest.testPartialFetchWithPausedPartitions"
)
def test_partitions_that_are_not_readable_are_kept() -> None:
    buffer = RecordBuffer(decode, BYTES_MAX)
    buffer.add(fetched(A, 0, 1, 1))
    buffer.add(fetched(B, 0, 1, 1))
    assert [part.partition for part in buffer.take(9, lambda each: each == B)] == [B]
    assert not buffer.has_records(lambda each: each == B)
    assert buffer.has_records(all_readable)


@pytest.mark.conformance(
    "FetcherTest.testFetchAfterPartitionWithFetchedRecordsIsUnassigned", "FetcherTest.testClearBufferedDataForTopicPartitions"
)
def test_what_is_dropped_is_gone() -> None:
    buffer = RecordBuffer(decode, BYTES_MAX)
    buffer.add(fetched(A, 0, 1, 1))
    buffer.drop(A)
    buffer.drop(B)
    assert buffer.take(9, all_readable) == []
    assert buffer.size_bytes == 0


@pytest.mark.conformance(
    "FetcherTest.testFetchPositionAfterException", "FetcherTest.testCompletedFetchRemoval", "FetcherTest.testParseInvalidRecordBatch"
)
@pytest.mark.parametrize("count", [1, 2, 9])
def test_records_before_bad_ones_come_first_and_the_error_is_not_forgotten(count: int) -> None:
    buffer = RecordBuffer(decode, BYTES_MAX)
    buffer.add(fetched(A, 0, 9, 2, 0, 5))
    taken = 0
    while taken < 2:
        taken += len(offsets(buffer, count))
    with pytest.raises(UndecodableRecords, match="t-0 cannot be read from offset 2 on: bad") as raised:
        buffer.take(count, all_readable)
    assert raised.value.partition == A
    assert buffer.take(count, all_readable) == []


def test_what_is_decoded_can_be_looked_at_before_it_is_taken() -> None:
    buffer = RecordBuffer(decode, BYTES_MAX)
    buffer.add(fetched(A, 0, 5, 2, 3))
    assert buffer.peek(9, all_readable) is None, "nothing is decoded yet"
    assert offsets(buffer, 1) == [(0, 0)]
    part = buffer.peek(9, all_readable)
    assert part is not None
    assert (part.partition, part.first, part.end, part.next_offset) == (A, 1, 2, 2)
    assert buffer.peek(9, lambda each: each == B) is None
    assert offsets(buffer, 9) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert buffer.peek(9, all_readable) is None


def test_no_slice_is_begun_when_there_are_enough_records() -> None:
    buffer = RecordBuffer(decode, BYTES_MAX)
    buffer.add(fetched(A, 0, 9, 2, 3, 4))
    assert [part.end - part.first for part in buffer.take(8, all_readable, enough=4)] == [2, 3]
    assert [part.end - part.first for part in buffer.take(3, all_readable, enough=4)] == [3], "at most as many as wanted"


LARGE = 900


class Decompressed(Rows):
    """One record of LARGE bytes."""

    alive: ClassVar["WeakSet[Decompressed]"] = WeakSet()

    def __init__(self, offset: int) -> None:
        super().__init__(offset, 1)
        self.size_bytes = LARGE
        self.alive.add(self)


def decompress(fetched: FetchedRecords) -> Iterator[Rows]:
    """Each byte is a batch of one large record, and 0 cannot be read; what was decompressed for it is in the frame of the error."""
    for offset, byte in enumerate(bytes(fetched.records)):
        if offset >= fetched.position:
            columns = Decompressed(offset)
            if byte == 0:
                raise PeerError("bad") from ValueError("damaged")
            yield columns
            del columns


def test_what_is_decompressed_at_a_time_is_bounded() -> None:
    buffer = RecordBuffer(decompress, LARGE)
    partitions = [TopicPartition("t", number) for number in range(5)]
    for partition in partitions:
        buffer.add(fetched(partition, 0, 2, 1, 1))
    found = []
    while slices := buffer.take(9, all_readable):
        found += [(part.partition, part.next_offset) for part in slices if part.end > part.first]
        assert len(Decompressed.alive) <= 1
        del slices
    assert found == [(partition, offset) for partition in partitions for offset in (1, 2)]
    assert buffer.size_bytes == 0


def test_what_is_decompressed_of_other_partitions_is_decompressed_again_later() -> None:
    buffer = RecordBuffer(decompress, LARGE)
    for partition in (A, B):
        buffer.add(fetched(partition, 0, 3, 1, 1, 1))
    found = []
    for number in (0, 1, 0, 1, 0, 1):  # each stops in the middle of its fetch
        (part,) = buffer.take(1, lambda each, number=number: each.partition == number)  # type: ignore[misc]
        found.append((part.partition.partition, part.next_offset))
        del part
        assert len(Decompressed.alive) <= 1
    assert found == [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)]


def test_small_columns_are_handed_out_together_up_to_the_bound() -> None:
    buffer = RecordBuffer(decode, 10)
    for partition in (A, B):
        buffer.add(fetched(partition, 0, 12, 4, 4, 4))
    assert [[part.end for part in buffer.take(99, all_readable)] for _ in range(4)] == [[4, 4], [4, 4], [4, 4], []]


def test_what_cannot_be_read_takes_no_memory_while_its_error_is_kept() -> None:
    buffer = RecordBuffer(decompress, LARGE)
    buffer.add(fetched(A, 0, 1, 0))
    gc.disable()
    try:
        with pytest.raises(UndecodableRecords) as kept:
            buffer.take(1, all_readable)
        assert not Decompressed.alive
    finally:
        gc.enable()
    assert kept.value.partition == A


def run_of(first: int, end: int) -> RecordRun:
    return RecordRun(TopicPartition("t", 0), NOTHING, first, end, now_ms=1.0, ends_ms=2.0)


def test_rows_come_in_order_and_those_that_were_taken_are_counted() -> None:
    run = run_of(3, 7)
    assert [run.rows.popleft(), run.rows.popleft()] == [3, 4]
    assert run.end() == 2
    assert not run.rows


def test_a_run_has_twice_the_rows_that_were_taken_before() -> None:
    assert [next_rows(taken) for taken in (0, 1, 32, 500, 4_000)] == [32, 32, 64, 1_000, 4_096]


def test_no_run_has_no_rows_and_is_over() -> None:
    assert (len(NO_RUN.rows), NO_RUN.end()) == (0, 0)
    assert NO_RUN.ends_ms < -1e300


def test_a_row_is_taken_or_left_while_another_thread_ends_the_run() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            run, counted = run_of(0, 500), []
            thread = threading.Thread(target=lambda run=run, counted=counted: counted.append(run.end()))
            taken = []
            try:
                while True:
                    taken.append(run.rows.popleft())
                    if len(taken) == 100:
                        thread.start()
            except IndexError:
                thread.join()
            assert taken == list(range(len(taken)))
            assert counted == [len(taken)]
    finally:
        sys.setswitchinterval(interval)
