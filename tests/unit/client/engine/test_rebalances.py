"""What the application's thread does for a rebalance, when the membership ends meanwhile. The usual cases are in test_engine."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.membership.values import Heartbeat
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import encode_assignment

T0 = TopicPartition("t", 0)


def owner(new_world: Callable[..., Any]) -> Any:
    world = new_world("cooperative-sticky", topics={"t": 2})
    world.engine.subscribe(["t"], [])
    world.poll()
    return world


@pytest.mark.conformance("ConsumerCoordinatorTest.shouldLoseAllOwnedPartitionsBeforeRejoiningAfterResettingGenerationId")
def test_partitions_are_lost_when_the_membership_ends_during_a_callback(new_world: Callable[..., Any]) -> None:
    world = owner(new_world)
    world.engine.subscriptions.subscribe(["u"], [])
    world.engine.membership.request_rejoin("subscription has changed")
    revoked = world.engine.next_callback(world.now)
    assert (revoked.kind, len(revoked.partitions)) == ("revoked", 2)
    world.engine.subscriptions.subscribe(["t"], [])
    world.engine.membership.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, world.engine.membership.generation, "me", world.now)
    assert world.engine.next_callback(world.now) is None
    assert world.engine.subscriptions.partitions == {}


def test_an_assignment_of_a_membership_that_ended_is_not_taken(new_world: Callable[..., Any]) -> None:
    world = owner(new_world)
    world.assignment = encode_assignment({"t": [0]})
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.silent.add(Heartbeat)
    assert world.engine.next_callback(world.now) is None
    world.settle()
    revoked = world.engine.next_callback(world.now)
    assert (revoked.kind, [each.partition for each in revoked.partitions]) == ("revoked", [1])
    world.engine.membership.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, world.engine.membership.generation, "me", world.now)
    lost = world.engine.next_callback(world.now)
    assert (lost.kind, lost.partitions) == ("lost", (T0,))


def test_no_records_are_handed_out_while_a_commit_is_awaited(new_world: Callable[..., Any]) -> None:
    from ottla.client.engine.values import OffsetCommit

    world = new_world()
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(5)
    world.silent.add(OffsetCommit)
    world.engine.membership.request_rejoin("group is already rebalancing")
    assert world.engine.next_callback(world.now) is None
    assert world.engine.rebalances.is_active
    assert world.engine.take(5) == []
    world.silent.clear()
    world.settle()
    world.end_fetches()
    assert world.engine.next_callback(world.now).kind == "revoked"
