"""S0.6 with real clients: rebalances that somebody meant are told apart from those in which a member was lost."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from ottla.broker import Broker
from ottla.core.diagnosis.causes import GROWS
from ottla.core.diagnosis.rebalances import Rebalance, rebalances
from ottla.core.model import GroupEvent

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


def test_s0_6_scaling_out_and_in_and_more_partitions_are_planned_and_a_killed_member_is_not(
    library_on: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    from confluent_kafka.admin import NewPartitions

    events: list[GroupEvent] = []

    def found() -> list[Rebalance]:
        return [each for each in rebalances(list(events)) if each.outcome in ("completed", "emptied")]

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
            library.admin.create_partitions([NewPartitions("flights", 4)])["flights"].result(10)
            grown = wait_for("the new partitions", lambda each: each.partitions_assigned == 4)
            seen = len(found())
        finally:
            other.kill()
            other.wait()
        killed = wait_for("the loss", lambda each: each.members_after == 1)
        seen = len(found())
        member.close()
        wait_until(lambda: found()[seen:], "that nobody is left")
        (closed,) = found()[seen:]
    assert [(each.planned, each.confidence) for each in (started, scaled_out, grown)] == [(True, "high")] * 3
    assert (killed.planned, killed.confidence, killed.trigger) == (False, "high", "EXPIRE_HEARTBEAT")
    assert (closed.planned, closed.confidence, closed.trigger) == (True, "medium", "LEAVE")
    assert started.trigger == scaled_out.trigger == "JOIN_NEW"
    assert grown.trigger in GROWS
