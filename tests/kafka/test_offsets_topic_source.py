"""The offsets topic of Apache Kafka as evidence: commits of transactions, and a user who may not read the topic."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, NewTopic, ResourcePatternType, ResourceType
from confluent_kafka.admin import AdminClient as ConfluentAdmin

from ottla.cli.watch import WatchOptions, run
from ottla.client.settings import ClientSettings, parse_client_settings
from ottla.history.sources.evidence import Kind, Source
from ottla.history.sources.offsets_topic import OffsetsTopic
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.testing.waiting import wait_until

pytestmark = pytest.mark.kafka

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER = f'{PLAIN_MODULE} required username="alice" password="secret";'


def make_topic(bootstrap_servers: str, name: str) -> ConfluentAdmin:
    admin = ConfluentAdmin({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return admin


def join(bootstrap_servers: str, group: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "enable.auto.commit": False, "log_level": 0})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    return consumer


def test_commits_of_transactions_count_when_they_commit(reference: Any, unique_name: Callable[[str], str]) -> None:
    broker = reference.shared()
    servers, group, topic = broker.bootstrap_servers, unique_name("group"), unique_name("topic")
    make_topic(servers, topic)
    consumer = join(servers, group, topic)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": unique_name("id"), "log_level": 0})
    producer.init_transactions(30)
    for offset, end in ((5, producer.abort_transaction), (7, producer.commit_transaction), (9, producer.abort_transaction)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 30)
        end(30)
    consumer.close()
    found = {}
    for name in ("cluster", "directory"):
        with OffsetsTopic([group]) as source:
            if name == "cluster":
                source.add_cluster(ClientSettings(bootstrap_servers=servers))
            else:
                source.add_directory(Path(broker.log_dir))
            found[name] = list(source.evidence())
            assert source.counts.aborted_records >= 2
            assert (source.counts.damaged_batches, source.counts.unreadable_records, source.problems) == (0, 0, [])
    assert found["cluster"] == found["directory"]
    (commits,) = [each.commits for each in found["cluster"] if each.kind is Kind.COMMITS]
    ((partition, span),) = commits.items()
    assert partition == (topic, 0)
    assert (span.first_offset, span.last_offset, span.commit_count) == (7, 7, 1)


def test_where_the_topic_may_not_be_read_groups_are_polled(reference: Any, tmp_path: Path) -> None:
    module = f'{PLAIN_MODULE} required username="x" password="x" user_alice="secret";'
    broker = reference.own(
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.saslplain.plain.sasl.jaas.config": module,
        },
        listeners={"SASLPLAIN": "SASL_PLAINTEXT"},
    )
    servers = broker.bootstrap_servers
    admin = make_topic(servers, "t")
    consumer = join(servers, "g", "t")
    pattern = (ResourceType.TOPIC, CONSUMER_OFFSETS, ResourcePatternType.LITERAL)
    deny = AclBinding(*pattern, "User:alice", "*", AclOperation.READ, AclPermissionType.DENY)
    admin.create_acls([deny])[deny].result(30)
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": USER}
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    address, archive = broker.addresses["SASLPLAIN"], tmp_path / "archive"
    out, err = io.StringIO(), io.StringIO()
    options = WatchOptions(bootstrap_servers=[address], output=str(archive), command_configs=[str(config)], interval_s=0.3, duration_s=1)
    assert run(options, out=out, err=err) == 0
    consumer.close()
    assert run(options, out=out, err=err) == 0
    assert "__consumer_offsets may not be read (TOPIC_AUTHORIZATION_FAILED)" in err.getvalue()
    assert "records: 0" in out.getvalue()
    with OffsetsTopic() as source:
        source.add_archive(archive)
        found = list(source.evidence())
        assert all("may not be read" in problem for problem in source.problems)
    assert {each.source for each in found} == {Source.ADMIN}
    kinds = [each.kind for each in found]
    assert kinds[0] is Kind.OBSERVED
    assert kinds[-1] is Kind.EMPTIED
    with OffsetsTopic() as source:
        source.add_cluster(parse_client_settings({"bootstrap.servers": address, **properties}))
        assert list(source.evidence()) == []
        assert "may not be read" in source.problems[0]
    assert b"secret" not in b"".join(path.read_bytes() for path in archive.rglob("*") if path.is_file())


def test_a_group_that_changes_its_protocol_and_back(reference: Any, unique_name: Callable[[str], str]) -> None:
    servers, group, topic = reference.shared().bootstrap_servers, unique_name("group"), unique_name("topic")
    admin = ConfluentAdmin({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(30)
    settings = {"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    classic = Consumer(settings | {"client.id": "classic", "partition.assignment.strategy": "range"})
    modern = Consumer(settings | {"client.id": "modern", "group.protocol": "consumer"})

    def settle(*members: Consumer) -> None:
        def is_settled() -> bool:
            for each in members:
                each.poll(0.05)
            return sum(len(each.assignment()) for each in members) == 4 and all(each.assignment() for each in members)

        wait_until(is_settled, "every member has partitions", seconds=40)

    classic.subscribe([topic])
    settle(classic)
    modern.subscribe([topic])
    settle(classic, modern)
    modern.close()
    settle(classic)
    classic.close()
    with OffsetsTopic([group]) as source:
        source.add_cluster(ClientSettings(bootstrap_servers=servers))
        found = list(source.evidence())
        assert source.problems == []
    converted = [(each.kind, each.group_type) for each in found if each.kind is Kind.CONVERTED]
    assert converted == [(Kind.CONVERTED, "consumer"), (Kind.CONVERTED, "classic")]
    assert [each.client_id for each in found if each.kind is Kind.MEMBER_JOINED] == ["modern"]
    # The conversion itself is no new epoch, neither way.
    epochs = [
        each.generation for each in found if each.kind in (Kind.JOIN_COMPLETED, Kind.SYNC_COMPLETED) and each.group_type == "consumer"
    ]
    # A coordinator of Apache Kafka that converts the group before it has heard of the new topic makes one more when it has.
    assert epochs in ([2, 2], [2, 2, 3, 3])
    assert [each.generation for each in found if each.kind is Kind.SYNC_COMPLETED and each.group_type == "classic"] == [1, epochs[-1] + 1]
    mixed = [each.members or () for each in found if each.kind is Kind.SYNC_COMPLETED and each.group_type == "consumer"]
    assert {member.client_id: member.session_timeout_ms for member in mixed[-1]} == {"classic": 45_000, "modern": -1}
    assert found[-1].kind is Kind.EMPTIED
