"""The sources that are broken on purpose are broken in the one way that they are meant to be."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql.types import StructType

from ottla.core.model import TopicPartition
from ottla.spark.group.progress import Owned, Progress
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.source.stream_offsets import Offsets
from ottla.testing.streaming_kills.broken import (
    CommitsAhead,
    GivesUpEarly,
    ReadsTwice,
    SkipsBatches,
    ahead_member,
    ahead_reader,
    early_member,
    skipping_member,
    twice_reader,
)

PLACE = TopicPartition("t", 0)
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g", "startingOffsets": "earliest"}


MEMBER_OPTIONS = {name: value for name, value in OPTIONS.items() if name != "startingOffsets"} | {"ottla.group.mode": "member"}


class Log:
    """The topic t with ten records in its one partition, and the group's offsets."""

    def __init__(self) -> None:
        self.committed: list[int] = []

    def latest(self, known: Offsets | None = None, among: object = None) -> Offsets:
        return Offsets({PLACE: 10}, {})

    def earliest(self, partitions: object) -> Mapping[TopicPartition, int]:
        return {}

    def topic_ids(self, topics: object) -> Mapping[str, str]:
        return {}

    def offer(self, offsets: Mapping[TopicPartition, int], *, is_last: bool = False) -> None:
        self.committed.append(offsets[PLACE])


class Member:
    """The member of a group that owns the partition, of which four records are processed."""

    group = "g"

    def __init__(self) -> None:
        self.progress = Progress()
        self.progress.assigned([PLACE])
        self.committed_last = 4
        self.holds_back = False

    def batch_done(self, *, is_processed: bool = True) -> None:
        self.progress.batch_done()
        self.holds_back = False
        for owned in self.progress.due().values():
            assert owned.position is not None
            self.committed_last = owned.committed = owned.position

    def begin_batch(self, timeout_s: float) -> dict[TopicPartition, Owned]:
        self.holds_back = True
        return self.progress.owned()

    def no_batch(self) -> None:
        self.holds_back = False

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {PLACE: 4}

    def identity(self) -> tuple[int, str]:
        return 1, "m"


@pytest.fixture
def log() -> Any:
    return Log()


@pytest.fixture
def member() -> Any:
    return Member()


def made(broken: Any, log: Any, member: Any) -> Any:
    options = parse_options(MEMBER_OPTIONS, Query.STREAM)
    return broken(options, StructType(), reader=log, join=lambda _: member)


def test_one_commits_what_is_planned_before_it_is_processed(log: Any):
    reader = ahead_reader(parse_options(OPTIONS, Query.STREAM), StructType(), reader=log, committer=log)
    assert reader.latestOffset({"t": {"0": 4}}, reader.getDefaultReadLimit())["t"] == {"0": 10}
    assert log.committed == [4, 10]


def test_one_reads_everything_twice(log: Any):
    reader = twice_reader(parse_options(OPTIONS, Query.STREAM), StructType(), reader=log, committer=log)
    first, second = reader.partitions({"t": {"0": 4}}, {"t": {"0": 10}})
    assert first == second
    assert [(each.start, each.end) for each in first.ranges] == [(4, 10)]


def test_one_commits_as_a_member_what_is_planned_before_it_is_processed(log: Any, member: Any):
    reader = made(ahead_member, log, member)
    assert reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())["t"] == {"0": 10}
    assert member.committed_last == 10


def test_one_lets_partitions_go_in_the_middle_of_a_batch(log: Any, member: Any):
    reader = made(early_member, log, member)
    assert reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())["t"] == {"0": 10}
    assert (member.holds_back, member.committed_last) == (False, 4)


def test_one_does_not_read_again_what_was_interrupted(log: Any, member: Any):
    reader = made(skipping_member, log, member)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (task,) = reader.partitions(reader.initialOffset(), end)
    assert [(each.start, each.end) for each in task.ranges] == [(4, 10)]
    assert made(skipping_member, log, member).partitions(reader.initialOffset(), end) == []


@pytest.mark.parametrize(
    ("source", "name", "options", "reader"),
    [
        (CommitsAhead, "commits-ahead", OPTIONS, "AheadReader"),
        (CommitsAhead, "commits-ahead", MEMBER_OPTIONS, "AheadMember"),
        (ReadsTwice, "reads-twice", OPTIONS, "TwiceReader"),
        (GivesUpEarly, "gives-up-early", MEMBER_OPTIONS, "EarlyMember"),
        (SkipsBatches, "skips-batches", MEMBER_OPTIONS, "SkippingMember"),
    ],
)
def test_they_have_names_of_their_own(source: type[CommitsAhead], name: str, options: dict[str, str], reader: str):
    assert source.name() == name
    assert type(source(options).streamReader(StructType())).__name__ == reader
