"""With real clients: one of ten members with five partitions each leaves, and the event stream says what that cost the other nine."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.groups.events import GroupEvent
from ottla.history.group_history import histories_of_events
from ottla.testing.waiting import wait_until

MEMBERS, EACH = 10, 5


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

    def plan_shares() -> list[list[int]]:
        """Each member's partitions, as the leader assigned them last."""
        assignments = [member.assignment for member in plans()[-1].members]
        return sorted(sorted(partitions) for assignment in assignments for partitions in assignment.values())

    def member_shares() -> list[list[int]]:
        """Each member's partitions, as the member itself knows them."""
        return sorted(sorted(partition for _, partition in member.assignment()) for member in members)

    def poll() -> None:
        time.sleep(0.02)
        for member in members if client == "confluent-kafka" else ():
            member.consumer.poll(0)  # librdkafka gives partitions up only while it is polled

    with Broker(config={"group.initial.rebalance.delay.ms": "400"}, on_group_event=events.append) as broker:
        library = library_on(broker, client)
        library.create_topic("flights", MEMBERS * EACH)
        try:
            members += [library.member("g", "flights", assignor) for _ in range(MEMBERS)]
            # A plan alone is too early: a member that still waits for its SyncGroup has nothing that the next assignment could keep.
            wait_until(
                lambda: plans() and member_shares() == plan_shares() and [len(share) for share in member_shares()] == [EACH] * MEMBERS,
                "five each",
                poll,
            )
            before = plans()[-1].generation
            members.pop().close()
            wait_until(
                lambda: len(plans()[-1].members) == MEMBERS - 1 and sum(map(len, plan_shares())) == MEMBERS * EACH, "nine own all", poll
            )
            generations = histories_of_events(list(events))["g"].generations()
            (cost,) = [each.verdict.cost for each in generations if (each.generation or 0) > before]
        finally:
            for member in members:
                member.close()
    assert cost.stopped_partitions == stopped
    if moved is None:
        assert (cost.moved_partitions or 0) > EACH, "range numbers the members again: most partitions get another owner"
    else:
        assert cost.moved_partitions == moved
