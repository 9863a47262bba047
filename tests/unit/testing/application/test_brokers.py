"""Brokers with verbs, and their journal."""

import unittest
import warnings
from pathlib import Path

import pytest

import ottla.broker
from ottla.broker.clock import now_ms
from ottla.groups.events import GroupEvent
from ottla.testing import Broker, Cluster, OttlaCase, wait_until
from ottla.testing.application.brokers import EVENTS_MAX, Journal


def event(group: str, generation: int) -> GroupEvent:
    return GroupEvent(at_ms=0, group=group, kind="emptied", generation=generation, state_from="Stable", state_to="Empty")


def test_events_are_kept_by_group_and_passed_on() -> None:
    passed: list[GroupEvent] = []
    journal = Journal(passed.append)
    for group, generation in (("a", 1), ("b", 1), ("a", 2)):
        journal.add(event(group, generation))
    assert journal.of_group("a") == (event("a", 1), event("a", 2))
    assert journal.of_group("none") == ()
    assert passed == [event("a", 1), event("b", 1), event("a", 2)]


def test_the_last_events_of_a_group_are_kept() -> None:
    journal = Journal(None)
    for generation in range(EVENTS_MAX + 1):
        journal.add(event("a", generation))
    assert [each.generation for each in journal.of_group("a")] == list(range(1, EVENTS_MAX + 1))


def test_they_are_the_brokers_of_ottla_broker() -> None:
    assert issubclass(Broker, ottla.broker.Broker)
    assert issubclass(Cluster, ottla.broker.Cluster)


def test_addresses_may_be_named_in_the_settings() -> None:
    with Broker(config={"listeners": "MINE://127.0.0.1:0", "listener.security.protocol.map": "MINE:PLAINTEXT"}) as broker:
        assert broker.bootstrap_servers_of("MINE") == broker.bootstrap_servers


def test_topics_have_the_partitions_and_settings_that_are_asked_for() -> None:
    with Broker(config={"num.partitions": 5}) as broker:
        broker.create_topic("default")
        broker.create_topic("two", 2, config={"cleanup.policy": "compact", "preallocate": False})
        broker.produce("default", [b"x"], partition=4)
        broker.produce("two", [("k", b"x")], partition=1)
        assert broker.values("two") == [b"x"]


def test_data_and_port_outlive_a_restart() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
        broker.produce("orders", [b"one"])
        broker.restart()
        broker.produce("orders", [b"two"])
        assert broker.bootstrap_servers == address
        assert broker.values("orders") == [b"one", b"two"]


def test_the_callback_of_the_test_gets_the_events_too() -> None:
    events: list[GroupEvent] = []
    with Cluster(2, on_group_event=events.append) as cluster:
        cluster.create_topic("orders")
        assert cluster.values("orders") == []
    assert events == []


def test_values_of_a_topic_that_comes_later_are_waited_for() -> None:
    with Broker() as broker:
        later = iter([lambda: None, lambda: broker.produce("orders", [b"one"])])
        wait_until(lambda: broker.values("orders"), "a record", lambda: next(later)())


def test_a_topic_is_deleted() -> None:
    with Broker() as broker:
        broker.produce("orders", [b"one"])
        broker.delete_topic("orders")
        with pytest.raises(AssertionError, match="orders"):
            broker.values("orders")
        with pytest.raises(AssertionError, match="topic orders was not deleted: UNKNOWN_TOPIC_OR_PARTITION"):
            broker.delete_topic("orders")


@pytest.mark.parametrize(
    ("config", "warns"),
    [({}, True), ({"retention.ms": -1}, False), ({"cleanup.policy": "compact"}, False), ({"retention.ms": 400 * 86_400_000}, False)],
)
def test_records_that_retention_will_remove_are_warned_of(config: dict[str, str | int], warns: bool) -> None:
    with Broker() as broker, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        broker.create_topic("orders", config=config)
        broker.produce("orders", [("k", b"new")], timestamp_ms=now_ms())
        broker.produce("orders", [("k", b"of last year")], timestamp_ms=now_ms() - 365 * 86_400_000)
    texts = [str(warning.message) for warning in said]
    assert [text.startswith("the broker will remove these records of topic orders") for text in texts] == [True] * warns


class Case(OttlaCase):
    ottla_config = {"num.partitions": 2}

    def test_one(self) -> None:
        self.ottla_broker.produce("orders", [b"a", b"b"])
        assert {record.partition for record in self.ottla_broker.consume("orders", 2)} == {0, 1}

    def test_two(self) -> None:
        self.ottla_broker.create_topic("orders")
        assert self.ottla_broker.values("orders") == []


def test_each_test_has_a_broker_that_ends_with_it() -> None:
    cases = list(unittest.defaultTestLoader.loadTestsFromTestCase(Case))
    result = unittest.TestResult()
    for case in cases:
        case.run(result)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])
    assert {type(case.ottla_broker) for case in cases} == {type(cases[0].ottla_broker)}
    assert cases[0].ottla_broker is not cases[1].ottla_broker
    assert all(case.ottla_broker._thread is None for case in cases)


def test_what_fails_shows_the_lines_of_the_test_alone() -> None:
    with Broker() as broker:
        group = broker.group("billing")
        failing = [
            lambda: group.wait(lag=0, timeout=0.01),
            lambda: broker.values("nothing"),
            lambda: broker.consume("nothing", 1, timeout=0.01),
            lambda: broker.produce("orders", [b"one"], partition=7),
            lambda: wait_until(lambda: False, "the end", seconds=0.01),
        ]
        for fail in failing:
            with pytest.raises(AssertionError) as failure:
                fail()
            assert {entry.path for entry in failure.traceback.filter(failure)} == {Path(__file__)}
        with pytest.raises(ValueError, match="needs a condition") as mistake:
            group.wait()
        assert mistake.traceback[-1] in mistake.traceback.filter(mistake), "what is no failed assertion is shown in full"
