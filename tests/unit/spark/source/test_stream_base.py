"""What the readers of both modes share."""

import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.core.model import TopicPartition
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.schemas import KAFKA
from ottla.spark.source.member_reader import MemberStreamReader
from ottla.spark.source.stream_base import StreamBase
from ottla.spark.source.stream_offsets import Offsets
from ottla.spark.source.stream_reader import StreamReader

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "group.id": "g"}
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(params=[StreamReader, MemberStreamReader])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def make(kind: type[StreamBase], options: Mapping[str, str] = {}, now: list[float] | None = None) -> Any:
    mode = "member" if kind is MemberStreamReader else "commit"
    parsed = parse_options({**NEEDED, "ottla.group.mode": mode, **options}, Query.STREAM)
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
