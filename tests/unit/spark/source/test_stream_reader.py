"""A stream's reader as Spark calls it, without Spark, against a scripted cluster."""

import logging
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.protocol.model import TopicPartition
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.options.values import OptionError
from ottla.spark.schemas import KAFKA
from ottla.spark.source.member_reader import MemberStreamReader
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import CheckpointError, DataLossError, OffsetRange, Offsets, ReadTask
from ottla.spark.source.stream_reader import (
    AvailableNowError,
    BatchThreshold,
    RefusedStreamReader,
    StreamBase,
    StreamReader,
    share,
    verify_end,
)

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "startingOffsets": "earliest"}
ALL = ReadAllAvailable()
LOSSY = {"failOnDataLoss": "false"}


class Committer:
    """Records the offers."""

    def __init__(self) -> None:
        self.begun: list[Mapping[TopicPartition, int]] = []
        self.offered: list[tuple[list[int], bool]] = []
        self.is_closed = False

    def begin(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.begun.append(offsets)

    def offer(self, offsets: Mapping[TopicPartition, int], *, is_last: bool = False) -> None:
        self.offered.append(([offsets[partition] for partition in sorted(offsets)], is_last))

    def metrics(self) -> Mapping[str, int | str]:
        return {"commits": len(self.offered)}

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def reader(cluster: Any) -> Callable[..., StreamReader]:
    """`reader(option=value)` of topic t: offsets 10 to 50 in partition 0, 0 to 10 in partition 1; the time is `cluster.now`, in seconds."""
    cluster.topic("t", (10, 50), (0, 10))
    cluster.now = 0.0

    def make(committer: Any = None, **given: str | None) -> StreamReader:
        options = parse_options({name: value for name, value in {**NEEDED, **given}.items() if value is not None}, Query.STREAM)
        asks = OffsetReader(options, connect=cluster.connect, pause=lambda _: None)
        return StreamReader(options, KAFKA, reader=asks, committer=committer, clock=lambda: cluster.now)

    return make


def _t(*offsets: int, topic_id: str = "id-of-t") -> dict[str, Any]:
    if not offsets:
        return {"#topic_ids": {}}
    return {"t": {str(number): offset for number, offset in enumerate(offsets)}, "#topic_ids": {"t": topic_id}}


def _ranges(tasks: list[InputPartition]) -> list[tuple[int, int, int]]:
    assert all(isinstance(task, ReadTask) for task in tasks)
    return [each[1:4] for task in tasks if isinstance(task, ReadTask) for each in task.ranges]


def test_a_query_s_life(reader: Callable[..., StreamReader], cluster: Any):
    one = reader()
    assert one.reportLatestOffset() is None
    initial = one.initialOffset()
    cluster.topic("t", (12, 50), (0, 10))
    assert one.initialOffset() == initial == _t(10, 0)
    assert one.getDefaultReadLimit() == ALL
    end = one.latestOffset(initial, ALL)
    assert end == one.reportLatestOffset() == _t(50, 10)
    tasks = one.partitions(initial, end)
    assert tasks == [ReadTask((OffsetRange("t", 0, 10, 50, "id-of-t"),)), ReadTask((OffsetRange("t", 1, 0, 10, "id-of-t"),))]
    assert one.latestOffset(end, ALL) == end
    one.commit(end)
    one.stop()
    assert not cluster.is_open


def test_a_pickled_reader_holds_no_connection(reader: Callable[..., StreamReader]):
    one = reader()
    one.latestOffset(one.initialOffset(), ALL)
    copy = pickle.loads(pickle.dumps(one))
    assert isinstance(copy, StreamReader)
    assert copy._settings == one._settings
    assert list(copy.read(InputPartition(None))) == []


def test_initial_offsets_at_the_end_begin_with_an_empty_batch(reader: Callable[..., StreamReader], cluster: Any):
    first = reader(startingOffsets="latest")
    initial = first.initialOffset()
    cluster.topic("t", (10, 55), (0, 10))
    assert first.latestOffset(initial, ALL) == initial == _t(50, 10)
    assert first.partitions(initial, initial) == []
    cluster.topic("t", (10, 55), (0, 10), (0, 2))
    assert _ranges(first.partitions(initial, first.latestOffset(initial, ALL))) == [(0, 50, 55), (2, 0, 2)]
    # The same batch, interrupted before Spark had noted that it was done: its end is all that is known of the beginning.
    cluster.topic("t", (10, 60), (0, 10))
    again = reader(startingOffsets="latest")
    assert again.initialOffset() == _t(60, 10)
    assert again.partitions(again.initialOffset(), initial) == []
    assert again.latestOffset(initial, ALL) == _t(60, 10)
    assert _ranges(again.partitions(initial, _t(60, 10))) == [(0, 50, 60)]


def test_also_when_a_topic_has_no_partition_to_read(reader: Callable[..., StreamReader], cluster: Any):
    cluster.topic("u", (0, 9))
    one = reader(subscribe=None, assign='{"t":[0],"u":[7]}', startingOffsets="latest")
    initial = one.initialOffset()
    cluster.topic("t", (10, 55), (0, 10))
    assert one.latestOffset(initial, ALL) == initial == _t(50)
    assert _ranges(one.partitions(initial, one.latestOffset(initial, ALL))) == [(0, 50, 55)]


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"maxOffsetsPerTrigger": "20"}, ReadMaxRows(20)),
        ({"minOffsetsPerTrigger": "20"}, ReadMinRows(20)),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "20"}, ReadMaxRows(20)),
    ],
)
def test_limits_of_a_trigger(reader: Callable[..., StreamReader], options: dict[str, str], limit: object):
    assert reader(**options).getDefaultReadLimit() == limit


def test_a_batch_gets_its_share_of_every_partition(reader: Callable[..., StreamReader], cluster: Any):
    one = reader(maxOffsetsPerTrigger="20")
    end = one.latestOffset(one.initialOffset(), ReadMaxRows(20))
    assert (end, one.reportLatestOffset()) == (_t(26, 4), _t(50, 10))
    assert one.latestOffset(end, ALL) == _t(50, 10)
    cluster.topic("t", (10, 50), (0, 10), (0, 30))
    assert one.latestOffset(_t(26, 4), ReadMaxRows(20)) == _t(34, 6, 10)


def test_a_batch_waits_for_enough_offsets_but_not_endlessly(reader: Callable[..., StreamReader], cluster: Any):
    one = reader(minOffsetsPerTrigger="20", maxOffsetsPerTrigger="30", maxTriggerDelay="10s")
    end = one.latestOffset(one.initialOffset(), ReadMaxRows(30))
    assert end == _t(34, 6)
    assert one.latestOffset(end, ReadMaxRows(30)) == _t(50, 10)
    cluster.topic("t", (10, 60), (0, 15))
    cluster.now = 9.9
    start = _t(50, 10)
    assert one.latestOffset(start, ReadMaxRows(30)) is start
    assert one.reportLatestOffset() == _t(60, 15)
    cluster.now = 10
    assert one.latestOffset(start, ReadMaxRows(30)) == _t(60, 15)


def test_available_now_reads_to_the_first_ends(reader: Callable[..., StreamReader], cluster: Any):
    committer = Committer()
    one = reader(committer, maxOffsetsPerTrigger="40", minOffsetsPerTrigger="15")
    one.prepareForTriggerAvailableNow()
    first = one.latestOffset(one.initialOffset(), ReadMaxRows(40))
    assert first == _t(42, 8)
    cluster.topic("t", (10, 70), (0, 10))
    assert _ranges(one.partitions(_t(10, 0), first)) == [(0, 10, 42), (1, 0, 8)]
    assert one.latestOffset(first, ReadMaxRows(40)) == _t(50, 10)
    assert one.latestOffset(_t(50, 10), ReadMaxRows(40)) == _t(50, 10)
    assert committer.begun == [{("t", 0): 10, ("t", 1): 0}]
    assert committer.offered == [([10, 0], False), ([42, 8], False), ([50, 10], True)]
    one.stop()
    assert committer.is_closed
    cluster.topic("t", (10, 45), (0, 10))
    with pytest.raises(AvailableNowError, match="less than end offset"):
        one.partitions(_t(42, 8), _t(50, 10))


def test_partitions_that_come_and_go(reader: Callable[..., StreamReader], cluster: Any, caplog: pytest.LogCaptureFixture):
    cluster.topic("t", (10, 50), (0, 10), (0, 3))
    end = reader().latestOffset(_t(50, 10), ALL)
    assert _ranges(reader().partitions(_t(50, 10), end)) == [(2, 0, 3)]
    with pytest.raises(DataLossError, match="Partitions t-3 have been deleted"):
        reader().partitions(_t(50, 10, 3, 9), end)
    with caplog.at_level(logging.WARNING):
        assert reader(**LOSSY).partitions(_t(50, 10, 3, 9), end) == []
    assert "Partitions t-3 have been deleted" in caplog.text


def test_a_topic_that_vanishes(reader: Callable[..., StreamReader], cluster: Any):
    cluster.delete("t")
    for options in ({}, LOSSY):
        assert reader(**options).latestOffset(_t(50, 10), ALL) == _t()
    with pytest.raises(DataLossError, match="Partitions t-0, t-1 have been deleted"):
        reader().partitions(_t(50, 10), _t())
    lossy = reader(**LOSSY)
    assert lossy.partitions(_t(50, 10), _t()) == []
    assert lossy.latestOffset(_t(), ALL) == _t()
    cluster.topic("t", (0, 5), topic_id="new")
    assert lossy.latestOffset(_t(), ALL) == _t(5, topic_id="new")
    assert _ranges(lossy.partitions(_t(), _t(5, topic_id="new"))) == [(0, 0, 5)]


def test_a_re_created_topic_is_detected_before_a_batch(reader: Callable[..., StreamReader], cluster: Any, caplog: pytest.LogCaptureFixture):
    one, lossy = reader(), reader(**LOSSY, maxOffsetsPerTrigger="5")
    cluster.topic("t", (2, 80), topic_id="new")
    sentence = "Topic t was deleted and re-created: its id was id-of-t, now it is new"
    with pytest.raises(DataLossError, match=sentence):
        one.latestOffset(_t(50, 10), ALL)
    with caplog.at_level(logging.WARNING):
        end = lossy.latestOffset(_t(50, 10), ReadMaxRows(5))
    assert sentence in caplog.text
    assert end == _t(7, topic_id="new")
    assert _ranges(lossy.partitions(_t(50, 10), end)) == [(0, 2, 7)]


def test_and_when_a_planned_batch_is_repeated(reader: Callable[..., StreamReader], cluster: Any):
    cluster.topic("t", (0, 80), (0, 10), topic_id="new")
    with pytest.raises(DataLossError, match="its id was id-of-t, now it is new"):
        reader().partitions(_t(10, 0), _t(50, 10))
    lossy = reader(**LOSSY)
    assert lossy.partitions(_t(10, 0), _t(50, 10)) == []
    end = lossy.latestOffset(_t(50, 10), ALL)
    assert _ranges(lossy.partitions(_t(50, 10), end)) == [(0, 0, 80), (1, 0, 10)]
    cluster.delete("t")
    with pytest.raises(DataLossError, match="Topic t has been deleted"):
        reader().partitions(_t(10, 0), _t(50, 10))


def test_partitions_that_came_since_a_first_batch_was_planned_are_for_the_next(reader: Callable[..., StreamReader], cluster: Any):
    planned = reader()
    end = planned.latestOffset(planned.initialOffset(), ALL)
    # Interrupted before Spark had noted that it was done: a new query finds its own beginning again, now with one partition more.
    cluster.topic("t", (10, 55), (0, 10), (0, 3))
    again = reader()
    initial = again.initialOffset()
    assert initial == _t(10, 0, 0)
    assert _ranges(again.partitions(initial, end)) == [(0, 10, 50), (1, 0, 10)]
    assert _ranges(again.partitions(end, again.latestOffset(end, ALL))) == [(0, 50, 55), (2, 0, 3)]


def test_a_timestamp_at_the_end_begins_with_an_empty_batch_too(reader: Callable[..., StreamReader], cluster: Any):
    one = reader(startingOffsets=None, startingTimestamp="-1")
    initial = one.initialOffset()
    cluster.topic("t", (10, 55), (0, 10))
    assert one.latestOffset(initial, ALL) == initial == _t(50, 10)


def test_a_checkpoint_of_the_jvm_connector_continues(reader: Callable[..., StreamReader]):
    one = reader()
    start = {"t": {"1": 3, "0": 20}}
    assert _ranges(one.partitions({"t": {"1": 1, "0": 10}}, start)) == [(0, 10, 20), (1, 1, 3)]
    end = one.latestOffset(start, ALL)
    assert end == _t(50, 10)
    assert _ranges(one.partitions(start, end)) == [(0, 20, 50), (1, 3, 10)]
    with pytest.raises(CheckpointError, match="Is the checkpoint one of another query"):
        one.latestOffset({"logOffset": 5}, ALL)


def test_offsets_beyond_the_end_are_a_loss(reader: Callable[..., StreamReader]):
    one = reader()
    end = one.latestOffset(_t(51, 10), ALL)
    with pytest.raises(DataLossError, match="Partition t-0 offset was changed from 51 to 50"):
        one.partitions(_t(51, 10), end)
    assert reader(**LOSSY).partitions(_t(51, 10), end) == []


def test_processed_offsets_are_offered_to_the_group(reader: Callable[..., StreamReader]):
    committer = Committer()
    one = reader(committer)
    one.latestOffset(_t(20, 5), ALL)
    assert (committer.begun, committer.offered) == ([], [([20, 5], False)])
    report = one.reportLatestOffset()
    assert report is not None
    assert (report["t"], report["#group_commit"]) == ({"0": 50, "1": 10}, {"commits": 1})
    assert reader(**{"group.id": "g"})._committer is not None
    assert reader()._committer is None


A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def _verify(end: dict[TopicPartition, int], frozen: dict[TopicPartition, int], latest: dict[TopicPartition, int]) -> None:
    verify_end(*(Offsets(each, {}) for each in (end, frozen, latest)))


def test_an_end_on_the_way_is_fine():
    _verify({A: 5, B: 9}, {A: 9, B: 9}, {A: 20, B: 9})


@pytest.mark.parametrize(
    ("end", "frozen", "latest", "message"),
    [
        ({A: 5}, {A: 5, B: 5}, {A: 5, B: 5}, "other topic partitions at the end .* Set out for: t-0, t-1. End: t-0"),
        ({A: 6}, {A: 5}, {A: 9}, "lies behind what the query set out for: t-0"),
        ({A: 5, B: 5}, {A: 5, B: 5}, {A: 5}, "have been lost during running query with Trigger.AvailableNow: t-1"),
        ({A: 5}, {A: 5}, {A: 4}, "less than end offset during running query with Trigger.AvailableNow: t-0"),
    ],
)
def test_what_changed_meanwhile(end, frozen, latest, message: str):
    with pytest.raises(AvailableNowError, match=message):
        _verify(end, frozen, latest)


def _places(offsets: list[int]) -> dict[TopicPartition, int]:
    return {TopicPartition("t", number): offset for number, offset in enumerate(offsets)}


@pytest.mark.parametrize(
    ("limit", "ends", "shared"),
    [
        (10, [99, 19, 1], [8, 1, 1]),
        (10, [5, 5], [5, 5]),
        (4, [2, 2], [2, 2]),
        (1, [1000, 1], [1, 1]),
        (3, [1, 1, 1, 1], [1, 1, 1, 1]),
        (2**63 - 1, [2**63 - 1, 5], [2**63 - 1, 5]),
    ],
)
def test_each_gets_its_share_and_none_starves(limit: int, ends: list[int], shared: list[int]):
    assert share(limit, _places([0] * len(ends)), _places(ends)) == _places(shared)


def test_batch_after_batch_as_spark_s_own_suite_has_it():
    ends, at, batches = _places([101, 11, 1]), _places([0, 0, 0]), []
    for _ in range(3):
        shared = share(10, at, ends)
        batches.append([shared[partition] - at[partition] for partition in sorted(ends)])
        at = shared
    assert batches == [[8, 1, 1], [9, 1, 0], [9, 1, 0]]


def test_shares_are_counted_from_where_a_partition_is():
    assert share(10, _places([90, 0, 50]), _places([100, 10, 50])) == _places([95, 5, 50])


def test_a_partition_without_a_start_or_behind_it_keeps_its_end():
    starts = {TopicPartition("t", 0): 10, TopicPartition("t", 1): 0}
    assert share(5, starts, _places([7, 10, 30])) == _places([7, 5, 30])
    assert share(5, {}, _places([7])) == _places([7])


@given(st.integers(1, 10_000), st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 5_000)), min_size=1, max_size=8))
def test_no_share_goes_too_far_and_all_go_on(limit: int, limits: list[tuple[int, int]]):
    starts, ends = _places([start for start, _ in limits]), _places([start + size for start, size in limits])
    shared = share(limit, starts, ends)
    assert all(starts[partition] <= shared[partition] <= ends[partition] for partition in ends)
    assert all(shared[partition] > starts[partition] for partition in ends if ends[partition] > starts[partition])
    assert sum(shared.values()) - sum(starts.values()) <= limit + len(limits)


def test_a_batch_waits_for_enough_or_for_long_enough():
    threshold = BatchThreshold(10, 1_000)
    starts = _places([5])
    assert threshold.admit(starts, _places([6]), 1)  # the first one waits for nothing
    assert not threshold.admit(starts, _places([14]), 2)
    assert threshold.admit(starts, _places([15]), 3)
    assert not threshold.admit(starts, _places([5]), 1_002)
    assert threshold.admit(starts, _places([5]), 1_003)
    assert not threshold.admit(starts, _places([14]), 1_004)
    assert threshold.admit(starts, {**_places([14]), TopicPartition("new", 0): 1}, 1_005)


STREAM_NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "group.id": "g"}
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(params=[StreamReader, MemberStreamReader])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def make(kind: type[StreamBase], options: Mapping[str, str] = {}, now: list[float] | None = None) -> Any:
    mode = "member" if kind is MemberStreamReader else "commit"
    parsed = parse_options({**STREAM_NEEDED, "ottla.group.mode": mode, **options}, Query.STREAM)
    times = now or [0.0]
    return kind(parsed, KAFKA, tasks_max=3, clock=lambda: times[0])


def test_a_reader_for_tasks(kind: type[StreamBase]) -> None:
    one = make(kind)
    copy = pickle.loads(pickle.dumps(one))
    assert type(copy) is kind
    assert (copy._settings, copy._tasks_max) == (one._settings, 3)
    assert list(copy.read(InputPartition(None))) == []
    copy.commit({})


def test_the_limit_that_spark_passes_back(kind: type[StreamBase]) -> None:
    assert make(kind).getDefaultReadLimit() == ReadAllAvailable()
    assert make(kind, {"minOffsetsPerTrigger": "5"}).getDefaultReadLimit() == ReadMinRows(5)
    assert make(kind, {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "9"}).getDefaultReadLimit() == ReadMaxRows(9)


def test_limits_of_a_batch(kind: type[StreamBase]) -> None:
    now = [0.0]
    one = make(kind, {"minOffsetsPerTrigger": "40", "maxTriggerDelay": "10s"}, now)
    begins, latest = {ZERO: 10, ONE: 0}, Offsets({ZERO: 40, ONE: 10}, {})
    assert one._limit(begins, latest, ReadAllAvailable()) == latest.by_partition
    assert one._limit(begins, latest, ReadMaxRows(20)) == {ZERO: 25, ONE: 5}
    few = Offsets({ZERO: 11, ONE: 0}, {})
    assert one._limit(begins, few, ReadMinRows(40)) is None
    now[0] += 11
    assert one._limit(begins, few, ReadMinRows(40)) == few.by_partition
    assert one._limit(begins, few, ReadMinRows(40)) is None
    one.prepareForTriggerAvailableNow()
    assert one._limit(begins, few, ReadMinRows(40)) == few.by_partition


def test_it_raises_its_error_and_stops():
    reader = RefusedStreamReader(OptionError("wrong"))
    calls: list[Callable[[], Any]] = [
        reader.initialOffset,
        reader.getDefaultReadLimit,
        reader.prepareForTriggerAvailableNow,
        lambda: reader.latestOffset({}, ALL),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(InputPartition(0)),
    ]
    for call in calls:
        with pytest.raises(OptionError, match="wrong"):
            call()
    reader.stop()
