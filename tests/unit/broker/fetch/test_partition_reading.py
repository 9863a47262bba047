"""One partition read for a Fetch, and offsets looked up by timestamp."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.fetch.messages import FetchedPartition, FetchPartitionData
from ottla.broker.fetch.partition_reading import PER_JOB, TimestampLookups, TimestampQuery, has_no_news, leader_epoch_error, read_partition
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, split_batches
from ottla.protocol.records.control import ControlType, EndMarker
from ottla.protocol.records.record_checks import find_timestamp
from tests.support.kit.end_markers import encode_end_marker

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


class Log:
    """A log with transactions, as a coordinator would write them."""

    def __init__(self, **settings: Any) -> None:
        self.log = PartitionLog(MemoryFiles(), "t-0", LogSettings(**settings))
        self.log.open(0)
        self.sequences: dict[int, int] = {}

    def data(self, producer_id: int = -1, size: int = 1) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        transactional = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
        batch = encode_batch([Record(0, 1000, b"k", b"v" * size)], **(transactional if producer_id >= 0 else {}))
        self.log.append(batch, now_ms=0, from_client=False)

    def end(self, producer_id: int, kind: ControlType) -> None:
        key, value = encode_end_marker(EndMarker(kind, 0))
        options = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True, "is_control": True}
        self.log.append(encode_batch([Record(0, 1000, key, value)], **options), now_ms=0, from_client=False)

    def read(self, offset: int, *, committed_only: bool = True, bytes_max: int = 10_000, **values: Any) -> FetchPartitionData:
        part = FetchedPartition(("t", 0), values.pop("leader_epoch", -1), offset, values.pop("fetched_epoch", -1), 10_000)
        return read_partition(part, self.log, bytes_max, at_least_one=True, committed_only=committed_only, wait=True, **values)


def offsets(found: FetchPartitionData) -> list[int]:
    return [header.base_offset for _, header in split_batches(found.records)]


def aborted(found: FetchPartitionData) -> list[tuple[int, int]] | None:
    return None if found.aborted is None else [(each.producer_id, each.first_offset) for each in found.aborted]


def test_committed_reads_end_where_the_oldest_transaction_is_open() -> None:
    log = Log()
    log.data()
    log.data(7)
    log.data()
    committed, all_of_it = log.read(0), log.read(0, committed_only=False)
    assert (offsets(committed), offsets(all_of_it)) == ([0], [0, 1, 2])
    assert (committed.last_stable_offset, committed.high_watermark) == (1, 3)
    assert all_of_it.last_stable_offset == 1
    assert (aborted(committed), aborted(all_of_it)) == ([], None)
    log.end(7, COMMIT)
    assert offsets(log.read(0)) == [0, 1, 2, 3]


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_at_and_behind_the_stable_offset_there_is_nothing_yet(offset: int) -> None:
    log = Log()
    log.data()
    log.data(7)
    log.data()
    found = log.read(offset)
    assert (found.error, found.records, aborted(found)) == (ErrorCode.NONE, b"", [])


def test_the_stable_offset_holds_even_when_the_first_batch_is_too_large() -> None:
    log = Log()
    log.data(size=100)
    log.data(7)
    assert offsets(log.read(0, bytes_max=1)) == [0]


def test_aborted_transactions_are_listed_for_read_committed() -> None:
    log = Log()
    log.data(7)  # 0
    log.data(8)  # 1
    log.end(7, ABORT)  # 2
    log.end(8, COMMIT)  # 3
    log.data(8)  # 4
    log.end(8, ABORT)  # 5
    assert (offsets(log.read(0)), aborted(log.read(0))) == ([0, 1, 2, 3, 4, 5], [(7, 0), (8, 4)])
    assert aborted(log.read(3)) == [(8, 4)]
    assert aborted(log.read(0, committed_only=False)) is None


def test_only_aborted_transactions_with_records_in_the_response_are_listed() -> None:
    log = Log()
    log.data(7)  # 0
    log.end(7, ABORT)  # 1
    log.data(8)  # 2
    log.end(8, ABORT)  # 3
    log.data(9)  # 4
    log.data(8, size=50)  # 5
    log.end(8, ABORT)  # 6
    log.end(9, ABORT)  # 7
    found = log.read(0, bytes_max=400)
    assert offsets(found) == [0, 1, 2, 3, 4]
    assert aborted(found) == [(7, 0), (8, 2), (9, 4)]


@pytest.mark.parametrize(("offset", "is_inside"), [(-1, False), (0, False), (1, True), (4, True), (5, False)])
def test_what_lies_outside_of_the_log(offset: int, is_inside: bool) -> None:
    log = Log()
    for _ in range(4):
        log.data()
    log.log.delete_records(1)
    found = log.read(offset)
    expected = (ErrorCode.NONE, 1) if is_inside else (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert (found.error, found.log_start_offset) == expected


def test_leader_epochs() -> None:
    assert leader_epoch_error(-1, 5) is ErrorCode.NONE
    assert leader_epoch_error(5, 5) is ErrorCode.NONE
    assert leader_epoch_error(4, 5) is ErrorCode.FENCED_LEADER_EPOCH
    assert leader_epoch_error(6, 5) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_reader_with_another_leader_epoch_gets_nothing() -> None:
    log = Log()
    log.data()
    log.log.leader_epoch = 3
    log.data()
    assert log.read(0, leader_epoch=2).error is ErrorCode.FENCED_LEADER_EPOCH
    assert log.read(0, leader_epoch=4).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert offsets(log.read(0, leader_epoch=3)) == [0, 1]


def test_a_client_whose_last_epoch_ended_earlier_gets_the_diverging_offset() -> None:
    log = Log()
    for epoch in (0, 0, 2, 2, 5):
        log.log.leader_epoch = epoch
        log.data()
    assert offsets(log.read(2, fetched_epoch=0)) == [2, 3, 4]
    found = log.read(3, fetched_epoch=0)
    assert (found.diverging, found.records, found.error, found.high_watermark) == ((0, 2), b"", ErrorCode.NONE, 5)
    assert log.read(4, fetched_epoch=3).diverging == (2, 4)
    assert log.read(5, fetched_epoch=5).diverging is None
    assert log.read(5, fetched_epoch=6).error is ErrorCode.OFFSET_OUT_OF_RANGE
    log.log.delete_records(1)
    assert log.read(0, fetched_epoch=0).error is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    "changes", [{"offset": 3}, {"high_watermark": 3}, {"log_start_offset": 1}, {"last_fetched_epoch": 2}, {"current_leader_epoch": 1}]
)
def test_a_session_leaves_out_a_partition_only_when_nothing_has_changed(changes: dict[str, int]) -> None:
    log = SimpleNamespace(high_watermark=4, log_start_offset=0, leader_epoch=2)
    part = FetchedPartition(("t", 0), 2, 4, -1, 100)
    part.record_sent(4, 0, is_error=False)
    assert has_no_news(part, log)
    for name, value in changes.items():
        setattr(part, name, value)
    assert not has_no_news(part, log)


class Lookup:
    """A log whose record at a timestamp has the same offset; the largest is 99."""

    def first_at(self, timestamp_ms: int, find: Any) -> tuple[int, int] | None:
        assert find is find_timestamp
        if timestamp_ms == 13:
            raise StorageError("the disk fails")
        return None if timestamp_ms > 99 else (timestamp_ms, timestamp_ms)

    def latest(self, find: Any) -> tuple[int, int]:
        assert find is find_timestamp
        return 99, 99


def look_up(lookups: TimestampLookups, *timestamps_ms: int | None) -> list[Any]:
    async def run() -> list[Any]:
        return await lookups.look_up([TimestampQuery(Lookup(), timestamp_ms) for timestamp_ms in timestamps_ms])  # type: ignore[arg-type]

    return asyncio.run(run())


def test_results_come_in_the_order_of_the_lookups() -> None:
    lookups = TimestampLookups(find_timestamp)
    found = look_up(lookups, 5, None, 100, 13, 6)
    lookups.close()
    assert [str(each) for each in found] == ["(5, 5)", "(99, 99)", "None", "the disk fails", "(6, 6)"]
    assert isinstance(found[3], StorageError)


def test_a_few_at_a_time() -> None:
    class Counting(ThreadPoolExecutor):
        jobs: list[int] = []

        def submit(self, call: Any, job: Any, /, *given: Any, **named: Any) -> Any:
            self.jobs.append(len(job))
            return super().submit(call, job, *given, **named)

    lookups = TimestampLookups(find_timestamp, Counting(1))
    assert look_up(lookups, *[7] * (2 * PER_JOB + 1)) == [(7, 7)] * (2 * PER_JOB + 1)
    assert Counting.jobs == [PER_JOB, PER_JOB, 1]
    lookups.close()
