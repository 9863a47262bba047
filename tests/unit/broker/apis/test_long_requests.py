"""Requests at the limits a client controls: answered completely, in pieces, and no more than was asked for.

Pieces are counted, not timed: between two of them the scheduler asks its clock, and other requests continue.
"""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.apis.list_offsets import FOUND_PER_PIECE
from ottla.broker.network.scheduling import RequestScheduler
from ottla.groups.commands import JoinGroup
from ottla.metadata.topic_changes import PARTITIONS_PER_REQUEST_MAX
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

MANY = 3_000


class Clock:
    """Counts how often it is asked, and then lets every piece take a share of an iteration."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.asked / 10_000


@pytest.fixture
def clock(api) -> Clock:
    clock = Clock()
    api.use(scheduler=RequestScheduler(clock))
    return clock


def names(count: int = MANY) -> list[str]:
    return [f"name-{number:06d}" for number in range(count)]


def resource(name: str) -> dict[str, Any]:
    return {"resource_type": 2, "resource_name": name, "configuration_keys": None}


def offsets_of(group_id: str) -> dict[str, Any]:
    return {"group_id": group_id, "topics": None, "member_id": None, "member_epoch": -1}


LONG = {
    "Metadata": lambda: (
        3,
        12,
        {"topics": [{"name": name, "topic_id": None} for name in names()], "allow_auto_topic_creation": False},
        "topics",
    ),
    "FindCoordinator": lambda: (10, 4, {"key_type": 0, "coordinator_keys": names()}, "coordinators"),
    "DescribeGroups": lambda: (15, 5, {"groups": names(), "include_authorized_operations": False}, "groups"),
    "OffsetFetch": lambda: (9, 8, {"groups": [offsets_of(name) for name in names()], "require_stable": False}, "groups"),
    "DescribeConfigs": lambda: (32, 4, {"resources": [resource(name) for name in names()], "include_synonyms": False}, "results"),
    "DeleteTopics": lambda: (20, 5, {"topic_names": names(), "timeout": 1000}, "responses"),
    "DeleteTopics by id": lambda: (20, 6, {"topics": [{"name": name, "topic_id": None} for name in names()], "timeout": 1000}, "responses"),
    "DeleteGroups": lambda: (42, 2, {"groups_names": names()}, "results"),
    "IncrementalAlterConfigs": lambda: (
        44,
        1,
        {"resources": [{"resource_type": 2, "resource_name": name, "configs": []} for name in names()], "validate_only": False},
        "responses",
    ),
    "CreatePartitions": lambda: (
        37,
        3,
        {"topics": [{"name": name, "count": 3, "assignments": None} for name in names()], "timeout": 1000, "validate_only": False},
        "results",
    ),
    "CreateTopics": lambda: (
        19,
        7,
        {
            "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} for name in names()],
            "timeout": 1000,
            "validate_only": True,
        },
        "topics",
    ),
}
"""Made when they are asked for: every worker imports this module, and one runs each of its tests."""


@pytest.mark.parametrize("name", LONG)
def test_many_names_are_answered_in_pieces(api, clock: Clock, name: str) -> None:
    key, version, fields, answers = LONG[name]()
    fields = {"include_documentation": False, "include_topic_authorized_operations": False, **fields}
    assert len(getattr(api.ask(key, version, **fields), answers)) == MANY
    assert clock.asked > MANY / 64


@pytest.fixture
def large_topic(api, make_topic) -> Any:
    return make_topic("large", MANY)


@pytest.mark.parametrize("version", [1, 12])
def test_the_partitions_of_a_topic_are_answered_in_pieces(api, large_topic, clock: Clock, version: int) -> None:
    topics = [{"name": "large", "topic_id": None}] * 300
    fields = {"allow_auto_topic_creation": True, "include_topic_authorized_operations": False}
    (topic,) = api.ask(ApiKey.METADATA, version, topics=topics, **fields).topics
    assert [partition.partition_index for partition in topic.partitions] == list(range(MANY))
    assert MANY / 64 < clock.asked < 2 * MANY / 64, "300 times the same name cost what one costs"


def test_the_partitions_of_a_topic_are_made_in_pieces(api, clock: Clock) -> None:
    topic = {"name": "t", "num_partitions": MANY, "replication_factor": 1, "assignments": [], "configs": []}
    (made,) = api.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000, validate_only=False).topics
    assert made.num_partitions == MANY
    assert clock.asked > MANY / 256


def test_directories_are_described_in_pieces(api, large_topic, clock: Clock) -> None:
    for topics in (None, [{"topic": "large", "partitions": [*range(MANY), *range(MANY)]}] * 2):
        before = clock.asked
        (result,) = api.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=topics).results
        assert [[part.partition_index for part in topic.partitions] for topic in result.topics] == [list(range(MANY))]
        assert clock.asked - before > MANY / 64


def test_the_ends_of_partitions_are_found_in_pieces(api, large_topic, clock: Clock) -> None:
    parts = [{"partition_index": number, "current_leader_epoch": -1, "timestamp": -1} for number in range(MANY)]
    topics = [{"name": "large", "partitions": parts}]
    (topic,) = api.ask(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics).topics
    assert [(part.partition_index, part.offset) for part in topic.partitions] == [(number, 0) for number in range(MANY)]
    assert clock.asked > MANY / 64 + MANY / FOUND_PER_PIECE, "besides the pieces in which the answer is written"


def test_the_offsets_of_a_group_are_answered_in_pieces(api, large_topic, clock: Clock) -> None:
    part = {"committed_offset": 5, "committed_metadata": "m", "committed_leader_epoch": -1}
    topic = {"name": "large", "partitions": [{"partition_index": number, **part} for number in range(MANY)]}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    api.ask(ApiKey.OFFSET_COMMIT, 8, group_id="g", topics=[topic], **fields)
    before = clock.asked
    (group,) = api.ask(ApiKey.OFFSET_FETCH, 8, groups=[offsets_of("g")] * 100, require_stable=False).groups
    assert [(part.partition_index, part.committed_offset) for part in group.topics[0].partitions] == [(n, 5) for n in range(MANY)]
    assert MANY / 64 < clock.asked - before < 2 * MANY / 64


def test_groups_are_listed_in_pieces(api, clock: Clock, commit, make_topic) -> None:
    make_topic("t")
    for name in names(500):
        commit(name, "t", 1)
    before = clock.asked
    assert sorted(group.group_id for group in api.ask(ApiKey.LIST_GROUPS, 4, states_filter=["Empty"] * 100).groups) == names(500)
    assert clock.asked - before > 500 / 64


def test_a_group_with_a_large_member_is_described_once_and_its_bytes_are_not_copied(api, clock: Clock) -> None:
    metadata = b"m" * 1_000_000
    join = JoinGroup(
        reply_to=api.groups.expect_reply(lambda _: None), group_id="g", member_id="", instance_id=None, client_id="c", client_host="/",
        session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer", protocols=(("range", metadata),), reason=None,
        require_known_member_id=False, supports_skip_assignment=False, new_member_id="m",
    )  # fmt: skip

    async def ask() -> None:
        api.groups.run("g", join)

    api.runner.run(ask())
    described = api.ask(ApiKey.DESCRIBE_GROUPS, 4, groups=["g"] * 10, include_authorized_operations=False).groups
    assert [len(group.members) for group in described] == [1]


# What is named twice


def test_metadata_has_each_topic_once(api, make_topic) -> None:
    known = uuid.UUID(bytes=make_topic("t").topic_id)
    unknown = uuid.uuid4()
    asked = [{"name": None, "topic_id": each} for each in (known, unknown, known, unknown)]
    answer = api.ask(ApiKey.METADATA, 12, topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    assert [topic.topic_id for topic in answer.topics] == [known, unknown]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topic_id", [None, uuid.UUID(int=7)])
def test_metadata_without_a_name_is_invalid_before_topics_have_ids_alone(api, make_topic, version: int, topic_id: Any) -> None:
    make_topic("t")
    asked = [{"name": "t", "topic_id": None}, {"name": None, "topic_id": topic_id}]
    fields = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    answer = api.ask(ApiKey.METADATA, version, topics=asked, allow_auto_topic_creation=False, **fields)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [("t", None, 42), ("", topic_id, 42)]
    assert (answer.brokers, answer.controller_id, answer.cluster_id) == ((), -1, None)


def test_metadata_with_neither_name_nor_id_is_invalid(api, make_topic) -> None:
    make_topic("t")
    asked = [{"name": "t", "topic_id": None}, {"name": None, "topic_id": None}]
    answer = api.ask(ApiKey.METADATA, 13, topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    assert [topic.error_code for topic in answer.topics] == [42, 42]
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_offsets_are_fetched_once(api, make_topic, commit) -> None:
    make_topic("t", 3)
    commit("g", "t", 7, partition=1)
    topics = [
        {"name": "t", "partition_indexes": [1, 0, 1]},
        {"name": "u", "partition_indexes": [0]},
        {"name": "t", "partition_indexes": [0, 2]},
    ]
    asked = {**offsets_of("g"), "topics": topics}
    first, all_of_them = api.ask(ApiKey.OFFSET_FETCH, 8, groups=[asked, offsets_of("g"), asked], require_stable=False).groups
    found = [(topic.name, [(part.partition_index, part.committed_offset) for part in topic.partitions]) for topic in first.topics]
    assert found == [("t", [(1, 7), (0, -1), (2, -1)]), ("u", [(0, -1)])]
    assert [[part.partition_index for part in topic.partitions] for topic in all_of_them.topics] == [[1]]


@pytest.mark.parametrize("version", [6, 10])
def test_the_topics_of_a_group_are_looked_at_in_pieces(api, clock: Clock, version: int) -> None:
    topics = [{"name": name, "topic_id": uuid.UUID(int=number), "partition_indexes": [0]} for number, name in enumerate(names())]
    if version == 6:
        found = api.ask(ApiKey.OFFSET_FETCH, 6, group_id="g", topics=topics).topics
    else:
        found = api.ask(ApiKey.OFFSET_FETCH, 10, groups=[{**offsets_of("g"), "topics": topics}], require_stable=False).groups[0].topics
    assert len(found) == MANY
    assert clock.asked > MANY / 64 + MANY / 256


def test_a_resource_that_is_named_twice_is_not_changed(api, make_topic) -> None:
    topics = [make_topic("a"), make_topic("b")]
    resources = [
        {"resource_type": 2, "resource_name": name, "configs": [{"name": "retention.ms", "config_operation": 0, "value": value}]}
        for name, value in (("a", "1"), ("b", "2"), ("a", "3"))
    ]
    answer = api.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    assert [(each.resource_name, each.error_code) for each in answer.responses] == [("a", 42), ("b", 0), ("a", 42)]
    assert answer.responses[0].error_message == "Each resource must appear at most once."
    assert [topic.configs for topic in topics] == [{}, {"retention.ms": "2"}]


def test_a_resource_is_described_once(api, make_topic) -> None:
    make_topic("a")
    asked = [{**resource("a"), "configuration_keys": [key]} for key in ("retention.ms", "segment.bytes", "retention.ms")]
    (result,) = api.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=False, include_documentation=False).results
    assert sorted(config.name for config in result.configs) == ["retention.ms", "segment.bytes"]
    (result,) = api.ask(
        ApiKey.DESCRIBE_CONFIGS, 4, resources=[*asked, resource("a")], include_synonyms=False, include_documentation=False
    ).results
    assert len(result.configs) > 20


def test_a_group_is_deleted_once(api, make_topic, commit) -> None:
    make_topic("t")
    commit("g", "t", 1)
    assert [(each.group_id, each.error_code) for each in api.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g", "x", "g"]).results] == [
        ("g", 0),
        ("x", 69),
    ]


# How much may be made at once


def creation(*partitions: int) -> Iterator[dict[str, Any]]:
    for number, count in enumerate(partitions):
        yield {"name": f"t{number}", "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_partitions_of_one_creation_are_bounded(api, validate_only: bool) -> None:
    def create(*partitions: int) -> list[tuple[int, str | None]]:
        answer = api.ask(ApiKey.CREATE_TOPICS, 5, topics=list(creation(*partitions)), timeout=1000, validate_only=validate_only)
        return [(topic.error_code, topic.error_message) for topic in answer.topics]

    too_many = (44, "Excessively large number of partitions per request.")
    assert create(PARTITIONS_PER_REQUEST_MAX + 1) == [too_many]
    assert create(PARTITIONS_PER_REQUEST_MAX - 1, 2) == [too_many, too_many]
    assert create(PARTITIONS_PER_REQUEST_MAX, -1) == [too_many, too_many]
    assert api.cluster.cluster_metadata.topics == {}
    assert [error for error, _ in create(PARTITIONS_PER_REQUEST_MAX - 2, -5, 2)] == [0, 37, 0]


def test_the_partitions_of_one_growth_are_bounded(api, make_topic) -> None:
    make_topic("a"), make_topic("b")
    topics = [{"name": name, "count": PARTITIONS_PER_REQUEST_MAX // 2 + 2, "assignments": None} for name in "ab"]
    answer = api.ask(ApiKey.CREATE_PARTITIONS, 3, topics=topics, timeout=1000, validate_only=False)
    assert [(each.error_code, each.error_message) for each in answer.results] == [
        (0, None),
        (44, "Unable to perform excessively large batch operation."),
    ]
    assert [len(api.cluster.cluster_metadata.topics[name].leaders) for name in "ab"] == [PARTITIONS_PER_REQUEST_MAX // 2 + 2, 1]


def test_no_more_is_made_by_being_asked_for(make_api) -> None:
    api = make_api({"num.partitions": str(PARTITIONS_PER_REQUEST_MAX // 4)})
    topics = [{"name": name, "topic_id": None} for name in names(6)]
    fields = {"topics": topics, "allow_auto_topic_creation": True, "include_topic_authorized_operations": False}
    for expected in ([3] * 6, [0, 0, 0, 0, 3, 3], [0] * 6):  # the client asks again
        assert [topic.error_code for topic in api.ask(ApiKey.METADATA, 12, **fields).topics] == expected
