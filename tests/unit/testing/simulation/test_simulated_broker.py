"""The broker: killed and started again with what its log has; without it requests are lost."""

from typing import Any

from ottla.core.groups.commands import OffsetFetch
from ottla.core.groups.effects import Result


def fetch(world: Any, replies: list[Result]) -> None:
    reply_to = world.broker.expect_reply(replies.append)
    world.broker.deliver(OffsetFetch(reply_to=reply_to, group_id="g", topics=None, require_stable=False))


def test_a_request_is_answered_once_the_log_is_loaded(world: Any) -> None:
    replies: list[Result] = []
    world.run(10)
    assert world.broker.shell.coordinator.status.value == "active"
    fetch(world, replies)
    assert len(replies) == 1


def test_a_killed_broker_answers_nothing_and_comes_back_with_its_log(world: Any) -> None:
    world.consumers.add(1)
    world.run(20_000)
    records, replies = len(world.broker.shell.log), list[Result]()
    assert records > 0
    world.broker.stop()
    fetch(world, replies)
    assert (replies, world.broker.is_up, world.broker.restarts) == ([], False, 1)
    world.run(60_000)
    assert world.broker.is_up
    assert len(world.broker.shell.log) >= records
    assert [member.phase for member in world.consumers.alive] == ["owning"]


def test_a_coordinator_that_moved_away_comes_back(world: Any) -> None:
    world.run(10)
    world.broker.move_coordinator()
    assert world.broker.shell.coordinator.status.value == "resigned"
    world.run(60_000)
    assert world.broker.shell.coordinator.status.value == "active"
