"""Verdicts on consumer groups (KIP-848) from an Ottla broker's events: simulated groups in virtual time, to which one known thing is done.

The real coordinator, modelled clients; each group starts, is quiet, and then something happens whose cause is known. Every rebalance after
the start has to be judged by its cause, and none may be missing or too many.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from heapq import heappop, heappush
from random import Random
from typing import Final

import pytest

from ottla.groups.commands import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    GroupEffects,
    LeaveGroup,
    LeavingMember,
)
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import GroupEvent
from ottla.groups.settings import GroupSettings
from ottla.history.group_history import GroupHistory, histories_of_events
from ottla.history.sources.evidence import Cause
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.verdicts.verdict import Verdict
from ottla.history.whatif.prediction import agreement, outcome_with
from ottla.history.whatif.reconstruction import reconstruct
from ottla.history.whatif.settings import Settings
from ottla.protocol.errors import ErrorCode
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.scenarios import ScenarioTopics

GROUP: Final = "orders"
START_MS: Final = 1_795_000_000_000
BEAT_MS: Final = 3_000
SESSION_MS: Final = 12_000
POLL_MS: Final = 20_000
QUIET_MS: Final = 60_000
"""Before the action, and after it."""
LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
Partition = tuple[bytes, int]
C = Cause


@dataclass(eq=False)
class Process:
    """One run of a client; it owns what it was given until it has given it up."""

    name: str
    member_id: str
    port: int
    instance_id: str | None = None
    topics: frozenset[str] = frozenset({"flights"})
    regex: str | None = None
    epoch: int = 0
    owned: set[Partition] = field(default_factory=set)
    given: set[Partition] = field(default_factory=set)
    is_running: bool = True
    is_silent: bool = False
    gives_up: bool = True


class World:
    """One coordinator, its clients, and the time."""

    def __init__(self, seed: int, *, interval_ms: int) -> None:
        self.rng = Random(seed)
        self.topics = ScenarioTopics()
        self.topics.set({"flights": 12})
        settings = GroupSettings(consumer_session_timeout_ms=SESSION_MS, consumer_assignment_interval_ms=interval_ms)
        self.shell = CoordinatorShell(lambda: GroupCoordinator(settings, topics=self.topics))
        self.now_ms = START_MS
        self.events: list[GroupEvent] = list(self.shell.restart(self.now_ms).events)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def later(self, delay_ms: int, act: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._queue, (self.now_ms + delay_ms, self._count, act))

    def run(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while True:
            deadline_ms = self.shell.coordinator.next_deadline_ms()
            next_ms = min(self._queue[0][0] if self._queue else end_ms, end_ms if deadline_ms is None else deadline_ms)
            if next_ms >= end_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            effects = self.shell.fire_timers(self.now_ms)
            if effects is not None:
                self.take(effects)
            else:
                heappop(self._queue)[2]()
        self.now_ms = end_ms

    def take(self, effects: GroupEffects) -> GroupEffects:
        self.events += effects.events
        return effects

    # What processes do

    def start(self, name: str, **given: object) -> Process:
        self._count += 1
        process = Process(name, f"id-{self._count}-{self.rng.randrange(10**6)}", 40_000 + self._count, **given)  # type: ignore[arg-type]
        self.beat(process)
        self._beat_on(process)
        return process

    def _beat_on(self, process: Process) -> None:
        def beat() -> None:
            if process.is_running:
                if not process.is_silent:
                    self.beat(process)
                self._beat_on(process)

        self.later(BEAT_MS - self.rng.randrange(500), beat)

    def beat(self, process: Process, epoch: int | None = None) -> None:
        result = self.send(process, process.epoch if epoch is None else epoch)
        if epoch is not None:
            return
        if result.error in LOST:
            process.epoch, process.owned, process.given = 0, set(), set()
            self.beat(process)
            return
        if result.error is not ErrorCode.NONE:
            process.is_running = False  # fatal, as in every client
            return
        process.epoch = result.member_epoch
        if result.assignment is not None:
            process.given = {(topic_id, number) for topic_id, numbers in result.assignment.items() for number in numbers}
            process.owned |= process.given

    def send(self, process: Process, epoch: int) -> ConsumerGroupHeartbeatResult:
        owned: dict[bytes, set[int]] = {}
        if process.gives_up:
            process.owned &= process.given
        for topic_id, number in process.owned:
            owned.setdefault(topic_id, set()).add(number)
        command = ConsumerGroupHeartbeat(
            reply_to=1,
            group_id=GROUP,
            member_id=process.member_id,
            member_epoch=epoch,
            instance_id=process.instance_id,
            rack_id=None,
            rebalance_timeout_ms=POLL_MS,
            topics=process.topics,
            regex=process.regex,
            assignor=None,
            owned={} if epoch == 0 else owned,
            client_id=process.name,
            client_host="/10.0.0.1",
            client_port=process.port,
        )
        (reply,) = self.take(self.shell.run(command, self.now_ms)).replies
        assert isinstance(reply.result, ConsumerGroupHeartbeatResult)
        return reply.result

    def close(self, process: Process) -> None:
        self.beat(process, -1 if process.instance_id is None else -2)
        process.is_running = False

    def restart(self, process: Process, after_ms: int) -> None:
        given = {"instance_id": process.instance_id, "topics": process.topics}
        self.later(after_ms, lambda: self.start(process.name, **given) and None)

    def silence(self, process: Process, ms: int) -> None:
        process.is_silent = True
        self.later(ms, lambda: setattr(process, "is_silent", False))

    def leave_for_poll(self, process: Process, ms: int) -> None:
        """It did not poll in time: it leaves, and joins with its id when it polls again."""
        self.beat(process, -1)
        process.epoch, process.owned, process.given = 0, set(), set()
        self.silence(process, ms)

    def remove(self, process: Process) -> None:
        leaving = LeavingMember(
            member_id=process.member_id, instance_id=process.instance_id, reason="member was removed by an admin: drain"
        )
        self.take(self.shell.run(LeaveGroup(reply_to=1, group_id=GROUP, members=(leaving,)), self.now_ms))


# What is done, and the causes of the rebalances after it, in their order; (cause,) of those that were avoided.


def joins(world: World, members: list[Process]) -> list[Cause]:
    world.start("new")
    return [C.JOIN_NEW]


def closes(world: World, members: list[Process]) -> list[Cause]:
    world.close(members[0])
    return [C.LEAVE_CLOSE]


def restarts(world: World, members: list[Process]) -> list[Cause]:
    world.close(members[0])
    world.restart(members[0], 8_000)
    return [C.RESTART_DYNAMIC, C.RESTART_DYNAMIC]


def crashes(world: World, members: list[Process]) -> list[Cause]:
    members[0].is_running = False
    return [C.EXPIRE_HEARTBEAT]


def is_killed_and_started(world: World, members: list[Process]) -> list[Cause]:
    """The new process joins while the old one's session is open."""
    members[0].is_running = False
    world.restart(members[0], 5_000)
    return [C.RESTART_DYNAMIC, C.RESTART_DYNAMIC]


def freezes(world: World, members: list[Process]) -> list[Cause]:
    world.silence(members[0], SESSION_MS + 10_000)
    return [C.EXPIRE_HEARTBEAT, C.EXPIRE_HEARTBEAT]


def polls_too_late(world: World, members: list[Process]) -> list[Cause]:
    world.leave_for_poll(members[0], 10_000)
    return [C.POLL_TIMEOUT, C.POLL_TIMEOUT]


def does_not_revoke(world: World, members: list[Process]) -> list[Cause]:
    """It keeps what it must give up to a new member, until its rebalance timeout; then it comes back."""
    members[0].gives_up = False
    world.later(POLL_MS + 10_000, lambda: setattr(members[0], "gives_up", True))
    world.start("new")
    return [C.JOIN_NEW, C.JOIN_TIMEOUT, C.JOIN_TIMEOUT]


def is_removed(world: World, members: list[Process]) -> list[Cause]:
    """Its next heartbeat brings it back, when the others have its partitions."""
    world.remove(members[0])
    world.silence(members[0], 7_000)
    return [C.ADMIN, C.ADMIN]


def is_removed_for_good(world: World, members: list[Process]) -> list[Cause]:
    members[0].is_running = False
    world.remove(members[0])
    return [C.ADMIN]


def gets_partitions(world: World, members: list[Process]) -> list[Cause]:
    world.topics.set({"flights": 15})
    return [C.TOPIC_CHANGE]


def loses_its_topic(world: World, members: list[Process]) -> list[Cause]:
    world.topics.set({"weather": 3})
    return [C.TOPIC_CHANGE]


def subscribes(world: World, members: list[Process]) -> list[Cause]:
    members[0].topics = frozenset({"flights", "hotels"})
    return [C.SUBSCRIPTION]


def subscribes_to_pattern(world: World, members: list[Process]) -> list[Cause]:
    """It gets partitions again when the topics are looked up: a rebalance of its own if others got some meanwhile."""
    members[0].topics, members[0].regex = frozenset(), "fl.*|ho.*"
    return [C.SUBSCRIPTION] * min(len(members), 2)


def joins_with_pattern(world: World, members: list[Process]) -> list[Cause]:
    world.start("new", topics=frozenset(), regex="fl.*")
    return [C.JOIN_NEW]


def pattern_matches_new_topic(world: World, members: list[Process]) -> list[Cause]:
    world.start("new", topics=frozenset(), regex="fl.*")
    world.later(20_000, lambda: world.topics.set({"flights": 12, "flowers": 3}))
    return [C.JOIN_NEW, C.TOPIC_CHANGE]


def all_close(world: World, members: list[Process]) -> list[Cause]:
    for number, member in enumerate(members):
        world.later(number * 6_000, lambda member=member: world.close(member))  # type: ignore[misc]
    return [C.LEAVE_CLOSE] * len(members)


def coordinator_moves(world: World, members: list[Process]) -> list[Cause]:
    """The next coordinator loads the group: no rebalance."""
    world.take(world.shell.restart(world.now_ms))
    return []


def coordinator_moves_and_topics_change(world: World, members: list[Process]) -> list[Cause]:
    world.topics.set({"flights": 15})
    world.take(world.shell.restart(world.now_ms))
    return [C.TOPIC_CHANGE]


def static_restarts(world: World, members: list[Process]) -> list[Cause]:
    world.close(members[0])
    world.restart(members[0], 6_000)
    return [C.STATIC_REJOIN]


def static_closes(world: World, members: list[Process]) -> list[Cause]:
    world.close(members[0])
    return [C.LEAVE_CLOSE]


def static_crashes(world: World, members: list[Process]) -> list[Cause]:
    members[0].is_running = False
    return [C.EXPIRE_HEARTBEAT]


def static_is_started_twice(world: World, members: list[Process]) -> list[Cause]:
    world.start("copy", instance_id=members[0].instance_id)
    return [C.STATIC_FENCED]


def static_is_killed_and_started(world: World, members: list[Process]) -> list[Cause]:
    """It is refused while the session of the killed one is open; nobody starts it again."""
    members[0].is_running = False
    world.restart(members[0], 4_000)
    return [C.FAILED_JOIN, C.EXPIRE_HEARTBEAT]


DYNAMIC: Final = (
    joins,
    closes,
    restarts,
    crashes,
    is_killed_and_started,
    freezes,
    polls_too_late,
    does_not_revoke,
    is_removed,
    is_removed_for_good,
    gets_partitions,
    loses_its_topic,
    subscribes,
    subscribes_to_pattern,
    joins_with_pattern,
    pattern_matches_new_topic,
    all_close,
    coordinator_moves,
    coordinator_moves_and_topics_change,
)
STATIC: Final = (static_restarts, static_closes, static_crashes, static_is_started_twice, static_is_killed_and_started)
Action = Callable[[World, list[Process]], list[Cause]]


@dataclass(frozen=True, slots=True)
class Run:
    """What was expected of one group, and what its history says."""

    name: str
    expected: Sequence[Cause]
    verdicts: Sequence[Verdict]
    history: GroupHistory
    events: Sequence[GroupEvent]

    @property
    def found(self) -> list[Cause]:
        return [verdict.cause for verdict in self.verdicts]

    @property
    def right(self) -> int:
        pairs = SequenceMatcher(a=self.expected, b=self.found, autojunk=False).get_matching_blocks()
        return sum(pair.size for pair in pairs)


def run(action: Action, *, members: int, interval_ms: int) -> Run:
    world = World(members * 10 + interval_ms, interval_ms=interval_ms)
    is_static = action in STATIC
    started = [world.start(f"w{number}", instance_id=f"i{number}" if is_static else None) for number in range(members)]
    world.run(QUIET_MS)
    at_ms = world.now_ms
    expected = action(world, started)
    world.run(2 * QUIET_MS)
    history = histories_of_events(world.events)[GROUP]
    verdicts = [verdict for verdict in history.verdicts if verdict.started_ms >= at_ms]
    return Run(f"{action.__name__}, {members} members, {interval_ms} ms", expected, verdicts, history, world.events)


@cache
def runs() -> tuple[Run, ...]:
    return tuple(
        run(action, members=members, interval_ms=interval_ms)
        for action in (*DYNAMIC, *STATIC)
        for members, interval_ms in ((1, 1_000), (2, 0), (3, 1_000))
    )


def test_rebalances_are_judged_by_their_cause() -> None:
    right = sum(each.right for each in runs())
    total = sum(max(len(each.expected), len(each.found)) for each in runs())
    wrong = [f"{each.name}: {', '.join(each.found)}, not {', '.join(each.expected)}" for each in runs() if each.found != each.expected]
    assert total > 100
    assert right >= 0.99 * total, "\n".join([f"{right} of {total}", *wrong])


def test_a_what_if_replays_them() -> None:
    """The replay with the recorded settings has the recorded rebalances, at about their times."""
    recorded = reproduced = extra = 0
    for each in runs():
        behaviour = reconstruct(GROUP, list(evidence_of_events(each.events, clock="c")))
        found = agreement(behaviour.recorded_ms, outcome_with(behaviour, Settings()))
        recorded, reproduced, extra = recorded + found.recorded, reproduced + found.reproduced, extra + len(found.extra_ms)
    assert recorded > 200
    assert reproduced >= 0.98 * recorded, (recorded, reproduced)
    assert extra <= 0.02 * recorded, extra


def test_the_first_members_start_the_group() -> None:
    for each in runs():
        first = [verdict for verdict in each.history.verdicts if verdict not in each.verdicts]
        assert {verdict.cause for verdict in first} <= {C.COLD_START, C.JOIN_NEW}, each.name
        assert first[0].cause is C.COLD_START, each.name


def test_every_epoch_says_its_trigger() -> None:
    for each in runs():
        triggers = [event.trigger for event in each.events if event.kind == "epoch_bumped"]
        assert all(triggers), each.name
        assert {event.group_type for event in each.events} == {"consumer"}, each.name


@pytest.mark.parametrize("interval_ms", [0, 1_000])
def test_the_slow_revoker_has_a_name(interval_ms: int) -> None:
    world = World(1, interval_ms=interval_ms)
    slow, other = world.start("slow"), world.start("other")
    world.run(QUIET_MS)
    slow.gives_up = False
    world.later(9_000, lambda: setattr(slow, "gives_up", True))
    world.start("new")
    world.run(QUIET_MS)
    assert other.owned
    rebalance = histories_of_events(world.events)[GROUP].rebalances[-1]
    assert rebalance.verdict.cause is C.JOIN_NEW
    slowest = max(rebalance.reconciled, key=lambda each: each.revocation_ms or 0)
    assert slowest.name == "slow"
    assert 8_000 < (slowest.revocation_ms or 0) < 15_000
    assert max(each.reconciliation_ms or 0 for each in rebalance.reconciled if each.name == "other") < 6_000
