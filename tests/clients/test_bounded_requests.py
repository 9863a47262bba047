"""Names that are asked for twice, and creations that are too large, with both brokers: what Apache Kafka answers once or refuses."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient


def new(name: str, partitions: int) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}


@pytest.fixture
def topics(raw_client: RawClient, unique_name: Callable[[str], str]) -> list[str]:
    names = [unique_name("a"), unique_name("b")]
    answer = raw_client.call(ApiKey.CREATE_TOPICS, 5, topics=[new(name, 2) for name in names], timeout=10_000)
    assert [int(topic.error_code) for topic in answer.topics] == [0, 0]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:  # Apache Kafka knows them a little after its answer
        known = raw_client.call(ApiKey.METADATA, 9, topics=[{"name": name} for name in names], allow_auto_topic_creation=False)
        if all(len(topic.partitions) == 2 for topic in known.topics):
            break
    return names


@pytest.mark.parametrize("version", [4, 9, 12, 13])
def test_metadata_answers_each_name_once(raw_client: RawClient, topics: list[str], version: int) -> None:
    a, b = topics
    asked = [{"name": name} for name in (a, b, a, "not-there", b, "not-there")]
    answer = raw_client.call(ApiKey.METADATA, version, topics=asked, allow_auto_topic_creation=False)
    assert sorted((topic.name, int(topic.error_code)) for topic in answer.topics) == [(a, 0), (b, 0), ("not-there", 3)]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topic_id", [None, uuid.UUID(int=77)])
def test_metadata_without_a_name(raw_client: RawClient, topics: list[str], version: int, topic_id: uuid.UUID | None) -> None:
    asked = [{"name": topics[0]}, {"name": None, "topic_id": topic_id}]
    answer = raw_client.call(ApiKey.METADATA, version, topics=asked, allow_auto_topic_creation=False)
    assert [(topic.name, topic.topic_id, int(topic.error_code)) for topic in answer.topics] == [(topics[0], None, 42), ("", topic_id, 42)]
    assert (answer.brokers, answer.controller_id) == ((), -1)


def test_a_resource_that_is_named_twice_is_not_changed(raw_client: RawClient, topics: list[str]) -> None:
    a, b = topics
    resources = [
        {"resource_type": 2, "resource_name": name, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "77000"}]}
        for name in (a, b, a)
    ]
    answer = raw_client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    message = "Each resource must appear at most once."
    assert sorted((each.resource_name, int(each.error_code), each.error_message or None) for each in answer.responses) == sorted(
        [(a, 42, message), (a, 42, message), (b, 0, None)], key=str
    )


def test_a_group_is_deleted_once(raw_client: RawClient, unique_name: Callable[[str], str]) -> None:
    groups = [unique_name("x"), unique_name("y")]
    answer = raw_client.call(ApiKey.DELETE_GROUPS, 1, groups_names=[*groups, groups[0]])
    assert sorted(each.group_id for each in answer.results) == groups


def test_a_partition_is_in_a_directory_once(raw_client: RawClient, topics: list[str]) -> None:
    a, b = topics
    asked = [{"topic": a, "partitions": [0, 1, 0]}, {"topic": b, "partitions": [0]}, {"topic": a, "partitions": [1]}]
    deadline = time.monotonic() + 10
    while True:  # Apache Kafka makes the files a little after its answer
        (result,) = raw_client.call(ApiKey.DESCRIBE_LOG_DIRS, 1, topics=asked).results
        if sum(len(topic.partitions) for topic in result.topics) >= 3 or time.monotonic() > deadline:
            break
    assert sorted((topic.name, sorted(part.partition_index for part in topic.partitions)) for topic in result.topics) == [
        (a, [0, 1]),
        (b, [0]),
    ]


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_partitions_of_one_creation_are_bounded(raw_client: RawClient, unique_name: Callable[[str], str], validate_only: bool) -> None:
    for partitions in ((10_001,), (6_000, 6_000), (-5, 9_999, 2)):
        wanted = [new(unique_name("t"), count) for count in partitions]
        answer = raw_client.call(ApiKey.CREATE_TOPICS, 5, topics=wanted, timeout=10_000, validate_only=validate_only)
        assert {(int(topic.error_code), topic.error_message) for topic in answer.topics} == {
            (44, "Excessively large number of partitions per request.")
        }
    answer = raw_client.call(ApiKey.CREATE_TOPICS, 5, topics=[new("twice", 9_000)] * 2, timeout=10_000, validate_only=validate_only)
    assert [int(topic.error_code) for topic in answer.topics] == [42], "each name counts once"


def test_the_partitions_of_one_growth_are_bounded(raw_client: RawClient, topics: list[str]) -> None:
    asked = [{"name": name, "count": 6_002, "assignments": None} for name in topics]
    answer = raw_client.call(ApiKey.CREATE_PARTITIONS, 3, topics=asked, timeout=10_000, validate_only=True)
    errors = [int(each.error_code) for each in answer.results]
    assert errors[0] == 0
    assert errors[1] in (44, -1), "Apache Kafka cannot say what it means: its own list is too long"
