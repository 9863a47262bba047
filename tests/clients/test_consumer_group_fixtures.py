"""The fixtures' groups with members of `group.protocol=consumer` (librdkafka): wait, lag, assignment, evict, expire; and their metrics."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from ottla.testing import Broker
from tests.clients.test_metrics import of_group, scraped

FAST = {"group.consumer.min.heartbeat.interval.ms": "50", "group.consumer.heartbeat.interval.ms": "50"}
CONFIG = {**FAST, "group.consumer.assignment.interval.ms": "0"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config=CONFIG, metrics="127.0.0.1:0") as broker:
        broker.create_topic("flights", 2)
        yield broker


@contextmanager
def polling(broker: Broker, client_id: str, **settings: str) -> Iterator[None]:
    """A member that commits what it reads, in a thread, until the block ends."""
    from confluent_kafka import Consumer

    common = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", "group.protocol": "consumer", "log_level": 0}
    consumer = Consumer({**common, **settings, "client.id": client_id, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 10})
    consumer.subscribe(["flights"])
    over = Event()

    def poll() -> None:
        while not over.is_set():
            consumer.poll(0.05)
        consumer.close()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(poll)
        try:
            yield
        finally:
            over.set()
            running.result(60)


def test_a_group_of_the_consumer_protocol(broker: Broker) -> None:
    group = broker.group("billing")
    broker.produce("flights", [b"1", b"2", b"3"])
    with polling(broker, "w1"):
        group.wait(state="Stable", members=1, lag=0)
        with polling(broker, "w2"):
            group.wait(state="Stable", members=2)
            assert sorted(len(partitions) for partitions in group.assignment().values()) == [1, 1]
            assert group.assignment().keys() == {"w1", "w2"}
            before = member_ids(group)
            group.evict("w1")
            # Its client learns it from its next heartbeat, and joins again.
            group.wait(state="Stable", members=2)
            group.expire("w2")
            group.wait(state="Stable", members=2, lag=0)
            assert member_ids(group) == before, "a client keeps its id"
            triggers = [event.trigger for event in group.events() if event.kind == "epoch_bumped"]
            assert triggers.count("ADMIN_REMOVE") == 1
            assert triggers.count("EXPIRE_HEARTBEAT") == 1
        group.wait(state="Stable", members=1)
    group.wait(state="Empty")
    found = metrics(broker)
    name = "kafka_server_group_coordinator_metrics"
    states = {labels["state"]: value for labels, value in found[f"{name}_consumer_group_count"]}
    assert states == {"empty": 1, "assigning": 0, "reconciling": 0, "stable": 0, "dead": 0}
    assert {labels["protocol"]: value for labels, value in found[f"{name}_group_count"]} == {"classic": 0, "consumer": 1}
    rebalances = [event for event in group.events() if event.kind == "epoch_bumped" and event.trigger == "JOIN_NEW"]
    assert found[f"{name}_consumer_group_rebalance_count"][0][1] == len(rebalances) >= 4
    assert of_group(found, "ottla_group_state", "billing").keys() == {"Empty", "Assigning", "Reconciling", "Stable", "Dead"}


def member_ids(group: Any) -> set[str]:
    return {member.member_id for member in group._now().members}


def metrics(broker: Broker) -> dict[str, list[tuple[dict[str, str], float]]]:
    from ottla.testing.waiting import wait_until

    found: dict[str, list[tuple[dict[str, str], float]]] = {}

    def look() -> None:
        found.clear()
        found.update(scraped(str(broker.metrics_url)))

    wait_until(lambda: of_group(found, "ottla_group_state", "billing").get("Empty") == 1, "the group is Empty", look)
    return found


@pytest.mark.parametrize("state", ["Assigning", "Reconciling"])
def test_states_of_consumer_groups_may_be_waited_for(broker: Broker, state: str) -> None:
    with pytest.raises(AssertionError, match=f"group billing to have state {state}. It does not exist"):
        broker.group("billing").wait(state=state, timeout=0)


def test_rebalances_are_counted_and_judged(broker: Broker) -> None:
    group = broker.group("billing")
    with polling(broker, "w1"):
        group.wait(state="Stable", members=1)
        with group.expect(rebalances=2, unplanned=0), polling(broker, "w2"):
            group.wait(state="Stable", members=2)
        with group.expect(rebalances=2, unplanned=2):
            group.expire("w1")
