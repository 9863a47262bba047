"""Ottla's consumers with group.protocol=consumer beside librdkafka's, in one group, on Ottla and on Apache Kafka."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.testing.waiting import wait_until

PARTITIONS = 6


class Members:
    """Consumers of one group, all of which are polled while the test waits. `calls`: the listeners' calls of each."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self.settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self.topic = topic
        self.alive: list[Any] = []
        self.values: list[bytes] = []
        self.calls: dict[Any, list[tuple[str, int]]] = {}

    def join(self, kind: str, *topics: str, **settings: Any) -> Any:
        import confluent_kafka

        import ottla

        consumer = {"ottla": ottla, "confluent": confluent_kafka}[kind].Consumer({**self.settings, **settings})
        calls = self.calls[consumer] = []

        def noted(what: str) -> Callable[..., None]:
            return lambda _, partitions: calls.append((what, len(partitions)))

        consumer.subscribe(list(topics) or [self.topic], on_assign=noted("assigned"), on_revoke=noted("revoked"), on_lost=noted("lost"))
        self.alive.append(consumer)
        return consumer

    def leave(self, consumer: Any) -> None:
        self.alive.remove(consumer)
        consumer.close()

    def counts(self) -> list[int]:
        """How many partitions each has, after a poll; no partition is another's, too."""
        for consumer in self.alive:
            message = consumer.poll(0.02)
            assert message is None or not message.error(), message.error()
            if message is not None:
                self.values.append(message.value())
        owned = [(each.topic, each.partition) for consumer in self.alive for each in consumer.assignment()]
        assert len(owned) == len(set(owned))
        return [len(consumer.assignment()) for consumer in self.alive]

    def wait_for(self, *counts: int) -> None:
        wait_until(lambda: self.counts() == list(counts), f"assignments of {counts} partitions", lambda: None)


@pytest.fixture
def members(kafka_broker: Any, unique_name: Callable[[str], str]) -> Iterator[Members]:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = unique_name("topic")
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0, "enable.idempotence": True})
    for number in range(PARTITIONS):
        producer.produce(topic, b"%d" % number, partition=number)
    assert producer.flush(60) == 0
    members = Members(kafka_broker.bootstrap_servers, unique_name("group"), topic)
    yield members
    for consumer in list(members.alive):
        members.leave(consumer)


def test_members_of_both_libraries_share_a_group(members: Members) -> None:
    from confluent_kafka.admin import AdminClient

    first = members.join("ottla", **{"group.remote.assignor": "range"})
    members.wait_for(PARTITIONS)
    assert members.calls[first] == [("assigned", PARTITIONS)]
    wait_until(lambda: members.counts() and len(members.values) == PARTITIONS, "every record", lambda: None)
    assert (len(first.memberid()), first.generation_id() > 0) == (22, True)
    assert {each.error for each in first.commit(asynchronous=False)} == {None}

    second = members.join("confluent")
    third = members.join("ottla", f"^{members.topic}.*", **{"group.instance.id": "i"})
    members.wait_for(2, 2, 2)
    assert [kind for kind, _ in members.calls[first]].count("lost") == 0
    assert sum(count for kind, count in members.calls[first] if kind == "revoked") == PARTITIONS - 2, "those alone that it gives up"
    group = members.settings["group.id"]
    admin = AdminClient({"bootstrap.servers": members.settings["bootstrap.servers"], "log_level": 0})
    described = admin.describe_consumer_groups([group])[group].result(60)
    assert (described.type.name, described.partition_assignor) == ("CONSUMER", "range")
    assert {each.member_id for each in described.members} == {each.memberid() for each in (first, second, third)}

    # A static member's partitions wait for it.
    kept = {each.partition for each in third.assignment()}
    members.leave(third)
    again = members.join("ottla", f"^{members.topic}.*", **{"group.instance.id": "i"})
    members.wait_for(2, 2, 2)
    assert {each.partition for each in again.assignment()} == kept
    members.leave(first)
    members.leave(second)
    members.wait_for(PARTITIONS)
    assert len(members.values) == PARTITIONS, "what was committed is not read again"


def test_an_instance_id_that_another_member_has_is_fatal_and_a_wrong_pattern_is_not(members: Members) -> None:
    import ottla
    from ottla import KafkaError, KafkaException

    members.join("ottla", **{"group.instance.id": "i"})
    members.wait_for(PARTITIONS)
    settings = {**members.settings, "group.instance.id": "i"}
    with ottla.Consumer(settings) as other:
        other.subscribe([members.topic])
        for _ in range(2):
            with pytest.raises(KafkaException) as raised:
                other.poll(30)
            assert (raised.value.args[0].code(), raised.value.args[0].fatal()) == (KafkaError.UNRELEASED_INSTANCE_ID, True)
    with ottla.Consumer({**members.settings, "group.id": f"{settings['group.id']}-2"}) as third:
        third.subscribe(["^a["])
        with pytest.raises(KafkaException) as raised:
            third.poll(30)
        assert not raised.value.args[0].fatal()
        assert "SubscribedTopicRegex `^a[` is not a valid regular expression" in raised.value.args[0].str()
        third.subscribe([members.topic])
        message = third.poll(30)
        assert message is not None
        assert message.error() is None
    with ottla.Consumer({**members.settings, "group.id": f"{settings['group.id']}-3", "group.remote.assignor": "best"}) as fourth:
        fourth.subscribe([members.topic])
        with pytest.raises(KafkaException, match="UNSUPPORTED_ASSIGNOR"):
            fourth.poll(30)


def test_the_consumer_of_an_event_loop_is_a_member_too(members: Members) -> None:
    from ottla import AsyncConsumer

    async def read() -> None:
        arguments: dict[str, Any] = {
            "bootstrap_servers": members.settings["bootstrap.servers"],
            "group_id": members.settings["group.id"],
            "group_protocol": "consumer",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        async with AsyncConsumer(members.topic, **arguments) as consumer:
            assert len(consumer.assignment()) == PARTITIONS
            values = {(await consumer.getone()).value for _ in range(PARTITIONS)}
            assert len(values) == PARTITIONS
            await consumer.commit()
            consumer.unsubscribe()
            consumer.subscribe(pattern=f"{members.topic}|no-such")
            while len(consumer.assignment()) < PARTITIONS:
                await consumer.getmany(timeout_ms=20)
            assert consumer.subscription() == {members.topic}

    asyncio.run(asyncio.wait_for(read(), 60))
