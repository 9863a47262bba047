"""With real clients: planned rebalances are distinguished from those in which a member was lost."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from ottla.broker import Broker
from ottla.groups.events import GroupEvent
from ottla.history.group_history import Rebalance, histories_of_events
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import Confidence
from ottla.testing.waiting import wait_until

CONSUMER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "client.id": "w2", "session.timeout.ms": 2000,
                     "heartbeat.interval.ms": 200, "topic.metadata.refresh.interval.ms": 200})
consumer.subscribe(["flights"])
while True:
    consumer.poll(0.05)
"""
CONFIG = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}


def test_scaling_out_and_in_and_more_partitions_are_planned_and_a_killed_member_is_not(library_on: Callable[..., Any]) -> None:
    from confluent_kafka.admin import NewPartitions

    events: list[GroupEvent] = []

    def found() -> list[Rebalance]:
        history = histories_of_events(list(events)).get("g")
        return [] if history is None else [each for each in history.generations() if each.outcome in ("completed", "emptied")]

    with Broker(config=CONFIG, on_group_event=events.append) as broker:
        library = library_on(broker)
        library.create_topic("flights", 2)
        member = library.member("g", "flights", "range", session_ms=2_000, metadata_age_ms=200)

        def wait_for(what: str, condition: Callable[[Rebalance], bool]) -> Rebalance:
            def is_there() -> bool:
                return any(condition(each) for each in found()[seen:])

            wait_until(is_there, what, lambda: member.consumer.poll(0.02))
            return next(each for each in found()[seen:] if condition(each))

        seen = 0
        started = wait_for("the first member", lambda each: each.members_after == 1)
        other = subprocess.Popen([sys.executable, "-c", CONSUMER, broker.bootstrap_servers])
        try:
            scaled_out = wait_for("the second member", lambda each: each.members_after == 2)
            seen = len(found())
            library.admin.create_partitions([NewPartitions("flights", 4)])["flights"].result(60)
            grown = wait_for("the new partitions", lambda each: each.partitions_assigned == 4)
            seen = len(found())
        finally:
            other.kill()
            other.wait()
        killed = wait_for("the loss", lambda each: each.members_after == 1)
        seen = len(found())
        member.close()
        wait_until(lambda: found()[seen:], "an empty group")
        (closed,) = found()[seen:]
    assert [each.verdict.planned for each in (started, scaled_out, grown, killed, closed)] == [True, True, True, False, True]
    assert (killed.verdict.cause, killed.verdict.confidence, killed.trigger) == (
        Cause.EXPIRE_HEARTBEAT,
        Confidence.HIGH,
        "EXPIRE_HEARTBEAT",
    )
    assert (closed.verdict.cause, closed.verdict.confidence, closed.trigger) == (Cause.LEAVE_CLOSE, Confidence.MEDIUM, "LEAVE")
    assert started.trigger == scaled_out.trigger == "JOIN_NEW"
    assert grown.trigger in ("LEADER_REJOIN", "METADATA_UPDATE")
    assert grown.verdict.cause is Cause.TOPIC_CHANGE


def test_a_consumer_that_polls_too_late_returns_on_its_connection_and_a_restarted_one_does_not(library_on: Callable[..., Any]) -> None:
    from confluent_kafka import Consumer

    events: list[GroupEvent] = []

    def ports(trigger: str) -> list[int]:
        return [event.evidence["client_port"] for event in list(events) if event.trigger == trigger]

    def consumer(bootstrap_servers: str) -> Any:
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "g", "client.id": "w1"}
        made = Consumer({**settings, "session.timeout.ms": 1000, "heartbeat.interval.ms": 200, "max.poll.interval.ms": 1000})
        made.subscribe(["flights"])
        return made

    with Broker(config=CONFIG, on_group_event=events.append) as broker:
        library_on(broker).create_topic("flights", 2)
        slow = consumer(broker.bootstrap_servers)
        wait_until(lambda: ports("JOIN_NEW"), "the first join", lambda: slow.poll(0.02))
        wait_until(slow.assignment, "an assignment", lambda: slow.poll(0.02))
        wait_until(lambda: ports("LEAVE"), "the poll interval is exceeded", seconds=20)
        wait_until(lambda: len(ports("JOIN_NEW")) == 2, "the return", lambda: slow.poll(0.02))
        wait_until(slow.assignment, "an assignment", lambda: slow.poll(0.02))
        slow.close()
        wait_until(lambda: len(ports("LEAVE")) == 2, "the close")
        restarted = consumer(broker.bootstrap_servers)
        wait_until(lambda: len(ports("JOIN_NEW")) == 3, "the restart", lambda: restarted.poll(0.02))
        restarted.close()
    first, returned, after_restart = ports("JOIN_NEW")
    assert first == returned == ports("LEAVE")[0] == ports("LEAVE")[1]
    assert after_restart != first
