"""Planning of a batch without Spark, against a scripted cluster."""

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.options.values import OptionError
from ottla.spark.schemas import KAFKA
from ottla.spark.source import batch_reader
from ottla.spark.source.batch_reader import BatchReader
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import DataLossError
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.tasks import ReadTask

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
