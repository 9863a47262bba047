"""Tests of the offsets that a topic holds. Against real brokers: tests/clients/test_watch.py."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ottla.client.admin.values import EARLIEST, DescribedTopic, Failure
from ottla.client.errors import RequestFailedError, UnknownTopicError
from ottla.client.fetch.topic_ranges import topic_ranges
from ottla.core.client.fetch_values import FetchRange
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition


class Admin:
    """Knows topic `t` of three partitions: 0 holds offsets 5 to 9, 1 is empty, 2 has no leader."""

    def __init__(self, failure: ErrorCode | None = None) -> None:
        self.failure = failure

    def describe_topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        found = DescribedTopic("t", {0: 1, 1: 1, 2: None}, "id") if self.failure is None else Failure(self.failure)
        return dict.fromkeys(names, found)

    def list_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> Mapping[TopicPartition, int]:
        bounds = {0: (5, 10), 1: (0, 0)}
        return {each: bounds[each.partition][timestamp != EARLIEST] for each in partitions}


def ranges(admin: Admin, **options: Any) -> list[FetchRange]:
    return topic_ranges(admin, "t", **options)  # type: ignore[arg-type]


ONE = FetchRange(TopicPartition("t", 1), 0, 0, "id")


def test_from_the_start_to_the_present_end() -> None:
    assert ranges(Admin()) == [FetchRange(TopicPartition("t", 0), 5, 10, "id"), ONE]
    assert ranges(Admin(), partitions=[1]) == [ONE]


@pytest.mark.parametrize(("position", "start", "end"), [(7, 7, 10), (2, 5, 10), (10, 10, 10), (12, 12, 10)])
def test_from_where_a_reader_stopped(position: int, start: int, end: int) -> None:
    assert ranges(Admin(), positions={0: position})[0] == FetchRange(TopicPartition("t", 0), start, end, "id")


def test_a_topic_that_does_not_exist_or_may_not_be_read() -> None:
    with pytest.raises(UnknownTopicError, match="does not exist"):
        ranges(Admin(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    with pytest.raises(RequestFailedError, match="TOPIC_AUTHORIZATION_FAILED") as refused:
        ranges(Admin(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
