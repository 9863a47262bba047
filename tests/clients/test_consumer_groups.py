"""librdkafka with `group.protocol=consumer`, on Ottla and on Apache Kafka: join, a second member, leave, a static member that returns."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.coordinator.placement import coordinator_partition
from ottla.groups.consumer.group_state import MEMBER
from ottla.groups.log.records import ConsumerGroupRecord, decode, encode_key, encode_value
from ottla.testing.waiting import wait_until

PARTITIONS = 4
OFFSETS_PARTITIONS = 50


class Members:
    """Consumers of one group, all of which are polled while the test waits."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self.settings = {"bootstrap.servers": servers, "group.id": group, "group.protocol": "consumer", "log_level": 0}
        self.topic = topic
        self.alive: list[Any] = []

    def join(self, *topics: str, **settings: str) -> Any:
        from confluent_kafka import Consumer

        consumer = Consumer({**self.settings, **settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(list(topics) or [self.topic])
        self.alive.append(consumer)
        return consumer

    def leave(self, consumer: Any) -> None:
        self.alive.remove(consumer)
        consumer.close()

    def counts(self) -> list[int]:
        """How many partitions each has, after a poll."""
        for consumer in self.alive:
            message = consumer.poll(0.02)
            assert message is None or not message.error(), message.error()
        return [len(consumer.assignment()) for consumer in self.alive]

    def wait_for(self, *counts: int) -> None:
        wait_until(lambda: self.counts() == list(counts), f"assignments of {counts} partitions", lambda: None)


@pytest.fixture
def members(kafka_broker: Any, unique_name: Callable[[str], str]) -> Iterator[Members]:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = unique_name("topic")
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    members = Members(kafka_broker.bootstrap_servers, unique_name("group"), topic)
    yield members
    for consumer in list(members.alive):
        members.leave(consumer)


def described(members: Members) -> Any:
    from confluent_kafka.admin import AdminClient

    group = members.settings["group.id"]
    admin = AdminClient({"bootstrap.servers": members.settings["bootstrap.servers"], "log_level": 0})
    return admin.describe_consumer_groups([group])[group].result(60)


def test_members_join_and_leave_and_a_static_member_returns(members: Members) -> None:
    first = members.join()
    members.wait_for(PARTITIONS)
    second = members.join(f"^{members.topic}.*", **{"group.instance.id": "i"})
    members.wait_for(PARTITIONS // 2, PARTITIONS // 2)
    group = described(members)
    assert (group.state.name, group.type.name, group.partition_assignor) == ("STABLE", "CONSUMER", "uniform")
    assert {member.group_instance_id for member in group.members} == {None, "i"}
    kept = {partition.partition for partition in second.assignment()}
    # A static member's partitions wait for it: nobody else gets them, and it has them again at once.
    members.leave(second)
    began = time.monotonic()
    again = members.join(f"^{members.topic}.*", **{"group.instance.id": "i"})
    members.wait_for(PARTITIONS // 2, PARTITIONS // 2)
    assert {partition.partition for partition in again.assignment()} == kept
    assert time.monotonic() - began < 30
    members.leave(first)
    members.wait_for(PARTITIONS)
    check_records(members)


def check_records(members: Members) -> None:
    """The group's records, whoever wrote them, are read, and encoded to the same bytes again."""
    from confluent_kafka import Consumer, TopicPartition

    group = members.settings["group.id"]
    reader = Consumer(
        {"bootstrap.servers": members.settings["bootstrap.servers"], "group.id": "reader", "log_level": 0, "enable.auto.commit": False}
    )
    partition = TopicPartition("__consumer_offsets", coordinator_partition(group, OFFSETS_PARTITIONS), 0)
    _, end = reader.get_watermark_offsets(partition, 60)
    reader.assign([partition])
    types = set()
    offset = -1
    while offset < end - 1:
        message = reader.poll(10)
        assert message is not None, "the log has more records"
        assert not message.error(), message.error()
        offset = message.offset()
        record = decode(message.key(), message.value())
        if isinstance(record, ConsumerGroupRecord) and record.group_id == group:
            types.add(record.record_type)
            assert (encode_key(record), encode_value(record)) == (message.key(), message.value()), record
            if record.record_type == MEMBER and record.value is not None:
                assert record.value.classic_member_metadata is None
    reader.close()
    assert types == {3, 5, 6, 7, 8, 16}
