"""Work that is handed to the brokers' loop from another thread."""

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import Broker, Cluster, embedded
from ottla.broker.embedded import is_no_thread, no_thread
from ottla.client.admin.client import AdminClient
from ottla.config import ConfigError
from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient, create_topic
from ottla.testing.waiting import wait_until
from tests.support.processes import free_ports


def test_who_asks_before_the_start_learns_how_to_start() -> None:
    with pytest.raises(RuntimeError, match=r"use `with Broker\(\) as broker:`"):
        _ = Broker().bootstrap_servers
    with pytest.raises(RuntimeError, match=r"use `with Cluster\(\) as cluster:`"):
        Cluster().stop_broker(1)


def test_what_the_loop_raises_is_raised_here() -> None:
    with Cluster(2) as cluster, pytest.raises(ConfigError, match="there is no broker 7: the brokers are 1, 2"):
        cluster.stop_broker(7)
    with pytest.raises(ConfigError, match="write a number from 1 to 100"):
        Cluster(0)


def test_health_is_that_of_all() -> None:
    with Cluster(2) as cluster:
        assert cluster.health.is_healthy
        assert cluster.metrics_url is None


def test_settings_may_be_numbers_and_flags() -> None:
    with Broker(config={"num.partitions": 3, "auto.create.topics.enable": False}) as broker:
        assert broker.bootstrap_servers
    with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
        Broker(config={"num_partition": 3})
    with pytest.raises(ConfigError, match=r"\(3\) > the number of brokers \(2\)"):
        Cluster(2, config={"default.replication.factor": 3})


def test_no_thread_is_said_and_the_next_start_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    broker = Broker()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="no thread can be started: raise the limits"):
            broker.start()
    with broker:
        assert broker.bootstrap_servers


def test_a_loop_that_cannot_be_made_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(embedded, "new_event_loop", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        Broker().start()


def test_a_data_directory_has_a_name() -> None:
    with pytest.raises(ConfigError, match="the data directory has no name"):
        Broker("")


def test_a_broker_that_starts_again_has_its_port_and_its_topics() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
        create_topic(address, "orders")
        broker.stop()
        broker.start()
        assert broker.bootstrap_servers == address
        broker.restart()
        assert broker.bootstrap_servers == address
        with AdminClient(address) as admin:
            assert "orders" in admin.list_topics()


def test_a_cluster_that_starts_again_has_its_ports() -> None:
    with Cluster(2) as cluster:
        addresses = cluster.bootstrap_servers
        cluster.stop_broker(2)
        cluster.restart()
        assert cluster.bootstrap_servers == addresses


def test_a_broker_in_a_coroutine_starts_and_stops_beside_the_callers_loop() -> None:
    async def use() -> str:
        started = asyncio.create_task(asyncio.sleep(0, "the loop runs"))
        async with Broker() as broker:
            assert broker.bootstrap_servers
            assert started.done(), "the caller's loop stood still while the broker started"
        with pytest.raises(RuntimeError, match="not running"):
            _ = broker.bootstrap_servers
        return await started

    assert asyncio.run(use()) == "the loop runs"


# The embedded broker's life: start, stop, start again, and every way in which it cannot start.


def test_it_answers_between_start_and_stop() -> None:
    with Broker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        socket.create_connection((host, int(port)), timeout=60).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=60)


def test_it_has_no_address_before_the_start_and_starts_only_once() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap_servers
    with broker, pytest.raises(RuntimeError, match="running already"):
        broker.start()
    broker.stop()  # a second stop does nothing


def test_a_taken_port_is_an_error_in_the_callers_thread(tmp_path: Path) -> None:
    with Broker() as broker:
        second = Broker(tmp_path, listen=broker.bootstrap_servers)
        for _ in range(2):  # the second try finds the directory free again
            with pytest.raises(OSError, match="address already in use"):
                second.start()


def test_data_that_cannot_be_kept_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((StorageError, OSError)):
        Broker(tmp_path / "file" / "data").start()


def test_two_brokers_do_not_share_a_directory(tmp_path: Path) -> None:
    with Broker(tmp_path), pytest.raises(StorageError, match="used by another broker"):
        Broker(tmp_path).start()
    with Broker(tmp_path):
        pass


def test_bad_settings_are_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError):
        Broker(config={"no.such.setting": "1"})
    with pytest.raises(ConfigError):
        Broker(listen="somewhere")


def test_what_a_directory_shows_after_a_first_start(tmp_path: Path) -> None:
    with Broker(tmp_path):
        pass
    assert (tmp_path / "meta.properties").read_text().startswith("version=1\ncluster.id=")


def test_recovery_after_a_crash_may_take_longer_than_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(tmp_path) as broker:
        task = broker._task
        assert task is not None
        task.cluster.topics.ensure("t")
        partition = task.cluster.partitions.by_name("t", 0)
        assert partition is not None
        partition.log.append_records([Record(0, 5, None, b"x")], now_ms=5)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    open_log = PartitionLog.open

    def slow(log: PartitionLog, now_ms: int, **checkpoints: Any) -> Any:
        if log.directory == "t-0":
            time.sleep(1.5)
        return open_log(log, now_ms, **checkpoints)

    monkeypatch.setattr(PartitionLog, "open", slow)
    monkeypatch.setattr("ottla.broker.embedded.START_TIMEOUT_S", 1.0)
    with Broker(tmp_path) as broker:
        assert broker.bootstrap_servers
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_it_stops_while_producers_go_on_that_wait_for_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = OsFiles.sync

    def slow(files: OsFiles, path: str) -> None:
        time.sleep(0.005)
        sync(files, path)

    monkeypatch.setattr(OsFiles, "sync", slow)
    broker = Broker(tmp_path, config={"log.flush.interval.messages": "1"}).start()
    records = bytes(encode_batch([Record(0, 5, None, b"x")]))
    topic = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
    acknowledged, is_over = [0] * 4, threading.Event()
    create_topic(broker.bootstrap_servers, "t")

    def produce(number: int) -> None:
        with RawClient(broker.bootstrap_servers) as client:
            while not is_over.is_set():
                try:
                    answer = client.call(ApiKey.PRODUCE, 8, acks=-1, timeout=1000, topic_data=[topic])
                except (Disconnected, OSError):
                    return
                acknowledged[number] += answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    producers = [threading.Thread(target=produce, args=(number,)) for number in range(len(acknowledged))]
    for thread in producers:
        thread.start()
    wait_until(lambda: all(acknowledged), "a record of each producer")
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    stopping.join(60)
    is_stuck = stopping.is_alive()
    is_over.set()
    for thread in (*producers, stopping):
        thread.join()
    assert not is_stuck
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with Broker(tmp_path) as again, RawClient(again.bootstrap_servers) as client:
        asked = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
        answer = client.call(ApiKey.LIST_OFFSETS, 5, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": asked}])
        assert answer.topics[0].partitions[0].offset >= sum(acknowledged)


def test_what_fails_at_the_end_is_an_error_in_the_callers_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(tmp_path).start()
    assert broker._task is not None

    def fail() -> None:
        raise StorageError("cannot write .kafka_cleanshutdown: the disk is full")

    monkeypatch.setattr(broker._task.cluster.log_manager, "mark_clean", fail)
    with pytest.raises(StorageError, match="the disk is full"):
        broker.stop()
    with broker:
        assert broker.bootstrap_servers


# Several embedded brokers: each listens, one can go and come back, and data opened again finds its leaders.


def brokers_in_metadata(address: str) -> dict[int, str]:
    with RawClient(address) as client:
        return {each.node_id: f"{each.host}:{each.port}" for each in client.call(ApiKey.METADATA, 1, topics=[]).brokers}


def is_open(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


def test_each_broker_listens_and_names_the_others() -> None:
    with Cluster(brokers=3) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        assert cluster.brokers == cluster.live_brokers == (1, 2, 3)
        assert [cluster.address(broker) for broker in (1, 2, 3)] == addresses
        for address in addresses:
            assert brokers_in_metadata(address) == dict(zip((1, 2, 3), addresses, strict=True))


def test_ids_begin_with_the_node_id_and_ports_follow_each_other() -> None:
    port, *_ = free_ports(3)
    with Cluster(brokers=3, config={"node.id": "7"}, listen=f"127.0.0.1:{port}") as cluster:
        assert cluster.brokers == (7, 8, 9)
        assert cluster.bootstrap_servers == ",".join(f"127.0.0.1:{port + number}" for number in range(3))


def test_a_broker_goes_and_comes_back_on_its_port() -> None:
    with Cluster(brokers=3) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 3, replicas=2)
        create_topic(cluster.bootstrap_servers, "single", 3, replicas=1)
        second = cluster.address(2)
        with RawClient(second) as connected:
            cluster.stop_broker(2)
            with pytest.raises((Disconnected, ConnectionError)):
                connected.call(ApiKey.METADATA, 1, topics=[])
        assert not is_open(second)
        assert cluster.live_brokers == (1, 3)
        assert second not in cluster.bootstrap_servers
        assert [cluster.leader("t", number) for number in range(3)] == [1, 3, 3]
        assert [cluster.leader("single", number) for number in range(3)] == [1, None, 3]
        cluster.stop_broker(2)  # it is stopped already
        cluster.start_broker(2)
        cluster.start_broker(2)
        assert cluster.address(2) == second
        assert is_open(second)
        assert [cluster.leader("single", number) for number in range(3)] == [1, 2, 3]


def test_the_last_broker_cannot_be_stopped_alone() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.stop_broker(1)
        with pytest.raises(ConfigError, match="the last one that runs"):
            cluster.stop_broker(2)


def test_a_broker_is_added() -> None:
    with Cluster(brokers=1) as cluster:
        create_topic(cluster.bootstrap_servers, "before", 2, replicas=1)
        assert cluster.add_broker() == 2
        create_topic(cluster.bootstrap_servers, "after", 2, replicas=2)
        assert [cluster.leader("before", number) for number in range(2)] == [1, 1]
        assert [cluster.leader("after", number) for number in range(2)] == [1, 2]
        cluster.move_leader("before", 0, to=2)
        assert cluster.leader("before", 0) == 2


def test_leaders_and_groups_can_be_moved_where_that_can_be() -> None:
    with Cluster(brokers=2) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 1, replicas=1)
        for partition, words in ((0, "no broker 5"), (1, "no partition t-1")):
            with pytest.raises(ConfigError, match=words):
                cluster.move_leader("t", partition, to=5)
        with pytest.raises(ConfigError, match="no partition other-0"):
            cluster.leader("other", 0)


def test_where_a_group_is_coordinated_and_moved_to() -> None:
    with Cluster(brokers=3) as cluster:
        place = cluster.coordinator("test-group")
        assert (place.hash, place.partition, place.broker_id) == (627841412, 12, 12 % 3 + 1)
        assert place.address == cluster.address(1)
        cluster.move_coordinator("test-group", to=3)
        assert cluster.coordinator("test-group").broker_id == 3
        assert cluster.leader("__consumer_offsets", 12) == 3


def test_what_was_moved_is_there_after_a_restart(tmp_path: Path) -> None:
    with Cluster(3, tmp_path) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 3, replicas=3)
        cluster.move_leader("t", 0, to=3)
        cluster.stop_broker(2)
    with Cluster(3, tmp_path) as cluster:
        assert cluster.live_brokers == (1, 2, 3)
        assert [cluster.leader("t", number) for number in range(3)] == [3, 3, 3]


def test_a_directory_of_three_brokers_does_not_open_with_one(tmp_path: Path) -> None:
    with Cluster(3, tmp_path) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 3, replicas=1)
    with pytest.raises(StorageError, match=r"a directory of several Ottla brokers opens with as many \(--brokers 3\)"):
        Broker(tmp_path).start()
    with Cluster(3, tmp_path) as cluster:
        assert cluster.leader("t", 2) == 3


def test_a_further_broker_has_an_id_that_kafka_allows() -> None:
    with Cluster(brokers=2, config={"node.id": 2**31 - 2}) as cluster:
        with pytest.raises(ConfigError, match=r"node\.id \(2147483646\) is too high for 3 brokers"):
            cluster.add_broker()
        assert len(cluster.brokers) == 2


# No thread from the operating system, in words.


def test_pythons_error_is_recognised() -> None:
    assert is_no_thread(RuntimeError("can't start new thread"))
    assert not is_no_thread(RuntimeError("cannot schedule new futures after shutdown"))
    assert not is_no_thread(OSError("can't start new thread"))


def test_the_sentence_says_what_to_do() -> None:
    assert "raise the limits" in str(no_thread(RuntimeError("can't start new thread")))
