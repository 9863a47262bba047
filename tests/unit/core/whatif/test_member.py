"""Single members by their rules, in a replay with one other member that keeps the group stable."""

import pytest

from ottla.core.model import GroupEvent
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.replay import replay
from ottla.testing.kit.group_behaviours import behaviour, process

START, OTHER = Action(at_ms=1_000, kind=ActionKind.START), process("z", Action(at_ms=0, kind=ActionKind.START))


def triggers(*actions: Action, instance_id: str | None = None, protocol: str = "range") -> list[tuple[int, str]]:
    """What the second member triggers after both have settled."""
    group = behaviour(process("a", START, *actions, instance_id=instance_id), OTHER, protocol=protocol)
    return [(event.at_ms, event.trigger or event.kind) for event in _of(replay(group).events)]


def _of(events: tuple[GroupEvent, ...]) -> list[GroupEvent]:
    return [event for event in events if event.at_ms > 10_000 and event.kind in ("trigger", "static_replaced", "static_fenced")]


def silence(until_ms: int) -> Action:
    return Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=until_ms)


def gap(until_ms: int | None) -> Action:
    return Action(at_ms=20_000, kind=ActionKind.POLL_GAP, until_ms=until_ms)


CLOSE, CRASH = Action(at_ms=20_000, kind=ActionKind.CLOSE), Action(at_ms=20_000, kind=ActionKind.CRASH)


def back(at_ms: int) -> Action:
    return Action(at_ms=at_ms, kind=ActionKind.START)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([silence(25_900)], []),
        ([silence(28_000)], [(26_000, "EXPIRE_HEARTBEAT"), (28_000, "JOIN_NEW")]),
        ([gap(29_900)], []),
        ([gap(35_000)], [(30_000, "POLL_TIMEOUT"), (35_000, "JOIN_NEW")]),
        ([gap(None)], [(30_000, "POLL_TIMEOUT")]),
        ([CLOSE, back(21_000)], [(20_000, "LEAVE"), (21_000, "JOIN_NEW")]),
        ([CRASH], [(26_000, "EXPIRE_HEARTBEAT")]),
        # The rebalance of the new process waits for the old member id until its session ends.
        ([CRASH, back(22_000)], [(22_000, "JOIN_NEW"), (26_000, "EXPIRE_HEARTBEAT")]),
    ],
    ids=["short silence", "long silence", "short gap", "long gap", "endless gap", "restart", "crash", "crash and restart"],
)
def test_dynamic_members(actions: list[Action], expected: list[tuple[int, str]]) -> None:
    assert triggers(*actions) == expected


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([CLOSE, back(25_000)], [(25_000, "STATIC_REJOIN")]),
        ([CRASH, back(25_000)], [(25_000, "STATIC_REJOIN")]),
        ([CLOSE, back(27_000)], [(26_000, "EXPIRE_HEARTBEAT"), (27_000, "JOIN_NEW")]),
        ([CLOSE], [(26_000, "EXPIRE_HEARTBEAT")]),
        # It stops sending heartbeats at 30 s and keeps its instance id until its session ends.
        ([gap(35_000)], [(35_000, "STATIC_REJOIN")]),
        ([gap(37_000)], [(36_000, "EXPIRE_HEARTBEAT"), (37_000, "JOIN_NEW")]),
    ],
    ids=["restart", "crash and restart", "late restart", "close", "long gap", "longer gap"],
)
def test_static_members_never_send_leave_group(actions: list[Action], expected: list[tuple[int, str]]) -> None:
    assert triggers(*actions, instance_id="a") == expected


def test_an_administrator_removes_a_member_that_comes_back_by_itself() -> None:
    found = triggers(Action(at_ms=20_000, kind=ActionKind.REMOVAL))
    assert [code for _, code in found] == ["ADMIN_REMOVE", "JOIN_NEW"]


def test_another_subscription_is_a_rebalance() -> None:
    found = triggers(Action(at_ms=20_000, kind=ActionKind.RESUBSCRIBE, topics=frozenset({"t", "u"})))
    assert [at_ms for at_ms, _ in found] == [20_000]


def test_a_cooperative_member_revokes_what_it_loses_and_joins_again() -> None:
    found = triggers(CLOSE, back(30_000), protocol="cooperative-sticky")
    assert [code for _, code in found] == ["LEAVE", "JOIN_NEW", "LEADER_REJOIN"]
