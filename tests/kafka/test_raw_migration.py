"""Groups with members of both protocols, step by step with both brokers: every answer, and every record of __consumer_offsets."""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

import pytest

from ottla.coordinator.placement import coordinator_partition
from ottla.groups.log.records import ConsumerGroupRecord, GroupMetadataRecord, decode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.consumer_protocol import parse_assignment
from ottla.testing.raw_client import RawClient, build_request, create_topic
from ottla.testing.waiting import wait_until
from tests.support.kit.consumer_protocol import encode_assignment, encode_subscription

pytestmark = pytest.mark.kafka

CONFIG = {
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "1000",
}
TOPIC = "flights"
PARTITIONS = 12
ASSIGNMENTS = encode_assignment({TOPIC: list(range(PARTITIONS))})
RANDOM_ID = re.compile(r"(?:[\w.-]+-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\w-])[\w-]{22}(?![\w-])")


class Script:
    """What is said with one broker; ids that the broker makes have names by their order."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.client = RawClient(bootstrap_servers, client_id="m")
        self.said: list[str] = []
        self.names: dict[str, str] = {}
        self.topic_id = uuid.UUID(int=0)

    def close(self) -> None:
        self.client.close()

    def named(self, text: str) -> str:
        return RANDOM_ID.sub(lambda found: self.names.setdefault(found[0], f"id{len(self.names)}"), text)

    def finds_coordinator(self) -> bool:
        self.client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["any"])
        answer = self.client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["any"], include_authorized_operations=False)
        return bool(answer.groups[0].error_code == ErrorCode.NONE)

    def say(self, what: str, *fields: object) -> None:
        self.said.append(self.named(" ".join([what, *(str(field) for field in fields)])))

    def send_join(self, group: str, member_id: str, *, client: RawClient | None = None, **values: Any) -> Any:
        owned = values.pop("owned", None)
        protocols = values.pop("protocols", [{"name": "range", "metadata": encode_subscription([TOPIC], owned)}])
        asked = {
            "group_id": group,
            "member_id": member_id,
            "session_timeout": 30_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": protocols,
            "group_instance_id": None,
            "reason": None,
        }
        request = build_request(ApiKey.JOIN_GROUP, 9, asked | values)
        (client or self.client).send(request)
        return request

    def joined(self, request: Any, *, client: RawClient | None = None) -> Any:
        answer = (client or self.client).receive(request)
        self.say(
            "join", ErrorCode(answer.error_code).name, answer.generation_id, answer.protocol_type, answer.protocol_name, answer.leader,
            answer.member_id, len(answer.members),
        )  # fmt: skip
        return answer

    def join(self, group: str, member_id: str, **values: Any) -> Any:
        return self.joined(self.send_join(group, member_id, **values))

    def sync(self, group: str, member_id: str, generation: int, **values: Any) -> None:
        asked = {
            "group_id": group,
            "generation_id": generation,
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
        }
        answer = self.client.call(ApiKey.SYNC_GROUP, 5, **(asked | values))
        assigned = parse_assignment(answer.assignment) if answer.error_code == ErrorCode.NONE else {}
        version = answer.assignment[:2].hex()
        numbers = {topic: tuple(sorted(partitions)) for topic, partitions in assigned.items()}
        self.say("sync", ErrorCode(answer.error_code).name, answer.protocol_type, answer.protocol_name, version, numbers)

    def heartbeat(self, group: str, member_id: str, generation: int, instance_id: str | None = None) -> None:
        values = {"group_id": group, "generation_id": generation, "member_id": member_id, "group_instance_id": instance_id}
        answer = self.client.call(ApiKey.HEARTBEAT, 4, **values)
        self.say("heartbeat", ErrorCode(answer.error_code).name)

    def leave(self, group: str, *members: tuple[str, str | None]) -> None:
        leaving = [{"member_id": member_id, "group_instance_id": instance_id, "reason": None} for member_id, instance_id in members]
        answer = self.client.call(ApiKey.LEAVE_GROUP, 5, group_id=group, members=leaving)
        errors = [(each.member_id, each.group_instance_id, ErrorCode(each.error_code).name) for each in answer.members]
        self.say("leave", ErrorCode(answer.error_code).name, errors)

    def consumer(self, group: str, member_id: str, epoch: int, owned: list[int] | None = None, **values: Any) -> Any:
        is_joining = epoch == 0
        partitions = None if owned is None and not is_joining else [{"topic_id": self.topic_id, "partitions": owned}] if owned else []
        asked = {
            "group_id": group,
            "member_id": member_id,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 60_000 if is_joining else -1,
            "subscribed_topic_names": [TOPIC] if is_joining else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": partitions,
        }
        answer = self.client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **(asked | values))
        assigned = answer.assignment and [sorted(topic.partitions) for topic in answer.assignment.topic_partitions]
        self.say("consumer", ErrorCode(answer.error_code).name, answer.error_message, answer.member_id, answer.member_epoch, assigned)
        return answer

    def commit(self, group: str, member_id: str, epoch: int, partition: int) -> None:
        committed = {"partition_index": partition, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
        answer = self.client.call(
            ApiKey.OFFSET_COMMIT,
            9,
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=None,
            topics=[{"name": TOPIC, "partitions": [committed]}],
        )
        self.say("commit", ErrorCode(answer.topics[0].partitions[0].error_code).name)

    def describe(self, group: str) -> None:
        described = self.client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group], include_authorized_operations=False).groups[0]
        members = sorted(
            (
                self.named(member.member_id),
                member.instance_id,
                member.member_epoch,
                member.subscribed_topic_names,
                member.subscribed_topic_regex,
                [sorted(topic.partitions) for topic in member.assignment.topic_partitions],
                [sorted(topic.partitions) for topic in member.target_assignment.topic_partitions],
                member.member_type,
            )
            for member in described.members
        )
        self.say("described", ErrorCode(described.error_code).name, described.error_message, described.group_state, described.group_epoch)
        self.say("members", described.assignment_epoch, described.assignor_name, members)
        classic = self.client.call(ApiKey.DESCRIBE_GROUPS, 6, groups=[group], include_authorized_operations=False).groups[0]
        assigned = sorted((self.named(member.member_id), member.member_assignment) for member in classic.members)
        self.say("classic", ErrorCode(classic.error_code).name, classic.error_message, classic.group_state, classic.protocol_data, assigned)
        listed = self.client.call(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups
        self.say("listed", [(each.group_type, each.group_state, each.protocol_type) for each in listed if each.group_id == group])


def _classic_group(script: Script, group: str, assignment: bytes = ASSIGNMENTS, **values: Any) -> str:
    """A Stable classic group of one member that has everything; its id."""
    member_id = script.join(group, "", **values).member_id
    if "group_instance_id" not in values:
        script.join(group, member_id, **values)
    assignments = [{"member_id": member_id, "assignment": assignment}]
    script.sync(group, member_id, 1, assignments=assignments, group_instance_id=values.get("group_instance_id"))
    return str(member_id)


def upgrade_and_downgrade(script: Script) -> None:
    group = "dynamic"
    first = _classic_group(script, group)
    script.consumer(group, "c1", 0)
    script.describe(group)
    script.heartbeat(group, first, 1)
    script.sync(group, first, 1)
    script.join(group, first, owned={TOPIC: list(range(12))})
    script.sync(group, first, 1)
    script.heartbeat(group, first, 1)
    script.join(group, first, owned={TOPIC: list(range(6))})
    script.sync(group, first, 2)
    script.heartbeat(group, first, 2)
    script.consumer(group, "c1", 2, [])
    script.describe(group)
    for epoch, partition in ((2, 0), (1, 0), (1, 11), (3, 0), (-1, 0)):
        script.commit(group, first, epoch, partition)
    script.heartbeat(group, first, 1)
    script.heartbeat(group, first, 2, "i9")
    script.heartbeat(group, "c1", 2)
    script.heartbeat(group, "nobody", 2)
    script.sync(group, first, 2, protocol_name="sticky")
    script.sync(group, first, 2, protocol_type="connect")
    script.sync(group, first, 3)
    script.sync(group, "c1", 2)
    script.join(group, "x", protocols=[{"name": "sticky", "metadata": encode_subscription([TOPIC])}])
    script.join(group, "x", protocol_type="connect")
    script.join(group, "x", protocols=[{"name": "range", "metadata": b"x"}])
    script.join(group, "x", protocols=[])
    script.join(group, "x", session_timeout=1)
    script.join(group, "")
    # A static member joins, changes its protocol, and changes it back.
    static = script.join(group, "", group_instance_id="i1").member_id
    script.sync(group, static, 3, group_instance_id="i1")
    script.heartbeat(group, static, 3, "i1")
    script.consumer(group, "c1", 2, list(range(6, 10)))
    script.heartbeat(group, static, 3, "i1")
    script.describe(group)
    script.join(group, "other", group_instance_id="i1")
    script.join(group, static, group_instance_id="i2")
    script.sync(group, "other", 3, group_instance_id="i1")
    script.consumer(group, "c2", 0, instance_id="i1")
    script.consumer(group, "c3", 0, instance_id="i1")
    script.heartbeat(group, static, 3, "i1")
    static = script.join(group, "", group_instance_id="i1").member_id
    script.consumer(group, "c2", 3, instance_id="i1")
    script.leave(group, ("other", "i1"), ("nobody", None), ("", "i7"))
    script.describe(group)
    script.consumer(group, "c1", -1)
    script.heartbeat(group, static, 3, "i1")
    script.sync(group, static, 3, group_instance_id="i1")
    script.describe(group)
    # A member of the consumer protocol comes back while the classic group waits for its members, and is removed by an administrator.
    script.consumer(group, "c4", 0)
    script.describe(group)
    script.leave(group, ("c4", None))
    script.describe(group)
    script.leave(group, (first, None), ("", "i1"))
    script.describe(group)


def static_members_alone(script: Script) -> None:
    group = "static"
    script.consumer(group, "c1", 0, instance_id="i1")
    second = script.join(group, "", group_instance_id="i2").member_id
    script.consumer(group, "c1", 2, list(range(6)), instance_id="i1")
    script.join(group, second, group_instance_id="i2")
    script.sync(group, second, 3, group_instance_id="i2")
    first = script.join(group, "", group_instance_id="i1").member_id
    script.sync(group, first, 3, group_instance_id="i1")
    script.heartbeat(group, second, 3, "i2")
    script.describe(group)
    # The other way, with a subscription that changes: the target is stale, and the classic group rebalances.
    script.consumer(group, "c2", 0, instance_id="i1")
    script.describe(group)
    changed = [{"name": "range", "metadata": encode_subscription([TOPIC, "weather"])}]
    again = script.join(group, "", group_instance_id="i1", protocols=changed).member_id
    script.sync(group, again, 0, group_instance_id="i1")
    script.heartbeat(group, second, 3, "i2")
    script.describe(group)


def refused_upgrades(script: Script) -> None:
    _classic_group(script, "own-data", assignment=encode_assignment({TOPIC: [0]})[:-4] + b"\0\0\0\1x")
    script.consumer("own-data", "c1", 0)
    script.consumer("own-data", "c1", 1)
    script.consumer("own-data", "c1", -1)
    script.describe("own-data")
    _classic_group(script, "malformed", protocols=[{"name": "range", "metadata": b"x"}])
    script.consumer("malformed", "c1", 0)
    script.describe("malformed")
    other = script.join("connect", "", protocol_type="connect").member_id
    waiting = script.send_join("connect", other, protocol_type="connect")
    script.joined(waiting)
    script.consumer("connect", "c1", 0)


def upgrade_of_parked_members(script: Script) -> None:
    group = "parked"
    first = _classic_group(script, group)
    with RawClient("{}:{}".format(*script.client.socket.getpeername()), client_id="m") as other:
        newcomer = script.join(group, "").member_id
        parked = script.send_join(group, newcomer, client=other)
        wait_until(lambda: _state(script, group) == "PreparingRebalance", "the rebalance", lambda: None)
        script.consumer(group, "c1", 0)
        script.joined(parked, client=other)
    script.heartbeat(group, first, 1)
    script.heartbeat(group, newcomer, 1)
    script.join(group, newcomer)


def _state(script: Script, group: str) -> str:
    answer = script.client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[group], include_authorized_operations=False)
    return str(answer.groups[0].group_state)


def records_of(script: Script, bootstrap_servers: str) -> Iterator[str]:
    """Every record of a group, with hashes and times left out; records that Kafka takes from a hash map are in order."""
    from confluent_kafka import Consumer, TopicPartition

    reader: Any = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "log_level": 0, "enable.auto.commit": False})
    partition = TopicPartition("__consumer_offsets", coordinator_partition("any", 1), 0)
    _, end = reader.get_watermark_offsets(partition, 60)
    reader.assign([partition])
    records: list[tuple[int, Any]] = []
    while not records or records[-1][0] < end - 1:
        message = reader.poll(10)
        assert message is not None, "the log has more records"
        records.append((message.offset(), decode(message.key(), message.value())))
    reader.close()
    shown = []
    for _, record in records:
        if isinstance(record, ConsumerGroupRecord):
            shown.append(((record.group_id, record.record_type, record.value is None), script.named(f"{record.name} {record.value}")))
        elif isinstance(record, GroupMetadataRecord):
            members = sorted(record.value.members, key=lambda member: script.named(member.member_id)) if record.value else []
            value = record.value and (record.value.protocol_type, record.value.generation, record.value.protocol)
            shown.append(((record.group_id, 2, record.value is None), script.named(f"{value} {members}")))
    for (group, kind, is_deleted), run in groupby(shown, key=lambda each: each[0]):
        for text in sorted(text for _, text in run):
            yield re.sub(
                rf"(metadata_hash|timestamp_ms)=-?\d+|{re.escape(repr(script.topic_id.bytes))}", "", f"{group} {kind} {is_deleted} {text}"
            )


SCRIPTS: Mapping[str, Callable[[Script], None]] = {
    script.__name__: script for script in (upgrade_and_downgrade, static_members_alone, refused_upgrades, upgrade_of_parked_members)
}


def test_every_answer_and_record_is_the_same(reference: Any) -> None:
    from ottla.broker import Broker

    kafka = reference.own(CONFIG)
    said: dict[str, list[str]] = {}
    try:
        with Broker(config=CONFIG) as ours:
            for kind, servers in (("apache-kafka", kafka.bootstrap_servers), ("ottla", ours.bootstrap_servers)):
                script = Script(servers)
                create_topic(script.client, TOPIC, PARTITIONS)
                (topic,) = script.client.call(ApiKey.METADATA, 12, topics=[{"topic_id": None, "name": TOPIC}]).topics
                script.topic_id = topic.topic_id
                wait_until(script.finds_coordinator, "the group coordinator", lambda: None)
                for name, run in SCRIPTS.items():
                    script.say("script", name)
                    run(script)
                said[kind] = [*script.said, *records_of(script, servers)]
                script.close()
    finally:
        reference.end_own()
    assert said["ottla"] == said["apache-kafka"]
