"""OffsetFetch: the committed offsets, and -1 where there is none."""

from typing import Any

from ottla.core.errors import ErrorCode
from ottla.core.groups.log.records import NO_TOPIC_ID, OffsetValue
from ottla.core.groups.offsets.fetch import FetchedOffsets

E = ErrorCode
ID, OTHER_ID = b"i" * 16, b"o" * 16


def test_unknown_offsets_and_groups_read_as_minus_one(driver: Any) -> None:
    fetched = driver.given("commit g flights/0=42").answer("fetch g flights/0 flights/9 weather/0")
    assert [(topic, [each.offset for each in found]) for topic, found in fetched.topics] == [("flights", [42, -1]), ("weather", [-1])]
    unknown = driver.answer("fetch unknown flights/0")
    only = unknown.topics[0][1][0]
    assert (unknown.error, only.offset, only.leader_epoch, only.metadata, only.error) == (E.NONE, -1, -1, "", E.NONE)


def test_all_offsets_are_read_in_order(driver: Any) -> None:
    driver.given("commit g weather/1=1 flights/10=2 flights/2=3")
    topics = driver.answer("fetch g").topics
    assert [(topic, [each.partition for each in found]) for topic, found in topics] == [("flights", [2, 10]), ("weather", [1])]
    assert driver.answer("fetch unknown").topics == ()


def value(offset: int, topic_id: bytes = NO_TOPIC_ID) -> OffsetValue:
    return OffsetValue(offset=offset, leader_epoch=3, metadata="m", commit_timestamp_ms=1, expire_timestamp_ms=None, topic_id=topic_id)


def test_offsets_are_those_of_their_partitions() -> None:
    fetched = FetchedOffsets((4, 2), [value(7), None], NO_TOPIC_ID)
    assert len(fetched) == 2
    assert [(each.partition, each.offset, each.leader_epoch, each.metadata) for each in fetched] == [(4, 7, 3, "m"), (2, -1, -1, "")]
    assert fetched == tuple(fetched)


def test_offsets_of_an_earlier_topic_of_the_name_are_none() -> None:
    values = [value(1, ID), value(2, OTHER_ID), value(3)]
    assert [each.offset for each in FetchedOffsets((0, 1, 2), values, ID)] == [1, -1, 3]
    assert [each.offset for each in FetchedOffsets((0, 1, 2), values, NO_TOPIC_ID)] == [1, 2, 3]
