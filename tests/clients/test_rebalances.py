"""With real clients: who owns what, what starts a rebalance, what is refused, which broker serves a group."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.testing.waiting import wait_until


def everything(topic: str, partitions: int) -> set[tuple[str, int]]:
    return {(topic, partition) for partition in range(partitions)}


def test_members_come_and_go_and_every_partition_has_one_owner(
    library_on: Callable[..., Any], kafka_broker: Any, unique_name: Callable[[str], str]
) -> None:
    library, group, topic = library_on(kafka_broker), unique_name("group"), unique_name("topic")
    library.create_topic(topic, 3)
    members: list[Any] = []

    def shares() -> list[int]:
        """How many partitions each member owns, once every partition has exactly one owner; nothing before."""
        owned = [member.assignment() for member in members]
        whole = sum(map(len, owned)) == 3 and set().union(*owned) == everything(topic, 3)
        return sorted(map(len, owned)) if whole else []

    def poll() -> None:
        for member in members:
            member.consumer.poll(0.01)

    for _ in range(4):
        members.append(library.member(group, topic, "range"))
        expected = {1: [3], 2: [1, 2], 3: [1, 1, 1], 4: [0, 1, 1, 1]}[len(members)]
        wait_until(lambda expected=expected: shares() == expected, f"{len(members)} members that share the partitions", poll)
    while len(members) > 1:
        members.pop(0).close()
        expected = {1: [3], 2: [1, 2], 3: [1, 1, 1]}[len(members)]
        wait_until(lambda expected=expected: shares() == expected, "those that stayed own everything", poll)
    members.pop().close()


def test_more_partitions_start_a_rebalance(library: Any, kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = unique_name("topic")
    library.create_topic(topic, 2)
    member = library.member(unique_name("group"), topic, "range", metadata_age_ms=200)
    wait_until(lambda: member.assignment() == everything(topic, 2), "both partitions", member.poll)
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(60)
    wait_until(lambda: member.assignment() == everything(topic, 5), "the new partitions, without a restart", member.poll)
    library.produce(topic, [(4, b"in a new partition")])
    received: list[Any] = []
    wait_until(lambda: received, "a record of a new partition", lambda: received.extend(member.poll()))
    assert received == [(4, 0, b"in a new partition")]
    member.close()


def test_a_new_topic_that_matches_the_pattern_starts_a_rebalance(library: Any, unique_name: Callable[[str], str]) -> None:
    prefix = unique_name("test.orders")
    library.create_topic(f"{prefix}-1", 1)
    member = library.member(unique_name("group"), f"^{prefix}-.*", "range", metadata_age_ms=200)
    wait_until(lambda: member.assignment() == {(f"{prefix}-1", 0)}, "the topic that is there", member.poll)
    library.create_topic(f"{prefix}-2", 2)
    both = {(f"{prefix}-1", 0), *everything(f"{prefix}-2", 2)}
    wait_until(lambda: member.assignment() == both, "the new topic, without a restart", member.poll)
    member.close()


@pytest.mark.parametrize("count", [3, 2, 1])
def test_partitions_are_never_taken_away(kafka_broker: Any, unique_name: Callable[[str], str], count: int) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

    topic = unique_name("topic")
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(60)
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions(topic, count)])[topic].result(60)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    wait_until(lambda: topic in admin.list_topics(timeout=60).topics, "the topic")
    assert len(admin.describe_topics(_names(topic))[topic].result(60).partitions) == 3


def test_a_group_has_one_coordinator_and_people_can_ask_which(
    kafka_broker: Any, unique_name: Callable[[str], str], group_commit: Callable[..., int]
) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    group, topic = unique_name("group"), unique_name("topic")
    group_commit(group, topic, 0, 5)
    brokers = {node.id: (node.host, node.port) for node in admin.describe_cluster().result(60).nodes}
    coordinator = admin.describe_consumer_groups([group])[group].result(60).coordinator
    assert brokers[coordinator.id] == (coordinator.host, coordinator.port)
    assert f"{coordinator.host}:{coordinator.port}" == kafka_broker.bootstrap_servers


def _names(topic: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection([topic])
