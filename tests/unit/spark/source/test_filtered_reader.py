"""The reader with pushed filters, without Spark and brokers."""

import datetime
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan

from ottla.client.settings import ClientSettings
from ottla.core.model import TopicPartition
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.schemas import KAFKA
from ottla.spark.source import filtered_reader
from ottla.spark.source.batch_reader import BatchReader
from ottla.spark.source.filtered_reader import FilteredBatchReader, is_pushing
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.tasks import ReadTask

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
def reader(monkeypatch: pytest.MonkeyPatch) -> FilteredBatchReader:
    monkeypatch.setattr(BatchReader, "ranges", lambda _: [OffsetRange("t", number, 10, 50) for number in range(3)])
    monkeypatch.setattr(filtered_reader, "AdminClient", FakeAdmin)
    return FilteredBatchReader(parse_options(OPTIONS, Query.BATCH), KAFKA)


def test_it_reads_less_and_spark_filters_the_rows_again(reader: FilteredBatchReader):
    pushed: list[Filter] = [EqualTo(("partition",), 2), GreaterThan(("timestamp",), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))]
    assert reader.pushFilters(pushed) is pushed
    assert reader.partitions() == [ReadTask((OffsetRange("t", 2, 30, 50),))]


def test_without_filters_it_reads_everything(reader: FilteredBatchReader):
    assert len(reader.partitions()) == 3


def test_only_spark_s_own_worker_for_it_pushes_filters(monkeypatch: pytest.MonkeyPatch):
    assert not is_pushing()
    worker = "pyspark.sql.worker.data_source_pushdown_filters"
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, worker, SimpleNamespace())
        assert is_pushing()
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name=worker)))
    assert is_pushing()
