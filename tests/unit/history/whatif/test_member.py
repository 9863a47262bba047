"""A member in an environment written for the test: nothing else is needed to run it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ottla.groups.assignors import Assignor
from ottla.groups.assignors.range import ASSIGNOR
from ottla.groups.commands import JoinGroup, JoinResult, Request
from ottla.groups.events import GroupEvent
from ottla.history.whatif.behaviour import Action, ActionKind, Process
from ottla.history.whatif.member import ClassicModelMember, Environment, PartitionStops, partitions_of
from ottla.history.whatif.replay import replay
from ottla.protocol.errors import ErrorCode
from tests.support.kit.group_behaviours import POLL_MS, SESSION_MS, behaviour, process

ALL = partitions_of({"t": [0, 1, 2], "u": [0]})
NONE = partitions_of({})


def test_partitions_without_an_owner_and_with_a_silent_one() -> None:
    stops = PartitionStops()
    stops.start(0)
    stops.replace(NONE, ALL, read_before=True, read_after=True)
    stops.advance(1_000, is_running=True)
    stops.replace(ALL, ALL, read_before=True, read_after=False)
    stops.advance(3_000, is_running=True)
    stops.replace(ALL, NONE, read_before=False, read_after=True)
    stops.advance(3_500, is_running=True)
    assert (stops.waiting_ms, stops.rebalancing_ms) == (8_000, 2_000)


def test_a_partition_that_another_member_reads_does_not_wait() -> None:
    stops = PartitionStops()
    stops.replace(NONE, ALL, read_before=True, read_after=False)
    stops.replace(NONE, ALL, read_before=True, read_after=True)
    stops.advance(1_000, is_running=True)
    assert (stops.waiting_ms, stops.rebalancing_ms) == (0, 0)


def test_a_group_without_processes_stops_nothing() -> None:
    stops = PartitionStops()
    stops.replace(NONE, ALL, read_before=True, read_after=True)
    stops.replace(ALL, NONE, read_before=True, read_after=True)
    stops.advance(1_000, is_running=False)
    assert stops.rebalancing_ms == 0


class Recorder:
    """Keeps requests and their receivers."""

    group_id = "g"
    assignor: Assignor = ASSIGNOR

    def __init__(self) -> None:
        self.now_ms = 0
        self.stops = PartitionStops()
        self.sent: list[tuple[Request, Callable[[Any], None]]] = []

    def send(self, request: Callable[[int], Request], receive: Callable[[Any], None]) -> None:
        self.sent.append((request(0), receive))

    def later(self, delay_ms: int, act: Callable[[], None]) -> None:
        raise AssertionError("nothing is scheduled")

    def new_member_id(self, process: str) -> str:
        return f"{process}-{len(self.sent)}"

    def partition_counts(self) -> Mapping[str, int]:
        return {"t": 6}

    def sync_delay_ms(self) -> int:
        return 0

    def keep_session(self, member_id: str, instance_id: str | None) -> None:
        raise AssertionError("it is no member yet")

    def is_settled(self) -> bool:
        return True

    def topic_names(self) -> Mapping[str, str]:
        return {}


def test_a_member_joins_again_with_the_id_that_it_gets() -> None:
    environment = Recorder()
    as_protocol: Environment = environment
    ClassicModelMember(process("a"), as_protocol).act(0, Action(at_ms=0, kind=ActionKind.START))
    _, receive = environment.sent[0]
    receive(JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="a-0"))
    joins = [request.member_id for request, _ in environment.sent if isinstance(request, JoinGroup)]
    assert joins == ["", "a-0"]


# Single members by their rules, in a replay with one other member that keeps the group stable.

START, OTHER = Action(at_ms=1_000, kind=ActionKind.START), process("z", Action(at_ms=0, kind=ActionKind.START))


def triggers(*actions: Action, instance_id: str | None = None, protocol: str = "range") -> list[tuple[int, str]]:
    """What the second member triggers after both have settled."""
    return triggers_of(process("a", START, *actions, instance_id=instance_id), protocol=protocol)


def triggers_of(member: Process, *, protocol: str = "range") -> list[tuple[int, str]]:
    group = behaviour(member, OTHER, protocol=protocol)
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
        ([gap(20_000 + POLL_MS)], []),
        ([gap(35_000)], [(30_000, "POLL_TIMEOUT"), (35_000, "JOIN_NEW")]),
        ([gap(None)], [(30_000, "POLL_TIMEOUT")]),
        ([CLOSE, back(21_000)], [(20_000, "LEAVE"), (21_000, "JOIN_NEW")]),
        ([CRASH], [(26_000, "EXPIRE_HEARTBEAT")]),
        # Its last heartbeat came when it fell silent.
        ([silence(40_000), Action(at_ms=23_000, kind=ActionKind.CRASH)], [(26_000, "EXPIRE_HEARTBEAT")]),
        # The rebalance of the new process waits for the old member id until its session ends.
        ([CRASH, back(22_000)], [(22_000, "JOIN_NEW"), (26_000, "EXPIRE_HEARTBEAT")]),
    ],
    ids=[
        "short silence",
        "long silence",
        "short gap",
        "gap of the whole interval",
        "long gap",
        "endless gap",
        "restart",
        "crash",
        "silence and crash",
        "crash and restart",
    ],
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


@pytest.mark.parametrize(
    ("until_ms", "expected"),
    [(29_900, []), (30_100, [(30_100, "POLL_TIMEOUT"), (30_100, "JOIN_NEW")])],
    ids=["shorter than the poll interval", "longer"],
)
def test_a_heartbeat_thread_that_wakes_after_the_poll_interval_leaves(until_ms: int, expected: list[tuple[int, str]]) -> None:
    member = replace(process("a", START, silence(until_ms)), session_timeout_ms=10 * SESSION_MS)
    assert triggers_of(member) == expected


def test_a_member_that_wakes_after_its_session_notices_it_although_it_had_more_to_do() -> None:
    member = process("a", START, Action(at_ms=18_000, kind=ActionKind.POLL_GAP, until_ms=21_000), silence(27_000))
    for poll_ms in (4_000, POLL_MS):
        found = triggers_of(replace(member, rebalance_timeout_ms=poll_ms))
        assert found[-1] == (27_000, "JOIN_NEW"), found


def test_a_member_that_wakes_in_a_poll_gap_polls_when_the_gap_is_over() -> None:
    assert triggers(silence(22_000), Action(at_ms=21_000, kind=ActionKind.POLL_GAP, until_ms=35_000)) == [
        (30_000, "POLL_TIMEOUT"),
        (35_000, "JOIN_NEW"),
    ]
