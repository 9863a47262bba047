"""What a task reads, against a broker that is only a script: its ranges' records and columns, and what missing records mean."""

import logging
from typing import Any

import pyarrow as pa
import pytest

from ottla.consumer.errors import OffsetOutOfRangeError
from ottla.core.model import Record, TopicPartition
from ottla.core.records.batch import encode_batch
from ottla.spark import task_reading
from ottla.spark.options import parse_options
from ottla.spark.planning import DataLossError
from ottla.spark.ranges import OffsetRange, ReadTask
from ottla.spark.task_reading import ReadSettings, read

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


class FakeCluster:
    """Topic t with offsets 10 to 50 in partition 0, none in partition 1."""

    earliest = {("t", 0): 10, ("t", 1): 0}

    def __init__(self, servers: str, **options: Any) -> None:
        assert servers == "localhost:9092"

    def __enter__(self) -> "FakeCluster":
        return self

    def __exit__(self, *error: object) -> None: ...

    def offsets(self, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        return {partition: self.earliest[partition] for partition in partitions}


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
    monkeypatch.setattr(task_reading, "Cluster", FakeCluster)
    monkeypatch.setattr(task_reading, "PartitionReader", FakeReader)


def _read(start: int, end: int, *columns: str, **options: str) -> list[pa.RecordBatch]:
    settings = ReadSettings(parse_options({**NEEDED, **options}), columns or ("offset",))
    return list(read(settings, ReadTask((OffsetRange("t", 0, start, end),))))


def _batch(first: int, last: int) -> memoryview:
    return memoryview(encode_batch([Record(i, 0, None, b"%d" % i) for i in range(first, last + 1)], base_offset=first))


def _offsets(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset.as_py() for batch in batches for offset in batch["offset"]]


def test_only_the_range_s_records_and_the_asked_columns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeReader, "script", {12: [_batch(10, 19), _batch(20, 29)]})
    (first, second) = _read(12, 25, "offset", "value")
    assert first.schema == pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    assert (first["offset"].to_pylist(), second["offset"].to_pylist()) == (list(range(12, 20)), list(range(20, 25)))


def test_records_that_vanish_while_reading_fail_the_task(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeReader, "script", {10: [_batch(10, 19), OffsetOutOfRangeError("offset 20 is gone")]})
    with pytest.raises(DataLossError, match=r"offset 20 is gone.*failOnDataLoss"):
        _read(10, 50)


def test_or_are_passed_over_with_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(FakeCluster, "earliest", {("t", 0): 40})
    gone = OffsetOutOfRangeError("offset 20 is gone")
    monkeypatch.setattr(FakeReader, "script", {10: [_batch(10, 19), gone], 40: [_batch(35, 49)]})
    with caplog.at_level(logging.WARNING):
        offsets = _offsets(_read(10, 50, failOnDataLoss="false"))
    assert offsets == [*range(10, 20), *range(40, 50)]
    assert caplog.messages == ["offset 20 is gone"]


def test_a_topic_that_was_cut_short_ends_the_range(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeReader, "script", {10: [_batch(10, 19), OffsetOutOfRangeError("ends at 20")]})
    assert _offsets(_read(10, 50, failOnDataLoss="false")) == list(range(10, 20))
