"""The embedded broker's life: start, stop, start again, and every way in which it cannot start."""

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.core.config import ConfigError
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.wire.api_keys import ApiKey
from ottla.storage.files import OsFiles
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing.clients.raw_client import Disconnected, RawClient
from ottla.testing.clients.topics import create_topic
from ottla.testing.kit.waiting import wait_until


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
            time.sleep(0.5)
        return open_log(log, now_ms, **checkpoints)

    monkeypatch.setattr(PartitionLog, "open", slow)
    monkeypatch.setattr("ottla.broker.embedded.START_TIMEOUT_S", 0.3)
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
