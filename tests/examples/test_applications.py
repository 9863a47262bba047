"""Tests as users write them for their applications, from docs/testing.md alone, each with an application of a few lines."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ottla.testing import Broker, Cluster

OWNER_CHANGED = {KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.UNKNOWN_MEMBER_ID}


def consumer(broker: Broker | Cluster, group: str, *topics: str, name: str = "app", **callbacks: Any) -> Consumer:
    """The consumer of an application: commits are its own business, and it notices rebalances soon."""
    made = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "reconnect.backoff.max.ms": 200,
        }
    )
    if topics:
        made.subscribe(list(topics), **callbacks)
    return made


class Worker:
    """An application's loop in a thread: handles each message, then commits it."""

    def __init__(self, broker: Broker | Cluster, name: str, handle: Callable[[Message], None], **callbacks: Any) -> None:
        self._stopped = threading.Event()
        self._consumer = consumer(broker, "billing", "orders", name=name, **callbacks)
        self._handle = handle
        self._executor = ThreadPoolExecutor(1)
        self._running = self._executor.submit(self._run)

    def _run(self) -> None:
        with closing(self._consumer):
            while not self._stopped.is_set():
                message = self._consumer.poll(0.05)
                if message is not None and message.error() is None:
                    self._handle(message)
                    self._commit(message)

    def _commit(self, message: Message) -> None:
        """Until it is stored, unless the partition has another owner by now, who reads the message again."""
        while not self._stopped.is_set():
            try:
                self._consumer.commit(message, asynchronous=False)
            except KafkaException as failure:
                if failure.args[0].code() in OWNER_CHANGED:
                    return
                self._stopped.wait(0.1)
            else:
                return

    def stop(self) -> None:
        self._stopped.set()
        self._running.result(60)
        self._executor.shutdown()


@pytest.fixture
def start_worker(ottla_broker: Broker) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(name: str, handle: Callable[[Message], None] = lambda message: None, **callbacks: Any) -> Worker:
        workers.append(Worker(ottla_broker, name, handle, **callbacks))
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()


def test_failing_orders_are_retried_and_then_go_to_dead_letters(ottla_broker: Broker, start_worker: Callable[..., Worker]) -> None:
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})

    def handle(message: Message) -> None:
        for attempt in range(3):
            try:
                int(message.value())
                return
            except ValueError:
                last = attempt
        producer.produce("dead-letters", message.value(), headers={"attempts": str(last + 1)})
        producer.flush()

    ottla_broker.produce("orders", [b"1", b"two", b"3"])
    start_worker("worker", handle)
    ottla_broker.group("billing").wait(lag=0)
    (dead,) = ottla_broker.consume("dead-letters", 1)
    assert (dead.value, dead.headers[0].value) == (b"two", b"3")
    assert ottla_broker.values("dead-letters") == [b"two"]


def test_a_rebalance_while_orders_are_processed_loses_none(ottla_broker: Broker, start_worker: Callable[..., Worker]) -> None:
    handled: list[bytes] = []
    ottla_broker.create_topic("orders", 4)
    ottla_broker.produce("orders", [b"%d" % number for number in range(100)])
    start_worker("first", lambda message: handled.append(message.value()))
    group = ottla_broker.group("billing")
    group.wait(state="Stable", members=1)
    with group.expect(unplanned=0):
        start_worker("second", lambda message: handled.append(message.value()))
        group.wait(state="Stable", members=2, lag=0)
    assert set(handled) == {b"%d" % number for number in range(100)}


def test_a_report_begins_at_a_time(ottla_broker: Broker) -> None:
    for day in range(3):
        ottla_broker.produce("orders", [f"day {day}"], timestamp_ms=1_700_000_000_000 + day * 86_400_000)
    with closing(consumer(ottla_broker, "report")) as reader:
        (start,) = reader.offsets_for_times([TopicPartition("orders", 0, 1_700_000_000_000 + 86_400_000)], timeout=30)
        reader.assign([start])
        assert [message.value() for message in reader.consume(2, timeout=30)] == [b"day 1", b"day 2"]


def test_a_compacted_topic_is_a_table(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("prices", config={"cleanup.policy": "compact"})
    ottla_broker.produce("prices", [("apple", b"1"), ("pear", b"2"), ("apple", b"3"), ("pear", None)])
    table: dict[bytes, bytes] = {}
    with closing(consumer(ottla_broker, "table", "prices")) as reader:
        for message in reader.consume(4, timeout=30):
            if message.value() is None:
                table.pop(message.key(), None)
            else:
                table[message.key()] = message.value()
    assert table == {b"apple": b"3"}


def test_a_message_of_ten_megabytes(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("scans", config={"max.message.bytes": 11_000_000})
    scan = bytes(range(250)) * 40_000
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers, "message.max.bytes": 11_000_000})
    producer.produce("scans", scan)
    assert producer.flush(60) == 0
    assert ottla_broker.values("scans") == [scan]
    ottla_broker.produce("scans", [scan[::-1]])
    with closing(consumer(ottla_broker, "archive", "scans")) as reader:
        assert [message.value() for message in reader.consume(2, timeout=60)] == [scan, scan[::-1]]


def test_the_broker_restarts_while_the_application_runs(ottla_broker: Broker, start_worker: Callable[..., Worker]) -> None:
    handled: list[bytes] = []
    ottla_broker.produce("orders", [b"before"])
    start_worker("worker", lambda message: handled.append(message.value()))
    group = ottla_broker.group("billing")
    group.wait(members=1, lag=0)
    ottla_broker.restart()
    ottla_broker.produce("orders", [b"after"])
    group.wait(state="Stable", members=1, lag=0, timeout=60)
    assert set(handled) == {b"before", b"after"}
    assert group.committed() == {("orders", 0): 2}


def test_two_groups_read_everything_each(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"1", b"2"])
    for group in ("billing", "shipping"):
        with closing(consumer(ottla_broker, group, "orders")) as reader:
            assert [message.value() for message in reader.consume(2, timeout=30)] == [b"1", b"2"]
            reader.commit(asynchronous=False)
    for group in ("billing", "shipping"):
        assert ottla_broker.group(group).committed() == {("orders", 0): 2}


def test_what_was_not_committed_is_read_again(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"1", b"2", b"3"])
    with closing(consumer(ottla_broker, "billing", "orders")) as reader:
        first, second, _ = reader.consume(3, timeout=30)
        reader.commit(second, asynchronous=False)
        assert first.offset() == 0
    group = ottla_broker.group("billing")
    assert group.committed() == {("orders", 0): 2}
    group.wait(state="Empty", lag=1)
    with closing(consumer(ottla_broker, "billing", "orders")) as reader:
        assert [message.value() for message in reader.consume(1, timeout=30)] == [b"3"]


def test_headers_travel_with_the_order(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"1"], headers={"trace-id": "abc", "tenant": b"7"})
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    with closing(consumer(ottla_broker, "router", "orders")) as reader:
        (order,) = reader.consume(1, timeout=30)
        tenant = dict(order.headers())["tenant"].decode()
        producer.produce(f"tenant-{tenant}", order.value(), headers=order.headers())
        producer.flush()
    (routed,) = ottla_broker.consume("tenant-7", 1)
    assert dict(routed.headers) == {"trace-id": b"abc", "tenant": b"7"}


def test_an_application_notices_that_its_session_ended(ottla_broker: Broker, start_worker: Callable[..., Worker]) -> None:
    lost = threading.Event()
    ottla_broker.produce("orders", [b"1"])
    start_worker("worker", on_lost=lambda _, __: lost.set())
    group = ottla_broker.group("billing")
    group.wait(state="Stable", members=1, lag=0)
    group.expire("worker")
    assert lost.wait(30)
    group.wait(state="Stable", members=1)
    assert "EXPIRE_HEARTBEAT" in [event.trigger for event in group.events()]


def test_an_application_is_evicted_and_comes_back(ottla_broker: Broker, start_worker: Callable[..., Worker]) -> None:
    ottla_broker.create_topic("orders")
    start_worker("worker")
    group = ottla_broker.group("billing")
    group.wait(state="Stable", members=1)
    (member,) = group.events()[-1].members
    group.evict(member.member_id)
    ottla_broker.produce("orders", [b"1"])
    group.wait(state="Stable", members=1, lag=0)


def test_the_coordinator_moves_under_the_application(ottla_broker_factory: Callable[..., Cluster]) -> None:
    cluster = ottla_broker_factory(brokers=2)
    cluster.create_topic("orders")
    cluster.produce("orders", [b"1"])
    worker = Worker(cluster, "worker", lambda message: None)
    try:
        group = cluster.group("billing")
        group.wait(state="Stable", members=1, lag=0)
        cluster.move_coordinator("billing", to=1 if cluster.coordinator("billing").broker_id == 2 else 2)
        cluster.produce("orders", [b"2"])
        group.wait(members=1, lag=0)
        assert group.committed() == {("orders", 0): 2}
    finally:
        worker.stop()


def test_a_slow_start_is_explained_in_words(ottla_broker: Broker, start_worker: Callable[..., Worker]) -> None:
    ottla_broker.create_topic("orders")
    start_worker("worker")
    group = ottla_broker.group("billing")
    group.wait(state="Stable", members=1)
    with pytest.raises(
        AssertionError, match=r"billing to have 2 members\. It is Stable and has 1 member \(worker\)(.|\n)*1\. worker joined"
    ):
        group.wait(members=2, timeout=0)


XDIST = """
import pytest

@pytest.mark.parametrize("number", range(8))
def test_the_broker_is_mine_alone(ottla_broker, ottla_broker_session, worker_id, number):
    ottla_broker.produce("orders", [f"{number}"])
    assert ottla_broker.values("orders") == [b"%d" % number]
    ottla_broker_session.produce(f"orders-{number}", [worker_id])
    assert set(ottla_broker_session.values(f"orders-{number}")) == {worker_id.encode()}
"""


def test_four_xdist_workers_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "test_isolation.py").write_text(XDIST)
    command = [sys.executable, "-m", "pytest", "-n", "4", "-p", "no:cacheprovider", "test_isolation.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "8 passed" in ran.stdout
