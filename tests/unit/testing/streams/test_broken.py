"""The source that is broken on purpose is broken in the one way that it is meant to be."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from ottla.core.model import TopicPartition
from ottla.spark.options import Query, parse_options
from ottla.spark.stream_offsets import Offsets
from ottla.testing.streams.broken import CommitsAhead, ahead_reader

PLACE = TopicPartition("t", 0)
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g", "startingOffsets": "earliest"}


class Log:
    """The topic t with ten records in its one partition, and the group's offsets."""

    def __init__(self) -> None:
        self.committed: list[int] = []

    def latest(self, known: Offsets | None = None) -> Offsets:
        return Offsets({PLACE: 10}, {})

    def offer(self, offsets: Mapping[TopicPartition, int], *, is_last: bool = False) -> None:
        self.committed.append(offsets[PLACE])


def test_it_commits_what_is_planned_before_it_is_processed():
    log: Any = Log()
    reader = ahead_reader(parse_options(OPTIONS, Query.STREAM), StructType(), reader=log, committer=log)
    assert reader.latestOffset({"t": {"0": 4}}, reader.getDefaultReadLimit())["t"] == {"0": 10}
    assert log.committed == [4, 10]


def test_it_has_a_name_of_its_own():
    assert CommitsAhead.name() == "commits-ahead"
    assert type(CommitsAhead(OPTIONS).streamReader(StructType())).__name__ == "AheadReader"
