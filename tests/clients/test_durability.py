"""Data acknowledged is data kept: group commit, ends that are clean and ends that are not, topics made again, and disks that fail."""

import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.processes import OttlaProcess
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until

NOT_YET = {3, 6}
"""UNKNOWN_TOPIC_OR_PARTITION and NOT_LEADER_OR_FOLLOWER: Apache Kafka's brokers hear of a topic a little later than the client."""
MARKER = ".kafka_cleanshutdown"


class Talk:
    """One connection, and the few requests that these tests send."""

    def __init__(self, broker: Any) -> None:
        self.client = RawClient(broker.bootstrap_servers)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> int:
        settings = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
        made = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
        return int(self.client.call(ApiKey.CREATE_TOPICS, 7, timeout=5000, topics=[made]).topics[0].error_code)

    def delete(self, topic: str) -> int:
        return int(self.client.call(ApiKey.DELETE_TOPICS, 5, timeout=5000, topic_names=[topic]).responses[0].error_code)

    def produce(self, topic: str, partition: int = 0, value: bytes = b"x") -> tuple[int, int]:
        """Error code and offset."""
        records = bytes(encode_batch([Record(0, int(time.time() * 1000), b"k", value)]))
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        while True:
            answer = self.client.call(ApiKey.PRODUCE, 9, acks=-1, timeout=5000, topic_data=data).responses[0].partition_responses[0]
            if answer.error_code not in NOT_YET:
                return int(answer.error_code), int(answer.base_offset)
            time.sleep(0.02)

    def fetch(self, topic: str, partition: int = 0) -> int:
        """The error code."""
        asked = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        answer = self.client.call(
            ApiKey.FETCH, 11, max_wait=0, min_bytes=0, max_bytes=1 << 20, topics=[{"topic": topic, "partitions": [asked]}]
        )
        return int(answer.responses[0].partitions[0].error_code)

    def end(self, topic: str, partition: int = 0) -> int:
        """The next offset; Apache Kafka may not be able to tell for a moment (OFFSET_NOT_AVAILABLE)."""
        asked = [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": -1}]}]
        deadline = time.monotonic() + 10
        while True:
            answer = self.client.call(ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=asked).topics[0].partitions[0]
            if answer.offset >= 0 or time.monotonic() > deadline:
                return int(answer.offset)
            time.sleep(0.01)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[OttlaProcess]:
    """Our broker as a process, with its data in `data_dir`."""
    with OttlaProcess(tmp_path / "data") as broker:
        yield broker


def until_said(broker: OttlaProcess, words: str) -> None:
    """Waits until the broker has logged it: lines are written by a thread of their own."""
    wait_until(lambda: words in broker.log_path.read_text(), lambda: f"{words!r} in: {broker.log_path.read_text()}")


def test_many_producers_share_the_syncs_of_flush_messages_1(killable_broker: Any, unique_name: Callable[[str], str]) -> None:
    broker, topic = killable_broker, unique_name("flights")
    assert Talk(broker).create(topic, flush_messages="1") == 0
    offsets: list[int] = []

    def send() -> None:
        talk = Talk(broker)
        for _ in range(25):
            error, offset = talk.produce(topic)
            assert error == 0
            offsets.append(offset)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(offsets) == list(range(200))
    broker.kill()
    broker.start()
    assert Talk(broker).end(topic) == 200


def test_a_topic_that_is_made_again_at_once_is_empty(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    talk, topic = Talk(kafka_broker), unique_name("flights")
    for _ in range(3):
        assert talk.create(topic) == 0
        assert [talk.produce(topic) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
        assert talk.delete(topic) == 0


def test_a_clean_end_is_marked_and_a_killed_broker_keeps_what_it_acknowledged(ours: OttlaProcess) -> None:
    talk = Talk(ours)
    assert talk.create("flights", 3) == 0
    assert [talk.produce("flights", number % 3) for number in range(6)] == [(0, number // 3) for number in range(6)]
    ours.stop()
    assert (ours.data_dir / MARKER).read_text() == '{"version":0,"brokerEpoch":-1}'
    checkpoint = (ours.data_dir / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert {"flights 0 2", "flights 1 2", "flights 2 2"} <= set(checkpoint)
    ours.start()
    assert not (ours.data_dir / MARKER).exists()
    talk = Talk(ours)
    assert talk.produce("flights", 1) == (0, 2)
    ours.kill()
    assert not (ours.data_dir / MARKER).exists()
    with open(ours.data_dir / "flights-1/00000000000000000000.log", "ab") as log:
        log.write(b"torn")
    ours.start()
    assert [Talk(ours).end("flights", number) for number in range(3)] == [2, 3, 2]
    until_said(ours, "flights-1: 4 bytes of a torn tail were cut; the log ends at offset 3")


def test_a_partition_that_may_not_grow_is_offline_until_it_may(ours: OttlaProcess) -> None:
    talk = Talk(ours)
    assert talk.create("flights", 2) == 0
    assert talk.produce("flights", 0, bytes(400_000)) == (0, 0)
    before = resource.prlimit(ours.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(ours.pid, resource.RLIMIT_FSIZE, (500_000, before[1]))  # as good as a full disk, for one partition
    for _ in range(3):
        assert talk.produce("flights", 0, bytes(400_000)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert talk.produce("flights", 1) == (0, 0)
    assert talk.fetch("flights", 0) == 0
    assert talk.end("flights", 0) == 1
    resource.prlimit(ours.pid, resource.RLIMIT_FSIZE, before)
    assert talk.produce("flights", 0, bytes(400_000)) == (0, 1)
    until_said(ours, "takes records again")
    said = [line for line in ours.log_path.read_text().splitlines() if "flights-0" in line and "offline" in line]
    assert len(said) == 1


def test_a_partition_whose_files_are_gone_is_offline_and_comes_back_with_them(ours: OttlaProcess) -> None:
    talk = Talk(ours)
    assert talk.create("flights", 2) == 0
    assert talk.produce("flights", 0) == talk.produce("flights", 1) == (0, 0)
    ours.kill()
    log = ours.data_dir / "flights-0/00000000000000000000.log"
    kept = log.rename(ours.data_dir.with_name("kept"))
    log.mkdir()
    ours.start()
    talk = Talk(ours)
    assert talk.produce("flights", 0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert talk.fetch("flights", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert talk.produce("flights", 1) == (0, 1)
    until_said(ours, "flights-0 is offline")
    said = [line for line in ours.log_path.read_text().splitlines() if "flights-0 is offline" in line]
    assert len(said) == 1
    shutil.rmtree(log)
    kept.rename(log)
    wait_until(lambda: talk.produce("flights", 0)[0] == 0, "the partition to be tried again")
    assert talk.end("flights", 0) == 2
