"""CreatePartitions: up, never down."""

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_and_refuses(api, make_topic, version: int) -> None:
    make_topic("t", 2)
    topics = [{"name": "t", "count": 5, "assignments": None}, {"name": "gone", "count": 5, "assignments": None}]
    answer = api.ask(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=1000, validate_only=False)
    assert [result.error_code for result in answer.results] == [0, 3]
    assert len(api.cluster.cluster_metadata.topics["t"].leaders) == 5


@pytest.mark.parametrize("count", [1, 2, 0, -1])
def test_a_smaller_or_equal_count_is_refused(api, make_topic, count: int) -> None:
    make_topic("t", 2)
    answer = api.ask(
        ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": "t", "count": count, "assignments": None}], timeout=1000, validate_only=False
    )
    assert answer.results[0].error_code == ErrorCode.INVALID_PARTITIONS
    assert answer.results[0].error_message


def test_only_checking_adds_nothing_and_a_name_given_twice_is_refused(api, make_topic) -> None:
    make_topic("t", 2)
    once = {"name": "t", "count": 3, "assignments": None}
    assert api.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[once], timeout=1000, validate_only=True).results[0].error_code == ErrorCode.NONE
    assert [
        result.error_code for result in api.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[once, once], timeout=1000, validate_only=False).results
    ] == [42]
    assert len(api.cluster.cluster_metadata.topics["t"].leaders) == 2
