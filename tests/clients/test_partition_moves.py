"""With real clients: one of ten members with five partitions each leaves, and the event stream says what that cost the other nine."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.core.diagnosis.rebalance_impact import rebalance_impacts
from ottla.core.model import GroupEvent
from ottla.testing.kit.waiting import wait_until

MEMBERS, EACH = 10, 5


def shares(event: GroupEvent) -> list[int]:
    """How many partitions each member has."""
    return sorted(len(partitions) for member in event.members for partitions in member.assignment.values())


@pytest.mark.parametrize(
    ("client", "assignor", "stopped", "moved"),
    [
        pytest.param("confluent-kafka", "range", 50, None, id="eager"),
        pytest.param("kafka-python", "sticky", 50, 5, id="sticky"),
        pytest.param("confluent-kafka", "cooperative-sticky", 5, 5, id="cooperative"),
    ],
)
def test_one_of_ten_members_leaves(
    library_on: Callable[..., Any],
    client: str,
    assignor: str,
    stopped: int,
    moved: int | None,
) -> None:
    events: list[GroupEvent] = []
    members: list[Any] = []

    def plans() -> list[GroupEvent]:
        return [event for event in list(events) if event.kind == "sync_completed"]

    def poll() -> None:
        time.sleep(0.02)
        for member in members if client == "confluent-kafka" else ():
            member.consumer.poll(0)  # librdkafka gives partitions up only while it is polled

    with Broker(config={"group.initial.rebalance.delay.ms": "400"}, on_group_event=events.append) as broker:
        library = library_on(broker, client)
        library.create_topic("flights", MEMBERS * EACH)
        try:
            members += [library.member("g", "flights", assignor) for _ in range(MEMBERS)]
            wait_until(lambda: plans() and shares(plans()[-1]) == [EACH] * MEMBERS, "five partitions each", poll)
            before = plans()[-1].generation
            members.pop().close()
            wait_until(lambda: len(plans()[-1].members) == MEMBERS - 1 and sum(shares(plans()[-1])) == MEMBERS * EACH, "nine own all", poll)
            (cost,) = [each for each in rebalance_impacts(list(events)) if each.generation > before]
        finally:
            for member in members:
                member.close()
    assert cost.stopped == stopped
    if moved is None:
        assert cost.moved > EACH, "range numbers the members again: most partitions get another owner"
    else:
        assert cost.moved == moved
