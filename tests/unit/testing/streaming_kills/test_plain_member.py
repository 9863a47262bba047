"""The plain consumer as a program: what it has processed is in its table, then committed; at SIGTERM it leaves the group."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.broker import Broker
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup
from ottla.core.model import TopicPartition
from ottla.testing.clients.topics import create_topic
from ottla.testing.kit.waiting import wait_until
from ottla.testing.streaming_kills.keyed_table import KeyedTable
from ottla.testing.streaming_kills.plain_member import PlainJob, commit
from ottla.testing.streaming_kills.producer import Producer
from ottla.testing.streaming_kills.programs import Program

PLACE = TopicPartition("t", 0)


def test_it_processes_commits_and_leaves(tmp_path: Path):
    with Broker() as broker, AdminClient(broker.bootstrap_servers) as admin:
        servers = broker.bootstrap_servers
        create_topic(servers, "t")
        producer = Producer(servers, "t", 1)
        producer.start()
        job = PlainJob(servers, "t", "g", str(tmp_path / "plain"), "cooperative-sticky", "6000", "1000")
        program = Program("plain", tmp_path / "plain", [sys.executable, "-m", "ottla.testing.streaming_kills.plain_member", *job])
        program.start()
        table = KeyedTable(program.directory)
        try:
            wait_until(lambda: table.ends([PLACE]), program.said, seconds=60)
            producer.close()
            assert producer.failures == []
            ends = producer.ends()

            def has_committed() -> bool:
                found = admin.committed(["g"])["g"]
                return isinstance(found, Mapping) and {place: each.offset for place, each in found.items()} == ends

            wait_until(has_committed, program.said, seconds=60)
            program.stop()
        finally:
            producer.close()
            program.kill()
        assert table.writes() == {(*place, value): 1 for place, value in producer.acknowledged.items()}
        group = admin.describe_groups(["g"])["g"]
        assert isinstance(group, DescribedGroup)
        assert group.members == (), "a member that ends in order leaves"


class Refused:
    """A consumer whose commits fail."""

    def __init__(self, code: int) -> None:
        self._code = code

    def commit(self, *, asynchronous: bool) -> None:
        raise KafkaException(KafkaError(self._code))


def test_a_commit_that_fails_is_reported_and_nothing_to_commit_is_no_failure(capsys: pytest.CaptureFixture[str]):
    commit(Refused(KafkaError._NO_OFFSET))
    assert capsys.readouterr().err == ""
    commit(Refused(KafkaError.ILLEGAL_GENERATION))
    assert "not committed" in capsys.readouterr().err
