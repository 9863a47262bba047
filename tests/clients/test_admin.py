"""What people do with an admin client: topics, partitions, settings, groups, offsets, the cluster; and how their mistakes are answered."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until

# Every topic setting of Apache Kafka 4.3 with its default.
TOPIC_SETTINGS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


@pytest.fixture
def admin(kafka_broker: Any) -> Any:
    """confluent-kafka's admin client."""
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})


@pytest.fixture
def kafka_python_admin(kafka_broker: Any) -> Iterator[Any]:
    """kafka-python's admin client."""
    from kafka.admin import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers)
    yield client
    client.close()


def done(futures: dict[Any, Any]) -> Any:
    """The result of an admin call about one thing."""
    (future,) = futures.values()
    return future.result(60)


def error_of(futures: dict[Any, Any]) -> str:
    """The name of the error that an admin call about one thing ends with."""
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException) as raised:
        done(futures)
    return str(raised.value.args[0].name())


def make(admin: Any, topic: str, partitions: int = 1, **config: str) -> None:
    """A topic that the brokers know, too: those of Apache Kafka learn of it a little after their controller has answered."""
    from confluent_kafka.admin import NewTopic

    settings = {name.replace("_", "."): value for name, value in config.items()}
    done(admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]))

    def is_there() -> bool:
        found = admin.list_topics(timeout=60).topics.get(topic)
        return found is not None and len(found.partitions) == partitions and all(each.leader >= 0 for each in found.partitions.values())

    wait_until(is_there, f"the topic {topic}")


def described(admin: Any, topic: str) -> Any:
    from confluent_kafka import TopicCollection

    return done(admin.describe_topics(TopicCollection([topic])))


def settings(admin: Any, topic: str) -> dict[str, Any]:
    from confluent_kafka.admin import ConfigResource

    return dict(done(admin.describe_configs([ConfigResource("topic", topic)])))


def test_topics_are_made_described_and_deleted(admin: Any, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    make(admin, topic, 3, retention_ms="60000")
    description = described(admin, topic)
    assert (description.name, description.is_internal) == (topic, False)
    node = done({"": admin.describe_cluster()}).nodes[0].id
    assert [(each.id, each.leader.id, [n.id for n in each.replicas], [n.id for n in each.isr]) for each in description.partitions] == [
        (number, node, [node], [node]) for number in range(3)
    ]
    assert topic in admin.list_topics(timeout=60).topics
    done(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=60).topics, "the topic is gone")


def test_mistakes_with_topics_get_kafkas_answers(admin: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka.admin import NewTopic

    topic = unique_name("topic")
    done(admin.create_topics([NewTopic(topic, 1, 1)]))
    assert error_of(admin.create_topics([NewTopic(topic, 1, 1)])) == "TOPIC_ALREADY_EXISTS"
    assert error_of(admin.create_topics([NewTopic("no spaces", 1, 1)])) == "TOPIC_EXCEPTION"
    assert error_of(admin.create_topics([NewTopic(unique_name("topic"), 0, 1)])) == "INVALID_PARTITIONS"
    assert error_of(admin.create_topics([NewTopic(unique_name("topic"), 1, 2)])) == "INVALID_REPLICATION_FACTOR"
    assert error_of(admin.create_topics([NewTopic(unique_name("topic"), 1, 1, config={"no.such": "1"})])) == "INVALID_CONFIG"
    assert error_of(admin.create_topics([NewTopic(unique_name("topic"), 1, 1, config={"retention.ms": "x"})])) == "INVALID_CONFIG"
    assert error_of(admin.delete_topics([unique_name("nowhere")])) == "UNKNOWN_TOPIC_OR_PART"


def test_validate_only_makes_nothing(admin: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka.admin import NewPartitions, NewTopic

    topic = unique_name("topic")
    done(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=60).topics
    make(admin, topic)
    done(admin.create_partitions([NewPartitions(topic, 4)], validate_only=True))
    assert len(described(admin, topic).partitions) == 1


def test_partitions_are_added(admin: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = unique_name("topic")
    make(admin, topic)
    done(admin.create_partitions([NewPartitions(topic, 4)]))
    wait_until(lambda: len(described(admin, topic).partitions) == 4, "four partitions")
    assert error_of(admin.create_partitions([NewPartitions(unique_name("nowhere"), 4)])) == "UNKNOWN_TOPIC_OR_PART"


def test_settings_of_a_topic_are_described_and_altered(admin: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

    topic = unique_name("topic")
    make(admin, topic, max_message_bytes="2000")
    before = settings(admin, topic)
    assert before["max.message.bytes"].value == "2000"
    assert before["max.message.bytes"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert before["cleanup.policy"].value == "delete"
    assert before["cleanup.policy"].is_default
    assert before["retention.ms"].value == "604800000"

    def alter(name: str, value: str | None, operation: Any) -> Any:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        return admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])])

    done(alter("retention.ms", "1234", AlterConfigOpType.SET))
    wait_until(lambda: settings(admin, topic)["retention.ms"].value == "1234", "the new value")
    done(alter("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    wait_until(lambda: settings(admin, topic)["cleanup.policy"].value == "delete,compact", "both policies")
    done(alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
    wait_until(lambda: settings(admin, topic)["cleanup.policy"].value == "compact", "one policy")
    done(alter("retention.ms", None, AlterConfigOpType.DELETE))
    wait_until(lambda: settings(admin, topic)["retention.ms"].is_default, "the default again")
    assert error_of(alter("no.such.setting", "1", AlterConfigOpType.SET)) == "INVALID_CONFIG"
    assert error_of(alter("retention.ms", "long", AlterConfigOpType.SET)) == "INVALID_CONFIG"
    assert error_of(admin.describe_configs([ConfigResource("topic", unique_name("nowhere"))])) == "UNKNOWN_TOPIC_OR_PART"


def test_the_settings_of_a_new_topic_are_kafkas_defaults(admin: Any, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    make(admin, topic)
    described_settings = {name: entry.value for name, entry in settings(admin, topic).items()}
    assert described_settings == TOPIC_SETTINGS


def test_limits_of_the_running_broker_change_at_once() -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    from ottla.broker import Broker

    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

        def alter(name: str, value: str) -> None:
            entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            done(admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])]))

        host, port = broker.bootstrap_servers.split(":")
        alter("max.connections", "0")
        with socket.create_connection((host, int(port)), timeout=60) as refused:
            assert refused.recv(1) == b"", "it is closed; that of the admin client stays open"
        alter("log.cleaner.threads", "3")
        entry = done(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))["log.cleaner.threads"]
        assert (entry.value, entry.is_read_only, entry.source) == ("3", False, 2)
        alter("max.connections", "100")
        with RawClient(broker.bootstrap_servers) as client:
            assert client.call(ApiKey.METADATA, 1, topics=[]).brokers


def test_settings_of_the_broker_are_described(admin: Any) -> None:
    from confluent_kafka.admin import ConfigResource

    node = done({"": admin.describe_cluster()}).nodes[0].id
    values = {name: entry.value for name, entry in done(admin.describe_configs([ConfigResource("broker", str(node))])).items()}
    assert values["group.min.session.timeout.ms"] == "6000"
    assert values["group.max.session.timeout.ms"] == "1800000"
    assert values["offsets.topic.num.partitions"] == "50"
    assert values["auto.create.topics.enable"] == "true"
    assert values["num.partitions"] == "1"


def test_the_cluster_describes_itself(admin: Any, kafka_broker: Any) -> None:
    cluster = admin.describe_cluster().result(60)
    assert len(cluster.cluster_id) == 22
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == kafka_broker.bootstrap_servers
    assert cluster.controller.id == node.id


def test_groups_are_listed_described_and_deleted(
    kafka_broker: Any,
    admin: Any,
    library_on: Callable[..., Any],
    unique_name: Callable[[str], str],
) -> None:
    from confluent_kafka import ConsumerGroupState, ConsumerGroupType

    group, topic = unique_name("group"), unique_name("topic")
    library = library_on(kafka_broker)
    library.create_topic(topic, 2)
    library.produce(topic, [(0, b"a"), (1, b"b")])
    member = library.member(group, topic, "range")
    received: list[Any] = []
    wait_until(lambda: len(received) == 2, "both records", lambda: received.extend(member.poll()))
    member.commit()

    listed = {each.group_id: each for each in admin.list_consumer_groups().result(60).valid}
    assert listed[group].state == ConsumerGroupState.STABLE
    assert listed[group].type == ConsumerGroupType.CLASSIC
    assert not listed[group].is_simple_consumer_group
    assert group not in {each.group_id for each in admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(60).valid}
    description = done(admin.describe_consumer_groups([group]))
    assert (description.state, description.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    (seen,) = description.members
    assert seen.member_id.startswith("rdkafka-")
    assert seen.host == "/127.0.0.1"
    assert [(each.topic, each.partition) for each in seen.assignment.topic_partitions] == [(topic, 0), (topic, 1)]
    assert error_of(admin.delete_consumer_groups([group])) == "NON_EMPTY_GROUP"

    member.close()
    wait_until(lambda: done(admin.describe_consumer_groups([group])).state == ConsumerGroupState.EMPTY, "an empty group")
    done(admin.delete_consumer_groups([group]))
    assert group not in {each.group_id for each in admin.list_consumer_groups().result(60).valid}
    assert done(admin.describe_consumer_groups([group])).state == ConsumerGroupState.DEAD
    assert error_of(admin.delete_consumer_groups([group])) == "GROUP_ID_NOT_FOUND"


def test_committed_offsets_are_listed_and_altered(admin: Any, unique_name: Callable[[str], str], group_commit: Callable[..., int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    group, topic = unique_name("group"), unique_name("topic")
    group_commit(group, topic, 0, 10, "ten")
    group_commit(group, topic, 2, 30)
    listed = done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    kept = sorted((each.topic, each.partition, each.offset) for each in listed.topic_partitions)
    assert kept == [(topic, 0, 10), (topic, 2, 30)]
    moved = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])]
    done(admin.alter_consumer_group_offsets(moved))
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0), TopicPartition(topic, 1)])
    listed = done(admin.list_consumer_group_offsets([asked]))
    assert [(each.partition, each.offset) for each in listed.topic_partitions] == [(0, 3), (1, -1001)]


def test_committed_offsets_are_deleted(
    kafka_python_admin: Any, unique_name: Callable[[str], str], group_commit: Callable[..., int]
) -> None:
    from kafka import TopicPartition

    group, topic = unique_name("group"), unique_name("topic")
    group_commit(group, topic, 0, 10)
    group_commit(group, topic, 1, 20)
    deleted = kafka_python_admin.delete_group_offsets(group, [TopicPartition(topic, 0)])
    assert [error.errno for error in deleted.values()] == [0]
    kept = kafka_python_admin.list_group_offsets(group)
    assert {each: value.offset for each, value in kept[group].items()} == {TopicPartition(topic, 1): 20}


def test_offsets_are_listed_by_time(kafka_broker: Any, admin: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    topic = unique_name("topic")
    make(admin, topic, 2)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for timestamp in (1_000_000, 2_000_000, 5_000_000, 3_000_000):
        producer.produce(topic, b"x", partition=0, timestamp=timestamp)
        assert producer.flush(60) == 0

    def ask(spec: Any, partition: int = 0) -> tuple[int, int]:
        result = done(admin.list_offsets({TopicPartition(topic, partition): spec}))
        return result.offset, result.timestamp

    assert ask(OffsetSpec.earliest()) == (0, -1)
    assert ask(OffsetSpec.latest()) == (4, -1)
    assert ask(OffsetSpec.for_timestamp(0)) == (0, 1_000_000)
    assert ask(OffsetSpec.for_timestamp(1_000_001)) == (1, 2_000_000)
    assert ask(OffsetSpec.for_timestamp(2_500_000)) == (2, 5_000_000), "the first record at or after the time, by offset"
    assert ask(OffsetSpec.for_timestamp(5_000_001)) == (-1, -1)
    assert ask(OffsetSpec.max_timestamp()) == (2, 5_000_000)
    assert ask(OffsetSpec.latest(), 1) == (0, -1)
    assert ask(OffsetSpec.for_timestamp(0), 1) == (-1, -1)
    assert ask(OffsetSpec.max_timestamp(), 1) == (-1, -1)


def test_producing_makes_a_topic_unless_told_otherwise(kafka_broker: Any, admin: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Producer

    topic = unique_name("topic")
    assert topic not in admin.list_topics(timeout=60).topics
    reports: list[Any] = []
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    producer.produce(topic, b"first", on_delivery=lambda error, message: reports.append((error, message.offset())))
    wait_until(lambda: reports, "the delivery", lambda: producer.flush(0.1))
    assert reports == [(None, 0)]
    assert len(described(admin, topic).partitions) == 1
