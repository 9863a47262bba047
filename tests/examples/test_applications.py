"""Tests as users write them for their applications, from docs/testing.md alone, each with an application of a few lines."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

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
            # A commit that librdkafka repeats while it looks for the coordinator fails when the coordinator's address comes, and then it
            # looks for the coordinator again (its issue 3645). The lookup waits behind a Fetch, by default for 500 ms, the repetition for
            # 100 ms: so it goes on for seconds, or until the session ends. Here the address comes first.
            "fetch.wait.max.ms": 20,
            "retry.backoff.ms": 500,
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
