"""A member in an environment written for the test: nothing else is needed to run it."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.groups.assignors.range import ASSIGNOR
from ottla.groups.commands import Heartbeat, JoinGroup, JoinResult, LeaveGroup, Request, SyncGroup
from ottla.groups.events import GroupEvent
from ottla.history.whatif.behaviour import Action, ActionKind, Process
from ottla.history.whatif.member import (
    Environment,
    ModelMember,
    PartitionStops,
    heartbeat_request,
    join_request,
    leave_request,
    partitions_of,
    stop_times,
    sync_request,
)
from ottla.history.whatif.replay import replay
from ottla.protocol.errors import ErrorCode
from tests.support.kit.group_behaviours import POLL_MS, behaviour, process


def test_heartbeats_stop_with_silences_ends_and_poll_gaps_that_are_too_long() -> None:
    actions = (
        Action(at_ms=0, kind=ActionKind.START),
        Action(at_ms=1_000, kind=ActionKind.POLL_GAP, until_ms=1_000 + POLL_MS),
        Action(at_ms=20_000, kind=ActionKind.POLL_GAP, until_ms=20_001 + POLL_MS),
        Action(at_ms=50_000, kind=ActionKind.SILENCE, until_ms=50_500),
        Action(at_ms=60_000, kind=ActionKind.CLOSE),
    )
    assert stop_times(process("a", *actions)) == [20_000 + POLL_MS, 50_000, 60_000]


PROCESS = Process(
    name="a",
    client_id="consumer",
    client_host="/h",
    instance_id="i",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=8_000,
    topics=frozenset(),
    actions=(),
)


def test_every_request_has_the_members_identity() -> None:
    made = [
        join_request("g", PROCESS, "m", assignor="range", metadata=b"", reason=None, new_id="n")(1),
        sync_request("g", PROCESS, "m", 3, assignor="range", assignments=())(2),
        heartbeat_request("g", PROCESS, "m", 3)(3),
        leave_request("g", PROCESS, "m", "why")(4),
    ]
    assert [type(each) for each in made] == [JoinGroup, SyncGroup, Heartbeat, LeaveGroup]
    assert [each.reply_to for each in made] == [1, 2, 3, 4]
    assert {each.group_id for each in made} == {"g"}


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
    assignor = ASSIGNOR

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

    def assign(self, result: JoinResult) -> tuple[tuple[str, bytes], ...]:
        return ()

    def sync_delay_ms(self) -> int:
        return 0


def test_a_member_joins_again_with_the_id_that_it_gets() -> None:
    environment = Recorder()
    as_protocol: Environment = environment
    ModelMember(process("a"), as_protocol).act(0, Action(at_ms=0, kind=ActionKind.START))
    _, receive = environment.sent[0]
    receive(JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="a-0"))
    joins = [request.member_id for request, _ in environment.sent if isinstance(request, JoinGroup)]
    assert joins == ["", "a-0"]


# Single members by their rules, in a replay with one other member that keeps the group stable.

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
