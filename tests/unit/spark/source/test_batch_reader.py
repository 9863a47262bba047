"""Planning of a batch without Spark, against a scripted cluster."""

import datetime
import logging
import pickle
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from ottla.client.settings import ClientSettings
from ottla.protocol.model import TopicPartition
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.options.values import OptionError
from ottla.spark.schemas import KAFKA
from ottla.spark.source import batch_reader
from ottla.spark.source.batch_reader import BatchReader, FilteredBatchReader, is_pushing, pruning_of
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import DataLossError, OffsetRange, ReadTask

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def _task(*ranges: tuple[int, int, int]) -> ReadTask:
    return ReadTask(tuple(OffsetRange("t", *each, "id-of-t") for each in ranges))


@pytest.fixture
def reader(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., BatchReader]:
    """`reader(option=value)` of topic t with offsets 10 to 50 in partition 0, none in partition 1, 0 to 4 in partition 2."""
    cluster.topic("t", (10, 50), (0, 0), (0, 4))
    monkeypatch.setattr(batch_reader, "OffsetReader", lambda options: OffsetReader(options, connect=cluster.connect, pause=lambda _: None))
    return lambda tasks_max=None, **options: BatchReader(parse_options({**NEEDED, **options}, Query.BATCH), KAFKA, tasks_max=tasks_max)


def test_one_task_for_each_partition_with_records(reader: Callable[..., BatchReader], cluster: Any):
    assert reader().partitions() == [_task((0, 10, 50)), _task((2, 0, 4))]
    assert not cluster.is_open


def test_partitions_share_tasks_where_cores_are_few(reader: Callable[..., BatchReader]):
    shared = [_task((0, 10, 50), (2, 0, 4))]
    assert reader(tasks_max=1).partitions() == shared
    assert reader(tasks_max=7, maxTasks="1").partitions() == shared
    assert reader(tasks_max=1, maxTasks="2").partitions() == [_task((0, 10, 50)), _task((2, 0, 4))]


def test_a_query_that_asks_for_more_tasks_gets_them(reader: Callable[..., BatchReader]):
    halves = [_task((0, 10, 30)), _task((0, 30, 50)), _task((2, 0, 4))]
    assert reader(tasks_max=1, minPartitions="3").partitions() == halves
    assert reader(tasks_max=1, maxRecordsPerPartition="20").partitions() == halves
    assert len(reader(maxRecordsPerPartition="20", maxTasks="2").partitions()) == 2


def test_the_reader_and_its_tasks_can_be_sent_to_workers(reader: Callable[..., BatchReader]):
    one = reader()
    copy, task = pickle.loads(pickle.dumps((one, one.partitions()[0])))
    assert task == _task((0, 10, 50))
    assert copy.partitions()[0] == task


def test_spark_s_stand_in_for_no_partitions_gives_nothing(reader: Callable[..., BatchReader]):
    assert list(reader().read(InputPartition(None))) == []


def test_ranges_by_options(reader: Callable[..., BatchReader], cluster: Any):
    offsets = {"startingOffsets": '{"t":{"0":12,"1":0,"2":-2}}', "endingOffsets": '{"t":{"0":20,"1":-1,"2":-1}}'}
    assert reader(**offsets).partitions() == [_task((0, 12, 20)), _task((2, 0, 4))]
    assert reader(subscribe="t", endingTimestamp="5").partitions() == [_task((0, 10, 50)), _task((2, 0, 4))]


def test_lost_records_fail_or_are_told_when_planning(reader: Callable[..., BatchReader], caplog: pytest.LogCaptureFixture):
    early = {"startingOffsets": '{"t":{"0":3,"1":0,"2":0}}'}
    with pytest.raises(DataLossError, match="startingOffsets asks for offset 3 of t-0, which holds 10 to 50"):
        reader(**early).partitions()
    with caplog.at_level(logging.WARNING):
        planned = reader(**early, failOnDataLoss="false").partitions()
    assert planned == [_task((0, 10, 50)), _task((2, 0, 4))]
    assert "startingOffsets asks for offset 3 of t-0" in caplog.text


def test_an_end_that_lies_before_its_start(reader: Callable[..., BatchReader]):
    with pytest.raises(OptionError, match="resolved start offset 51 is greater than the resolved end offset 50"):
        reader(startingOffsets='{"t":{"0":51,"1":0,"2":0}}', failOnDataLoss="false").partitions()


RANGES = [OffsetRange("t", partition, 10, 20, "id") for partition in range(4)]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _at_us(microseconds: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=microseconds)


def _no_lookup(partitions: Any, timestamp_ms: int) -> Any:
    raise AssertionError("a broker is asked")


def _left(*pushed: Filter) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in pruning_of(pushed).apply(RANGES, _no_lookup)]


PARTITION, OFFSET, TIMESTAMP = ("partition",), ("offset",), ("timestamp",)


@pytest.mark.parametrize(
    ("pushed", "partitions"),
    [
        (EqualTo(PARTITION, 2), {2}),
        (EqualNullSafe(PARTITION, 2), {2}),
        (In(PARTITION, (1, 3, None, 9)), {1, 3}),
        (In(PARTITION, (None,)), set()),
        (GreaterThan(PARTITION, 1), {2, 3}),
        (GreaterThanOrEqual(PARTITION, 1), {1, 2, 3}),
        (LessThan(PARTITION, 1), {0}),
        (LessThanOrEqual(PARTITION, 1), {0, 1}),
        (EqualTo(PARTITION, "2"), {0, 1, 2, 3}),
        (EqualNullSafe(PARTITION, None), {0, 1, 2, 3}),
        (In(PARTITION, (1, "3")), {0, 1, 2, 3}),
        (EqualTo(("other",), 2), {0, 1, 2, 3}),
        (EqualTo(("partition", "nested"), 2), {0, 1, 2, 3}),
        (IsNotNull(PARTITION), {0, 1, 2, 3}),
        (Not(EqualTo(PARTITION, 2)), {0, 1, 2, 3}),
    ],
)
def test_partitions(pushed: Filter, partitions: set[int]):
    assert _left(pushed) == [(partition, 10, 20) for partition in sorted(partitions)]


@pytest.mark.parametrize(
    ("pushed", "start", "end"),
    [
        ([EqualTo(OFFSET, 12)], 12, 13),
        ([In(OFFSET, (18, 12, 30))], 12, 20),
        ([GreaterThan(OFFSET, 12)], 13, 20),
        ([GreaterThanOrEqual(OFFSET, 12)], 12, 20),
        ([LessThan(OFFSET, 12)], 10, 12),
        ([LessThanOrEqual(OFFSET, 12)], 10, 13),
        ([GreaterThan(OFFSET, 12), LessThan(OFFSET, 15), GreaterThan(OFFSET, 2)], 13, 15),
    ],
)
def test_offsets(pushed: list[Filter], start: int, end: int):
    assert _left(*pushed, EqualTo(PARTITION, 0)) == [(0, start, end)]


def test_nothing_can_be_left():
    assert _left(GreaterThan(OFFSET, 12), LessThan(OFFSET, 12)) == _left(In(PARTITION, (1, 2)), In(PARTITION, (0, 3))) == []


@pytest.mark.parametrize(
    ("pushed", "asked_ms"),
    [
        (GreaterThanOrEqual(TIMESTAMP, _at_us(5_000)), 5),
        (GreaterThanOrEqual(TIMESTAMP, _at_us(5_001)), 6),
        (GreaterThan(TIMESTAMP, _at_us(5_000)), 6),
        (GreaterThan(TIMESTAMP, _at_us(5_999)), 6),
        (EqualTo(TIMESTAMP, _at_us(5_000).astimezone(datetime.timezone(datetime.timedelta(hours=5)))), 5),
        (In(TIMESTAMP, (_at_us(9_000), _at_us(7_000), _at_us(6_500))), 7),
    ],
)
def test_a_time_begins_at_the_first_record_that_is_late_enough(pushed: Filter, asked_ms: int):
    def first_offsets(partitions: Any, timestamp_ms: int) -> dict[TopicPartition, int]:
        assert timestamp_ms == asked_ms
        assert partitions == [TopicPartition("t", partition) for partition in range(4)]
        return dict(zip(partitions, (3, 15, 20, -1), strict=True))

    left = pruning_of([pushed]).apply(RANGES, first_offsets)
    assert left == [RANGES[0], OffsetRange("t", 1, 15, 20, "id")]


@pytest.mark.parametrize(
    "pushed",
    [
        LessThan(TIMESTAMP, _at_us(5_000)),
        LessThanOrEqual(TIMESTAMP, _at_us(5_000)),
        GreaterThan(TIMESTAMP, _at_us(-7_000)),
        GreaterThan(TIMESTAMP, datetime.datetime(2020, 1, 1)),
        GreaterThan(TIMESTAMP, 5),
    ],
)
def test_other_times_leave_everything_and_nothing_is_asked(pushed: Filter):
    assert len(_left(pushed)) == 4


comparisons = st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])
TRUE_OF = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}


@given(
    st.lists(
        st.one_of(
            st.tuples(comparisons, st.just(OFFSET), st.integers(8, 22)),
            st.tuples(comparisons, st.just(PARTITION), st.integers(-1, 4)),
            st.tuples(comparisons, st.just(TIMESTAMP), st.integers(0, 12_000).map(_at_us)),
        ),
        max_size=4,
    ),
    st.lists(st.integers(0, 12), min_size=10, max_size=10),
)
def test_no_row_is_lost(pushed: list[Any], times_ms: list[int]):
    rows = [
        {"partition": each.partition, "offset": offset, "timestamp": _at_us(times_ms[offset - 10] * 1000)}
        for each in RANGES
        for offset in range(each.start, each.end)
    ]

    def first_offsets(partitions: Any, timestamp_ms: int) -> dict[TopicPartition, int]:
        late = [10 + index for index, at_ms in enumerate(times_ms) if at_ms >= timestamp_ms]
        return dict.fromkeys(partitions, late[0] if late else -1)

    wanted = {(row["partition"], row["offset"]) for row in rows if all(TRUE_OF[kind](row[name], value) for kind, (name,), value in pushed)}
    left = pruning_of([kind(name, value) for kind, name, value in pushed]).apply(RANGES, first_offsets)
    assert wanted <= {(each.partition, offset) for each in left for offset in range(each.start, each.end)}


OPTIONS = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


class FakeAdmin:
    """Every partition has its first record at or after any time at offset 30."""

    def __init__(self, settings: ClientSettings) -> None:
        assert settings.bootstrap_servers == "localhost:9092"

    def __enter__(self) -> "FakeAdmin":
        return self

    def __exit__(self, *_: object) -> None: ...

    def list_offsets(self, partitions: Any, timestamp_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 30)


@pytest.fixture
def pruned_reader(monkeypatch: pytest.MonkeyPatch) -> FilteredBatchReader:
    monkeypatch.setattr(BatchReader, "ranges", lambda _: [OffsetRange("t", number, 10, 50) for number in range(3)])
    monkeypatch.setattr(batch_reader, "AdminClient", FakeAdmin)
    return FilteredBatchReader(parse_options(OPTIONS, Query.BATCH), KAFKA)


def test_it_reads_less_and_spark_filters_the_rows_again(pruned_reader: FilteredBatchReader):
    pushed: list[Filter] = [EqualTo(("partition",), 2), GreaterThan(("timestamp",), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))]
    assert pruned_reader.pushFilters(pushed) is pushed
    assert pruned_reader.partitions() == [ReadTask((OffsetRange("t", 2, 30, 50),))]


def test_without_filters_it_reads_everything(pruned_reader: FilteredBatchReader):
    assert len(pruned_reader.partitions()) == 3


def test_only_spark_s_own_worker_for_it_pushes_filters(monkeypatch: pytest.MonkeyPatch):
    assert not is_pushing()
    worker = "pyspark.sql.worker.data_source_pushdown_filters"
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, worker, SimpleNamespace())
        assert is_pushing()
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name=worker)))
    assert is_pushing()
