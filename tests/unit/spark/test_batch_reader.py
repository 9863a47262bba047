"""Planning a batch without Spark, against a cluster that is only a script."""

import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from ottla.consumer.cluster import EARLIEST
from ottla.core.model import TopicPartition
from ottla.spark import batch_reader
from ottla.spark.batch_reader import BatchReader
from ottla.spark.options import OptionError, parse_options
from ottla.spark.ranges import OffsetRange, ReadTask
from ottla.spark.schemas import KAFKA

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
TASK = ReadTask((OffsetRange("t", 0, 10, 50),))


class FakeCluster:
    """Topic t with offsets 10 to 50 in partition 0, none in partition 1."""

    earliest = {("t", 0): 10, ("t", 1): 0}

    def __init__(self, servers: str, **options: Any) -> None:
        assert servers == "localhost:9092"

    def __enter__(self) -> "FakeCluster":
        return self

    def __exit__(self, *error: object) -> None: ...

    def partitions(self, topics: tuple[str, ...]) -> dict[str, list[int]]:
        return {topic: [0, 1] for topic in topics}

    def offsets(self, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = self.earliest if timestamp == EARLIEST else {("t", 0): 50, ("t", 1): 0}
        return {partition: found[partition] for partition in partitions}


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "Cluster", FakeCluster)


def _reader(*fields: StructField, **options: str) -> BatchReader:
    return BatchReader(parse_options({**NEEDED, **options}), StructType(list(fields)) if fields else KAFKA)


def test_one_task_for_each_partition_with_records():
    assert _reader().partitions() == [TASK]


def test_the_reader_and_its_tasks_can_be_sent_to_workers():
    reader, task = pickle.loads(pickle.dumps((_reader(), _reader().partitions()[0])))
    assert task == TASK
    assert reader.partitions() == [task]


def test_spark_s_stand_in_for_no_partitions_gives_nothing():
    assert list(_reader().read(InputPartition(None))) == []


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("offset", IntegerType()), "There is no column offset int; the columns are key binary, value binary"),
        (StructField("ofset", LongType()), "There is no column ofset bigint"),
        (StructField("value", StringType()), "There is no column value string"),
        (StructField("value", BinaryType(), nullable=False), "The column value cannot be declared NOT NULL"),
    ],
)
def test_columns_that_cannot_be(field: StructField, message: str):
    with pytest.raises(OptionError, match=message):
        _reader(field)


def test_lost_records_are_told_when_planning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        planned = _reader(startingOffsets='{"t":{"0":3,"1":0}}', failOnDataLoss="false").partitions()
    assert planned == [TASK]
    assert "startingOffsets asks for offset 3 of t-0" in caplog.text
