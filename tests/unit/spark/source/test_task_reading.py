"""The records and columns that a task reads from a scripted client, and missing records."""

import functools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.admin.values import DescribedTopic, Failure
from ottla.client.errors import BrokerUnavailableError, OffsetOutOfRangeError, TopicRecreatedError, UnknownTopicError
from ottla.client.fetch.fetch_values import FetchedRecords, FetchRange
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch
from ottla.spark.options.source_options import GROUP_RECORDS, RECORDS, ReadSettings
from ottla.spark.source import task_reading
from ottla.spark.source import task_reading as fetcher_pool
from ottla.spark.source.planning import DataLossError, OffsetRange, ReadTask
from ottla.spark.source.task_reading import IDLE_S_MAX, BufferedFetcher, FetcherPool, read

CLIENT = ClientSettings(bootstrap_servers="h:9092")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _batch(first: int, last: int) -> memoryview:
    return memoryview(encode_batch([Record(i, 0, None, b"%d" % i) for i in range(first, last + 1)], base_offset=first))


def _fetched(partition: TopicPartition, position: int, last: int, first: int | None = None) -> FetchedRecords:
    return FetchedRecords(partition, position, last + 1, _batch(position if first is None else first, last))


class ScriptFetcher:
    """Gives the records of `script`, one list per read, or raises an exception of it."""

    def __init__(self, *script: list[Any]) -> None:
        self.script = list(script)
        self.asked: list[list[FetchRange]] = []
        self.prefetched: list[list[FetchRange]] = []
        self.closed = False

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        self.asked.append(list(ranges))
        for answer in self.script.pop(0):
            if isinstance(answer, Exception):
                raise answer
            yield answer

    def prefetch(self, ranges: Sequence[FetchRange]) -> None:
        self.prefetched.append(list(ranges))

    def close(self) -> None:
        self.closed = True


class ScriptAdmin:
    """Partitions start at 40; topic t has partition 0 and 1 and the id "new"."""

    topics: Any = {"t": DescribedTopic("t", {0: 1, 1: 1}, "new")}
    earliest, latest = 40, 60

    def __init__(self, settings: ClientSettings) -> None:
        assert settings == CLIENT

    def __enter__(self) -> "ScriptAdmin":
        return self

    def __exit__(self, *_: object) -> None: ...

    def list_offsets(self, partitions: Sequence[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, {-2: self.earliest, -1: self.latest}[timestamp])

    def describe_topics(self, names: Any) -> Any:
        return {name: self.topics[name] for name in names}


def _ranges(start: int, end: int, topic_id: str = "") -> tuple[OffsetRange, ...]:
    return (OffsetRange("t", 0, start, end, topic_id),)


def _read(fetcher: ScriptFetcher, ranges: tuple[OffsetRange, ...], *, prefetch: bool = False, **settings: Any) -> list[pa.RecordBatch]:
    fetchers = FetcherPool(lambda _: fetcher)
    every = ReadSettings(client=CLIENT, **{"columns": ("partition", "offset"), **settings})
    return list(read(every, ReadTask(ranges), prefetch=prefetch, fetchers=fetchers, admin_client=ScriptAdmin))


def _offsets(batches: list[pa.RecordBatch]) -> list[tuple[int, int]]:
    return [pair for batch in batches for pair in zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)]


def _of(partition: int, *offsets: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in offsets]


def test_only_the_range_s_records_and_the_asked_columns():
    fetcher = ScriptFetcher([_fetched(T0, 12, 19, first=10), _fetched(T0, 20, 29)])
    (first, second) = _read(fetcher, _ranges(12, 25), columns=("offset", "value"))
    assert first.schema == pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    assert (first["offset"].to_pylist(), second["offset"].to_pylist()) == (list(range(12, 20)), list(range(20, 25)))
    assert fetcher.asked == [[FetchRange(T0, 12, 25)]]
    assert (fetcher.prefetched, fetcher.closed) == ([], False)


def test_several_ranges_as_they_come_in_batches_of_few_rows():
    fetcher = ScriptFetcher([_fetched(T0, 0, 4), _fetched(T1, 7, 7), _fetched(T0, 5, 5)])
    batches = _read(fetcher, (OffsetRange("t", 0, 0, 6), OffsetRange("t", 1, 7, 8)), rows_max=3)
    assert [batch.num_rows for batch in batches] == [3, 2, 1, 1]
    assert _offsets(batches) == [*_of(0, 0, 1, 2, 3, 4), (1, 7), (0, 5)]


def test_two_ranges_of_one_partition_are_read_one_after_the_other():
    fetcher = ScriptFetcher([_fetched(T0, 0, 1)], [_fetched(T0, 4, 5)])
    ranges = (OffsetRange("t", 0, 0, 2), OffsetRange("t", 0, 4, 6))
    assert _offsets(_read(fetcher, ranges)) == _of(0, 0, 1, 4, 5)
    assert [[(each.start, each.end) for each in asked] for asked in fetcher.asked] == [[(0, 2)], [(4, 6)]]


@pytest.mark.parametrize("decode", [RECORDS, GROUP_RECORDS])
def test_records_of_aborted_transactions_are_no_rows(decode: str):
    batches = [
        encode_batch(
            [Record(offset, 0, b"k", b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        for offset, producer_id in ((0, 7), (1, 8))
    ]
    fetched = FetchedRecords(T0, 0, 2, memoryview(b"".join(batches)), ((7, 0),))
    assert _offsets(_read(ScriptFetcher([fetched]), _ranges(0, 2), decode=decode)) == _of(0, 1)


def test_records_of_groups_as_columns():
    (batch,) = _read(ScriptFetcher([_fetched(T0, 0, 1)]), _ranges(0, 2), columns=("offset", "is_known"), decode=GROUP_RECORDS)
    assert batch.to_pydict() == {"offset": [0, 1], "is_known": [False, False]}


def test_the_next_micro_batch_begins_with_what_was_fetched_too_much():
    fetcher = ScriptFetcher([_fetched(T0, 10, 24)], [_fetched(T0, 25, 29)])
    fetchers = FetcherPool(lambda _: fetcher)
    settings = ReadSettings(client=CLIENT, columns=("partition", "offset"))
    first, second, third = (
        _offsets(list(read(settings, ReadTask(_ranges(start, start + 5, "id")), prefetch=True, fetchers=fetchers)))
        for start in (12, 17, 22)
    )
    assert (first, second, third) == (_of(0, *range(12, 17)), _of(0, *range(17, 22)), _of(0, *range(22, 27)))
    # The first answer is enough for two, and in the third only what is missing is fetched.
    assert fetcher.asked == [[FetchRange(T0, 12, 17, "id")], [FetchRange(T0, 25, 27, "id")]]
    assert fetcher.prefetched == [[FetchRange(T0, 25, 27, "id")], [FetchRange(T0, 30, 32, "id")]]


def test_records_that_vanish_while_reading_fail_the_task():
    fetcher = ScriptFetcher([_fetched(T0, 10, 19), OffsetOutOfRangeError(T0, 20, 40, 50)])
    with pytest.raises(DataLossError, match=r"offset 20 of partition 0 of topic t is outside.*failOnDataLoss"):
        _read(fetcher, _ranges(10, 50))
    assert fetcher.closed


def test_or_are_passed_over_with_a_warning(caplog: pytest.LogCaptureFixture):
    fetcher = ScriptFetcher(
        [_fetched(T1, 0, 1), _fetched(T0, 10, 19), OffsetOutOfRangeError(T0, 20, -1, -1)],
        [_fetched(T1, 2, 2), _fetched(T0, 40, 49, first=35)],
    )
    with caplog.at_level(logging.WARNING):
        batches = _read(fetcher, (*_ranges(10, 50), OffsetRange("t", 1, 0, 3)), fail_on_data_loss=False)
    assert sorted(_offsets(batches)) == [*_of(0, *range(10, 20), *range(40, 50)), *_of(1, 0, 1, 2)]
    assert fetcher.asked[1] == [FetchRange(T1, 2, 3), FetchRange(T0, 40, 50)]
    assert caplog.messages == ["offset 20 of partition 0 of topic t is outside what the broker holds"]


@pytest.mark.parametrize("position", [20, 45])
def test_a_topic_that_was_cut_short_ends_the_range(position: int, monkeypatch: pytest.MonkeyPatch):
    fetcher = ScriptFetcher([_fetched(T0, 10, position - 1), OffsetOutOfRangeError(T0, position, 0, position)])
    monkeypatch.setattr(ScriptAdmin, "earliest", 0)
    monkeypatch.setattr(ScriptAdmin, "latest", position)
    assert len(_offsets(_read(fetcher, _ranges(10, 40 if position == 20 else 60), fail_on_data_loss=False))) == position - 10


def test_what_is_still_there_of_a_range_is_read_and_no_more_is_passed_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ScriptAdmin, "earliest", 0)
    monkeypatch.setattr(ScriptAdmin, "latest", 30)
    # Cut, and written to again before the check.
    fetcher = ScriptFetcher([_fetched(T0, 10, 19), OffsetOutOfRangeError(T0, 20, 0, 20)], [_fetched(T0, 20, 29)])
    assert _offsets(_read(fetcher, _ranges(10, 40), fail_on_data_loss=False)) == _of(0, *range(10, 30))
    assert fetcher.asked[1] == [FetchRange(T0, 20, 30)]


def test_a_range_that_is_there_again_is_not_passed_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ScriptAdmin, "earliest", 0)
    with pytest.raises(OffsetOutOfRangeError):
        _read(ScriptFetcher([_fetched(T0, 10, 19), OffsetOutOfRangeError(T0, 20, 0, 20)]), _ranges(10, 40), fail_on_data_loss=False)


def test_a_topic_that_was_recreated_has_its_own_sentence():
    with pytest.raises(DataLossError, match="topic t was deleted or re-created: its id was old, now it is new"):
        _read(ScriptFetcher([TopicRecreatedError("t", "old", "new")]), _ranges(0, 9, "old"))


@pytest.mark.parametrize(
    ("error", "topics"),
    [
        (TopicRecreatedError("t", "old", "new"), {"t": DescribedTopic("t", {0: 1, 1: 1}, "new")}),
        (UnknownTopicError("topic t is gone"), {"t": Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}),
        (UnknownTopicError("partition 0 is gone"), {"t": DescribedTopic("t", {}, "old")}),
    ],
)
def test_or_ends_its_ranges_with_a_warning(
    error: Exception, topics: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(ScriptAdmin, "topics", topics)
    with caplog.at_level(logging.WARNING):
        batches = _read(ScriptFetcher([_fetched(T0, 0, 4), error]), _ranges(0, 9, "old"), fail_on_data_loss=False)
    assert _offsets(batches) == _of(0, *range(5))
    assert caplog.messages == [str(error)]


def test_a_loss_that_is_not_found_is_reported():
    with pytest.raises(UnknownTopicError, match="gone"):
        _read(ScriptFetcher([UnknownTopicError("topic t is gone")]), _ranges(0, 9, "new"), fail_on_data_loss=False)


def test_nor_is_a_refusal_to_tell(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ScriptAdmin, "topics", {"t": Failure(ErrorCode.TOPIC_AUTHORIZATION_FAILED)})
    with pytest.raises(UnknownTopicError, match="gone"):
        _read(ScriptFetcher([UnknownTopicError("topic t is gone")]), _ranges(0, 9, "new"), fail_on_data_loss=False)


@pytest.mark.parametrize(("context", "freezes"), [(object(), 1), (None, 0)])
def test_a_worker_does_not_look_for_garbage_in_what_is_loaded(context: object, freezes: int, monkeypatch: pytest.MonkeyPatch):
    called: list[str] = []
    monkeypatch.setattr(task_reading.TaskContext, "get", lambda: context)
    monkeypatch.setattr(task_reading.gc, "freeze", lambda: called.append("freeze"))
    monkeypatch.setattr(task_reading, "_spare_collections", functools.cache(task_reading._spare_collections.__wrapped__))
    for _ in range(2):
        _read(ScriptFetcher([_fetched(T0, 0, 4)]), _ranges(0, 5))
    assert len(called) == freezes


A, B = ClientSettings(bootstrap_servers="a:1"), ClientSettings(bootstrap_servers="b:1")


class FakeFetcher:
    """Records its requests."""

    def __init__(self, settings: ClientSettings) -> None:
        self.asked: list[FetchRange] = []
        self.prefetched: list[FetchRange] = []
        self.closed = False

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        self.asked += ranges
        yield from ()

    def prefetch(self, ranges: Sequence[FetchRange]) -> None:
        self.prefetched += ranges

    def close(self) -> None:
        self.closed = True


class World:
    """A FetcherPool with a settable clock and process id."""

    def __init__(self) -> None:
        self.made: list[FakeFetcher] = []
        self.now_s = 0.0
        self.process_id = 1
        self.fetchers = FetcherPool(self._make, lambda: self.now_s, lambda: self.process_id)

    def _make(self, settings: ClientSettings) -> FakeFetcher:
        self.made.append(FakeFetcher(settings))
        return self.made[-1]

    def use(self, settings: ClientSettings = A) -> None:
        with self.fetchers.acquire(settings):
            pass


def test_one_for_all_tasks_with_the_same_settings():
    world = World()
    for settings in (A, B, A, B):
        world.use(settings)
    assert [each.closed for each in world.made] == [False, False]


def test_one_that_failed_is_not_used_again():
    world = World()
    with pytest.raises(BrokerUnavailableError), world.fetchers.acquire(A):
        raise BrokerUnavailableError("gone")
    world.use()
    assert [each.closed for each in world.made] == [True, False]


def test_one_that_was_unused_for_minutes_is_closed():
    world = World()
    world.use(A)
    world.now_s = IDLE_S_MAX - 1
    world.use(B)
    world.now_s = IDLE_S_MAX + 1
    world.use(B)
    assert [each.closed for each in world.made] == [True, False]


def test_a_forked_process_leaves_its_parent_s_alone():
    world = World()
    world.use()
    world.process_id = 2
    world.use()
    assert [each.closed for each in world.made] == [False, False]


def test_two_tasks_at_once_have_one_each():
    world = World()
    with world.fetchers.acquire(A), world.fetchers.acquire(A):
        pass
    world.use()
    assert [each.closed for each in world.made] == [True, False]


def _pool_fetched(partition: TopicPartition, position: int, next_offset: int, size: int = 10) -> FetchedRecords:
    return FetchedRecords(partition, position, next_offset, memoryview(bytearray(size)))


def _pool_read(buffered: BufferedFetcher, *ranges: FetchRange) -> list[tuple[TopicPartition, int, int]]:
    return [(each.partition, each.position, each.next_offset) for each in buffered.read(ranges)]


def test_what_was_fetched_too_much_comes_first_and_is_not_fetched():
    inner = FakeFetcher(A)
    buffered = BufferedFetcher(inner)
    buffered.buffer(FetchRange(T0, 0, 10, "id"), _pool_fetched(T0, 0, 30))
    assert _pool_read(buffered, FetchRange(T0, 15, 40, "id"), FetchRange(T1, 5, 6, "id")) == [(T0, 15, 30)]
    assert inner.asked == [FetchRange(T0, 30, 40, "id"), FetchRange(T1, 5, 6, "id")]
    assert _pool_read(buffered, FetchRange(T0, 15, 40, "id")) == []


@pytest.mark.parametrize(
    "wanted", [FetchRange(T0, 30, 40, "id"), FetchRange(T0, 9, 40, "id"), FetchRange(T0, 15, 40, "new"), FetchRange(T0, 15, 40)]
)
def test_other_records_than_those_are_fetched(wanted: FetchRange):
    inner = FakeFetcher(A)
    buffered = BufferedFetcher(inner)
    buffered.buffer(FetchRange(T0, 10, 20, wanted.topic_id and "id"), _pool_fetched(T0, 10, 30))
    assert _pool_read(buffered, wanted) == []
    assert inner.asked == [wanted]


def test_few_bytes_are_buffered_and_the_latest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetcher_pool, "PREFETCH_BYTES_MAX", 25)
    buffered = BufferedFetcher(FakeFetcher(A))
    ranges = [FetchRange(TopicPartition("t", number), 0, 10, "id") for number in range(4)]
    for wanted in ranges[:3]:
        buffered.buffer(wanted, _pool_fetched(wanted.partition, 0, 20))
    buffered.buffer(ranges[3], _pool_fetched(ranges[3].partition, 0, 20, size=26))
    assert [partition.partition for partition, _, _ in _pool_read(buffered, *ranges)] == [1, 2]


def test_prefetch_begins_behind_buffered_records():
    inner = FakeFetcher(A)
    buffered = BufferedFetcher(inner)
    done = [FetchRange(TopicPartition("t", number), 0, 10, "id") for number in range(3)]
    buffered.buffer(done[0], _pool_fetched(T0, 0, 15))
    buffered.buffer(done[1], _pool_fetched(T1, 0, 20))
    buffered.prefetch(done)
    # The second has all of the next ten, and the third ended where its partition ends.
    assert inner.prefetched == [FetchRange(T0, 15, 20, "id")]
