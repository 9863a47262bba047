"""The source without Spark: planning and reading are plain Python, against a broker that is only a script."""

import logging
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from ottla.consumer.cluster import EARLIEST
from ottla.consumer.errors import OffsetOutOfRangeError
from ottla.core.model import Record, TopicPartition
from ottla.core.records.batch import encode_batch
from ottla.spark import source
from ottla.spark.options import OptionError
from ottla.spark.planning import DataLossError
from ottla.spark.schemas import KAFKA, KAFKA_WITH_HEADERS
from ottla.spark.source import OttlaDataSource, OttlaReader, PartitionRange

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


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


class FakeReader:
    """Gives the batches that `script` names by offset; an exception is raised."""

    script: dict[int, list[Any]] = {}

    def __init__(self, cluster: FakeCluster, partition: TopicPartition, **bounds: int) -> None: ...

    def read(self, start: int, end: int, scan: Any) -> Any:
        for piece in self.script[start]:
            if isinstance(piece, Exception):
                raise piece
            yield scan(piece)


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "Cluster", FakeCluster)
    monkeypatch.setattr(source, "PartitionReader", FakeReader)


def _reader(*fields: StructField, **options: str) -> OttlaReader:
    schema = StructType(list(fields)) if fields else KAFKA
    return OttlaDataSource({**NEEDED, **options}).reader(schema=schema)


def _batch(first: int, last: int) -> memoryview:
    return memoryview(encode_batch([Record(i, 0, None, b"%d" % i) for i in range(first, last + 1)], base_offset=first))


def _offsets(reader: OttlaReader, partition: InputPartition) -> list[int]:
    return [offset.as_py() for batch in reader.read(partition) for offset in batch["offset"]]


def test_the_schema_is_the_kafka_source_s():
    assert OttlaDataSource.name() == "ottla"
    assert OttlaDataSource(NEEDED).schema() == KAFKA
    assert OttlaDataSource({**NEEDED, "includeHeaders": "true"}).schema() == KAFKA_WITH_HEADERS


def test_one_task_for_each_partition_with_records():
    assert _reader().partitions() == [PartitionRange("t", 0, 10, 50)]


def test_the_reader_and_its_tasks_can_be_sent_to_workers():
    reader, task = pickle.loads(pickle.dumps((_reader(), _reader().partitions()[0])))
    assert task == PartitionRange("t", 0, 10, 50)
    assert reader.partitions() == [task]


def test_only_the_range_s_records_and_the_asked_columns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeReader, "script", {12: [_batch(10, 19), _batch(20, 29)]})
    (first, second) = _reader(StructField("offset", LongType()), StructField("value", BinaryType())).read(PartitionRange("t", 0, 12, 25))
    assert first.schema == pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    assert (first["offset"].to_pylist(), second["offset"].to_pylist()) == (list(range(12, 20)), list(range(20, 25)))


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


def test_records_that_vanish_while_reading_fail_the_task(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeReader, "script", {10: [_batch(10, 19), OffsetOutOfRangeError("offset 20 is gone")]})
    with pytest.raises(DataLossError, match=r"offset 20 is gone.*failOnDataLoss"):
        _offsets(_reader(), PartitionRange("t", 0, 10, 50))


def test_or_are_passed_over_with_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(FakeCluster, "earliest", {("t", 0): 40})
    gone = OffsetOutOfRangeError("offset 20 is gone")
    monkeypatch.setattr(FakeReader, "script", {10: [_batch(10, 19), gone], 40: [_batch(35, 49)]})
    with caplog.at_level(logging.WARNING):
        offsets = _offsets(_reader(failOnDataLoss="false"), PartitionRange("t", 0, 10, 50))
    assert offsets == [*range(10, 20), *range(40, 50)]
    assert caplog.messages == ["offset 20 is gone"]


def test_a_topic_that_was_cut_short_ends_the_range(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeReader, "script", {10: [_batch(10, 19), OffsetOutOfRangeError("ends at 20")]})
    assert _offsets(_reader(failOnDataLoss="false"), PartitionRange("t", 0, 10, 50)) == list(range(10, 20))


def test_lost_records_are_told_when_planning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        planned = _reader(startingOffsets='{"t":{"0":3,"1":0}}', failOnDataLoss="false").partitions()
    assert planned == [PartitionRange("t", 0, 10, 50)]
    assert "startingOffsets asks for offset 3 of t-0" in caplog.text
