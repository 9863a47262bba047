"""A stream's reader as Spark calls it, without Spark, against a scripted cluster."""

import logging
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.core.model import TopicPartition
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.schemas import KAFKA
from ottla.spark.source.available_now import AvailableNowError
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import DataLossError
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.stream_offsets import CheckpointError
from ottla.spark.source.stream_reader import StreamReader
from ottla.spark.source.tasks import ReadTask

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
