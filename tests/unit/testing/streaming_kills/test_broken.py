"""The sources that are broken on purpose are broken in the one way that they are meant to be."""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.types import StructType

from ottla.core.model import TopicPartition
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.source.stream_offsets import Offsets
from ottla.testing.streaming_kills.broken import CommitsAhead, ReadsTwice, ahead_reader, twice_reader

PLACE = TopicPartition("t", 0)
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g", "startingOffsets": "earliest"}


class Log:
    """The topic t with ten records in its one partition, and the group's offsets."""

    def __init__(self) -> None:
        self.committed: list[int] = []

    def latest(self, known: Offsets | None = None) -> Offsets:
        return Offsets({PLACE: 10}, {})

    def earliest(self, partitions: object) -> Mapping[TopicPartition, int]:
        return {}

    def topic_ids(self, topics: object) -> Mapping[str, str]:
        return {}

    def offer(self, offsets: Mapping[TopicPartition, int], *, is_last: bool = False) -> None:
        self.committed.append(offsets[PLACE])


@pytest.fixture
def log() -> Any:
    return Log()


def test_one_commits_what_is_planned_before_it_is_processed(log: Any):
    reader = ahead_reader(parse_options(OPTIONS, Query.STREAM), StructType(), reader=log, committer=log)
    assert reader.latestOffset({"t": {"0": 4}}, reader.getDefaultReadLimit())["t"] == {"0": 10}
    assert log.committed == [4, 10]


def test_one_reads_everything_twice(log: Any):
    reader = twice_reader(parse_options(OPTIONS, Query.STREAM), StructType(), reader=log, committer=log)
    first, second = reader.partitions({"t": {"0": 4}}, {"t": {"0": 10}})
    assert first == second
    assert [(each.start, each.end) for each in first.ranges] == [(4, 10)]


@pytest.mark.parametrize(
    ("source", "name", "reader"), [(CommitsAhead, "commits-ahead", "AheadReader"), (ReadsTwice, "reads-twice", "TwiceReader")]
)
def test_they_have_names_of_their_own(source: type[CommitsAhead], name: str, reader: str):
    assert source.name() == name
    assert type(source(OPTIONS).streamReader(StructType())).__name__ == reader
