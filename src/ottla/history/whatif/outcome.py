"""What a replay comes to: its rebalances with their causes, those that static membership avoided, moves and stops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.groups.events import GroupEvent
from ottla.history.processes import Owners, Processes
from ottla.history.rounds.returns import RETURN_WITHIN_MS
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.policy import POLICIES
from ottla.history.whatif.behaviour import ActionKind, GroupBehaviour, Process
from ottla.history.whatif.member import FOLLOW_UP
from ottla.history.whatif.replay import REMOVALS, TRIGGERS, Origin, Replayed

Key = tuple[Origin, str]
"""What a trigger is a consequence of, and whether a member went, came, or changed: the same in replays of other settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRebalance:
    """One rebalance, its cooperative follow-ups included. `process`: whose action caused it, "" for the leader's own."""

    at_ms: int
    generation: int
    cause: Cause
    process: str
    planned: bool
    keys: frozenset[Key]
    moved: int = 0
    follow_ups: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All rebalances of a replay. `avoided`: returns of static members without one, as time and process.

    stopped_ms: partition-milliseconds without an owner, during rebalances; waiting_ms: with an owner that was silent or gone.
    """

    rebalances: tuple[ReplayedRebalance, ...]
    avoided: tuple[tuple[int, str], ...]
    stopped_ms: int
    waiting_ms: int

    @property
    def planned(self) -> int:
        """How many rebalances were planned."""
        return sum(each.planned for each in self.rebalances)

    @property
    def unplanned(self) -> int:
        """How many were not."""
        return len(self.rebalances) - self.planned

    @property
    def generations(self) -> int:
        """How many generations they formed: follow-ups count."""
        return sum(1 + each.follow_ups for each in self.rebalances)

    @property
    def moved(self) -> int:
        """How many partitions changed their owner."""
        return sum(each.moved for each in self.rebalances)


def outcome(behaviour: GroupBehaviour, replayed: Replayed) -> Outcome:
    """The outcome of a replay of `behaviour`."""
    processes = {process.name: process for process in behaviour.processes}
    owners = Owners(Processes())
    rebalances: list[ReplayedRebalance] = []
    avoided = []
    for at, event in enumerate(replayed.events):
        if event.kind in TRIGGERS:
            origin = replayed.origins.get(at, Origin("", 0))
            _add_trigger(rebalances, event, origin, _cause(event, origin, behaviour, processes))
        elif event.kind == "static_replaced":
            avoided.append((event.at_ms, replayed.origins[at].process))
        elif event.kind in ("sync_completed", "target_assigned"):
            moved = owners.update(event.members, event.at_ms).all_moved
            if rebalances:
                rebalances[-1] = replace(rebalances[-1], generation=event.generation, moved=rebalances[-1].moved + moved)
    return Outcome(rebalances=tuple(rebalances), avoided=tuple(avoided), stopped_ms=replayed.rebalancing_ms, waiting_ms=replayed.waiting_ms)


def _add_trigger(rebalances: list[ReplayedRebalance], event: GroupEvent, origin: Origin, cause: Cause) -> None:
    is_planned = bool(POLICIES[cause].planned)
    if cause is Cause.COOP_FOLLOWUP and rebalances:
        follow_ups = rebalances[-1].follow_ups + (not event.coalesced)
        rebalances[-1] = replace(rebalances[-1], follow_ups=follow_ups)
        return
    key = origin, "gone" if event.trigger in REMOVALS else "came" if event.trigger == "JOIN_NEW" else "changed"
    if not event.coalesced or not rebalances:
        started = ReplayedRebalance(
            at_ms=event.at_ms,
            generation=event.generation + (event.kind == "trigger"),
            cause=cause,
            process=origin.process,
            planned=is_planned,
            keys=frozenset({key}),
        )
        rebalances.append(started)
        return
    last = rebalances[-1]
    if last.planned and not is_planned:
        last = replace(last, cause=cause, process=origin.process, planned=False)
    rebalances[-1] = replace(last, keys=last.keys | {key})


def _cause(event: GroupEvent, origin: Origin, behaviour: GroupBehaviour, processes: Mapping[str, Process]) -> Cause:
    if event.client_reason == FOLLOW_UP:
        return Cause.COOP_FOLLOWUP
    if event.trigger == "TOPIC_CHANGE":
        return Cause.TOPIC_CHANGE
    if not origin.process:
        return behaviour.leader_rejoins[origin.action].cause if behaviour.leader_rejoins else Cause.UNKNOWN
    action = processes[origin.process].actions[origin.action]
    if action.kind in (ActionKind.START, ActionKind.CLOSE):
        if _is_restart(processes[origin.process], origin.action):
            return Cause.RESTART_DYNAMIC
        if action.kind is ActionKind.CLOSE:
            return Cause.LEAVE_CLOSE
        return Cause.COLD_START if event.state_from == "Empty" else Cause.JOIN_NEW
    if action.kind is ActionKind.SILENCE and event.trigger in ("POLL_TIMEOUT", "LEAVE"):
        return Cause.POLL_TIMEOUT
    return action.cause if action.kind is ActionKind.RESUBSCRIBE else _CAUSES[action.kind]


_CAUSES: Final = {
    ActionKind.CRASH: Cause.EXPIRE_HEARTBEAT,
    ActionKind.SILENCE: Cause.EXPIRE_HEARTBEAT,
    ActionKind.POLL_GAP: Cause.POLL_TIMEOUT,
    ActionKind.REMOVAL: Cause.ADMIN,
}


def _is_restart(process: Process, index: int) -> bool:
    """Whether a start follows an end of the same process, or an end is followed by a start, within minutes."""
    action = process.actions[index]
    step = -1 if action.kind is ActionKind.START else 1
    other = index + step
    if not 0 <= other < len(process.actions):
        return False
    return abs(process.actions[other].at_ms - action.at_ms) <= RETURN_WITHIN_MS


def causes(rebalances: Sequence[ReplayedRebalance]) -> dict[str, int]:
    """How many rebalances each cause has, the most frequent first."""
    counts: dict[str, int] = {}
    for each in rebalances:
        counts[each.cause.value] = counts.get(each.cause.value, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
