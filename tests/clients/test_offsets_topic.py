"""With real clients: the offsets topic is a topic like any other to readers, and closed to writers."""

import struct
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until

GROUP_KEY = 2

# Java's hash of each name modulo 50. The third hashes to -2147483648, which has no absolute value in 32 bits: Kafka takes 0 for it.
GROUP_PARTITIONS = {"test-group": 12, "console-consumer-1": 24, "polygenelubricants": 0, "gruppe-ü-😀": 16}


class Bytes:
    """Reads the fields of one key or value of the offsets topic, as Kafka's message descriptions have them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> Any:
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return value

    def compact_string(self) -> str:
        size = self.take("B") - 1
        assert 0 <= size < 127, "one byte of length is enough for these tests"
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def string(self) -> str | None:
        size = self.take("h")
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def blob(self) -> bytes:
        size = self.take("i")
        self.at += size
        return self.data[self.at - size : self.at]


class OffsetLine(NamedTuple):
    """A committed offset as its record has it."""

    group: str | None
    topic: str | None
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: uuid.UUID


def offset_line(key: bytes, value: bytes) -> OffsetLine:
    """The commit that a record holds, in the form that Kafka 4.3 writes: value version 4, which names the topic's id in a tagged field."""
    keyed = Bytes(key)
    assert keyed.take("h") == 1
    group, topic, partition = keyed.string(), keyed.string(), keyed.take("i")
    assert keyed.at == len(key)
    valued = Bytes(value)
    assert valued.take("h") == 4
    offset, leader_epoch, metadata = valued.take("q"), valued.take("i"), valued.compact_string()
    assert valued.take("q") > 1_700_000_000_000, "commit time in ms"
    assert [valued.take("B") for _ in range(3)] == [1, 0, 16], "one tagged field: number 0, 16 bytes"
    topic_id = uuid.UUID(bytes=value[valued.at :])
    return OffsetLine(group, topic, partition, offset, leader_epoch, metadata, topic_id)


def group_of(key: bytes) -> str | None:
    keyed = Bytes(key)
    keyed.take("h")
    return keyed.string()


def test_commits_are_records_that_a_client_can_read(
    raw_client: Any, unique_name: Callable[[str], str], group_commit: Callable[..., int], read_offsets_topic: Callable[..., list[Any]]
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    assert group_commit(group, topic, 0, 41, "checked") == 0
    assert group_commit(group, topic, 2, 7, "") == 0
    assert group_commit(group, topic, 0, 42, "checked twice") == 0

    records = read_offsets_topic(lambda records: len([each for each in records if group_of(each.key) == group]) >= 3)
    own = [each for each in records if group_of(each.key) == group]
    topic_id = raw_client.call(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics[0].topic_id
    assert [offset_line(each.key, each.value) for each in own] == [
        OffsetLine(group, topic, 0, 41, -1, "checked", topic_id),
        OffsetLine(group, topic, 2, 7, -1, "", topic_id),
        OffsetLine(group, topic, 0, 42, -1, "checked twice", topic_id),
    ]
    assert len({each.partition for each in own}) == 1
    assert [each.offset for each in own] == list(range(own[0].offset, own[0].offset + 3))


def test_the_coordinators_own_decoder_reads_the_topic(
    unique_name: Callable[[str], str], group_commit: Callable[..., int], read_offsets_topic: Callable[..., list[Any]]
) -> None:
    from ottla.groups.log.records import OffsetRecord, decode
    from ottla.protocol.coordinator_records import OffsetValue

    group, topic = unique_name("group"), unique_name("topic")
    group_commit(group, topic, 1, 99, "ours and theirs")
    records = read_offsets_topic(lambda records: any(group_of(each.key) == group for each in records))
    (own,) = [each for each in records if group_of(each.key) == group]
    decoded = decode(own.key, own.value)
    assert isinstance(decoded, OffsetRecord)
    assert isinstance(decoded.value, OffsetValue)
    assert (decoded.group_id, decoded.topic, decoded.partition) == (group, topic, 1)
    assert (decoded.value.offset, decoded.value.metadata) == (99, "ours and theirs")


def test_a_groups_registration_is_a_record(
    kafka_broker: Any,
    library: Any,
    unique_name: Callable[[str], str],
    read_offsets_topic: Callable[..., list[Any]],
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    library.create_topic(topic, 2)
    member = library.member(group, topic, "range")
    wait_until(lambda: len(member.assignment()) == 2, "an assignment", member.poll)
    records = read_offsets_topic(lambda records: any(group_of(each.key) == group for each in records))
    own = [each for each in records if group_of(each.key) == group]
    keyed, valued = Bytes(own[-1].key), Bytes(own[-1].value)
    assert keyed.take("h") == GROUP_KEY
    assert valued.take("h") == 3
    assert valued.string() == "consumer"
    assert valued.take("i") >= 1, "the generation"
    assert valued.string() == "range"
    leader = valued.string()
    assert valued.take("q") > 1_700_000_000_000, "the time of the state"
    assert valued.take("i") == 1, "members"
    assert valued.string() == leader, "the only member leads"
    assert valued.string() is None, "no instance id"
    client_id, client_host = valued.string(), valued.string()
    assert client_id
    assert client_host == "/127.0.0.1"
    rebalance_timeout_ms, session_timeout_ms = valued.take("i"), valued.take("i")
    assert rebalance_timeout_ms >= session_timeout_ms == 6000
    subscription, assignment = valued.blob(), valued.blob()
    assert topic.encode() in subscription
    assert topic.encode() in assignment
    assert valued.at == len(valued.data)
    member.close()


def partitions_of(client: Any, topic: str) -> int:
    """The number of partitions of a topic, 0 when it is not there (asking makes nothing)."""
    topics = client.call(ApiKey.METADATA, 8, topics=None, allow_auto_topic_creation=False).topics
    return next((len(each.partitions) for each in topics if each.name == topic), 0)


def test_the_topic_is_made_when_the_first_consumer_needs_it(new_broker: Callable[..., Any]) -> None:
    from ottla.testing.raw_client import RawClient

    broker = new_broker()
    with RawClient(broker.bootstrap_servers) as client:
        assert partitions_of(client, "__consumer_offsets") == 0
        wait_until(lambda: client.call(ApiKey.FIND_COORDINATOR, 0, key="anyone").error_code == ErrorCode.NONE, "a coordinator")
        assert partitions_of(client, "__consumer_offsets") == 50
        topics = client.call(ApiKey.METADATA, 8, topics=None, allow_auto_topic_creation=False).topics
        (offsets,) = [each for each in topics if each.name == "__consumer_offsets"]
        assert offsets.is_internal
        asked = [{"resource_type": 2, "resource_name": "__consumer_offsets"}]
        configs = client.call(ApiKey.DESCRIBE_CONFIGS, 2, resources=asked)
        settings = {each.name: each.value for each in configs.results[0].configs}
        assert settings["cleanup.policy"] == "compact"
        assert settings["segment.bytes"] == "104857600"
        assert settings["compression.type"] == "producer"


def test_a_topic_made_by_hand_with_another_count_is_followed_from_the_next_start_on(
    new_broker: Callable[..., Any], library_on: Callable[[Any], Any]
) -> None:
    from ottla.testing.raw_client import RawClient

    broker = new_broker()
    create_topic(broker.bootstrap_servers, "__consumer_offsets", 7)
    broker.stop()
    broker.start()
    library = library_on(broker)
    with RawClient(broker.bootstrap_servers) as client:
        library.create_topic("flights", 2)
        library.produce("flights", [(0, b"one"), (1, b"two")])
        member = library.member("test-group", "flights", "range")
        received: list[Any] = []
        wait_until(lambda: len(received) == 2, "both records", lambda: received.extend(member.poll()))
        member.commit()
        member.close()
        assert partitions_of(client, "__consumer_offsets") == 7
        latest = [{"partition_index": each, "timestamp": -1} for each in range(7)]
        ends = client.call(ApiKey.LIST_OFFSETS, 4, replica_id=-1, topics=[{"name": "__consumer_offsets", "partitions": latest}])
        written = {each.partition_index for each in ends.topics[0].partitions if each.offset > 0}
    assert written == {627841412 % 7}


def test_clients_must_not_write_to_it(kafka_broker: Any, unique_name: Callable[[str], str], group_commit: Callable[..., int]) -> None:
    from confluent_kafka import KafkaError, Producer

    group, topic = unique_name("group"), unique_name("topic")
    group_commit(group, topic, 0, 1)
    reports: list[Any] = []
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    producer.produce("__consumer_offsets", b"junk", key=b"junk", on_delivery=lambda error, _: reports.append(error))
    producer.flush(60)
    assert [error.code() for error in reports] == [KafkaError.TOPIC_EXCEPTION], "INVALID_TOPIC_EXCEPTION"
    assert group_commit(group, topic, 0, 2) == 0, "the coordinator goes on"


@pytest.mark.parametrize("group", GROUP_PARTITIONS)
def test_a_group_is_kept_in_the_partition_that_its_name_hashes_to(
    group: str, unique_name: Callable[[str], str], group_commit: Callable[..., int], read_offsets_topic: Callable[..., list[Any]]
) -> None:
    group_commit(group, unique_name("topic"), 0, 1)
    records = read_offsets_topic(lambda records: any(group_of(each.key) == group for each in records))
    assert {each.partition for each in records if group_of(each.key) == group} == {GROUP_PARTITIONS[group]}
