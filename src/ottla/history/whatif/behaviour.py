"""What the members of a group did by themselves, whatever the settings: the input of a replay.

A setting changes what follows from an action (a silence of 8 s ends a session of 6 s and not one of 45 s), never the action.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile
from typing import Final, NamedTuple

from ottla.history.sources.evidence import Cause

BEFORE_MS: Final = 60_000
"""How long before the evidence, or what is asked for, the members start that were there when it begins."""


class ActionKind(StrEnum):
    """What a process does, or what is done to it."""

    START = "start"
    """The process starts and joins."""
    CLOSE = "close"
    """It closes its consumer in order: a dynamic member sends LeaveGroup, a static one does not."""
    CRASH = "crash"
    """It ends without a word; a process that stays silent forever looks the same."""
    SILENCE = "silence"
    """It neither sends heartbeats nor polls, and then goes on: suspended, a long pause for garbage collection, a lost network."""
    POLL_GAP = "poll gap"
    """It works on one batch and does not poll; heartbeats go on."""
    RESUBSCRIBE = "resubscribe"
    """It joins again with other metadata: other topics, or for no reason that is known."""
    REMOVAL = "removal"
    """An administrator removes it."""


FOR_GOOD: Final = frozenset({ActionKind.CLOSE, ActionKind.CRASH, ActionKind.SILENCE, ActionKind.POLL_GAP})
"""Actions after which a process is no member any more, where they have no end themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action. SILENCE and POLL_GAP end at `until_ms`; their true length may be up to `uncertain_ms` more.

    The member of a REMOVAL is back at `until_ms`. Of RESUBSCRIBE: `topics`, None for the same as before, `cause`, and `follows_ms`, as a
    LeaderRejoin has it.
    """

    at_ms: int
    kind: ActionKind
    until_ms: int | None = None
    uncertain_ms: int = 0
    topics: frozenset[str] | None = None
    cause: Cause = Cause.SUBSCRIPTION
    follows_ms: int | None = None

    @property
    def length_ms(self) -> int:
        """How long a silence or a poll gap lasts."""
        return 0 if self.until_ms is None else self.until_ms - self.at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One consumer process over all its restarts, with the settings it was recorded with. `actions` are in the order of time."""

    name: str
    client_id: str
    client_host: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: frozenset[str]
    actions: tuple[Action, ...]

    def since(self, since_ms: int) -> "Process":
        """What it did from a time on, and before where the group may learn of it later; it starts early enough to be a member then."""
        from_ms = since_ms - max(self.session_timeout_ms, self.rebalance_timeout_ms)
        before = list(takewhile(lambda action: (action.until_ms or action.at_ms) < from_ms, self.actions))
        after = self.actions[len(before) :]
        is_running = False
        for action in before:
            if action.kind is ActionKind.START:
                is_running = True
            elif action.until_ms is None and action.kind in FOR_GOOD:
                is_running = False
        if not is_running:
            return replace(self, actions=after)
        starts_ms = min([from_ms, *(action.at_ms for action in after)]) - BEFORE_MS
        return replace(self, actions=(Action(at_ms=starts_ms, kind=ActionKind.START), *after))


class LeaderRejoin(NamedTuple):
    """The leader joined again: topics changed, or for another cause that is no member's doing.

    `follows_ms`: when the rebalance began of which it was a consequence, and without which it does not happen; None for one by itself.
    """

    at_ms: int
    cause: Cause = Cause.TOPIC_CHANGE
    follows_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Reaction:
    """How fast the group was in a recorded rebalance: until the last member had joined, and from there to the stored assignment."""

    at_ms: int
    join_ms: int
    sync_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBehaviour:
    """All that a replay needs to know of one group.

    started_ms, ended_ms: the time that the evidence covers; rebalances outside it do not count (members that were there before start
    earlier). partition_counts: by topic, from each time on. is_consumer_type: the group speaks KIP-848, where session timeout and heartbeat
    interval are the group's, and the coordinator assigns. recorded_ms: when each recorded rebalance began. notes: what is assumed,
    uncertain or left out, one sentence each.
    """

    group: str
    started_ms: int
    ended_ms: int
    protocol: str
    processes: tuple[Process, ...]
    partition_counts: tuple[tuple[int, Mapping[str, int]], ...]
    leader_rejoins: tuple[LeaderRejoin, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    initial_rebalance_delay_ms: int = 0
    is_consumer_type: bool = False
    heartbeat_interval_ms: int = 5_000
    recorded_ms: tuple[int, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def since(self, since_ms: int) -> "GroupBehaviour":
        """The behaviour from a time on: whoever was running then, with what had begun by then and may have consequences later."""
        processes = (each.since(since_ms) for each in self.processes)
        return replace(
            self,
            started_ms=max(self.started_ms, since_ms),
            processes=tuple(each for each in processes if each.actions),
            leader_rejoins=tuple(each for each in self.leader_rejoins if each.at_ms >= since_ms),
            recorded_ms=tuple(each for each in self.recorded_ms if each >= since_ms),
        )

    @property
    def hours(self) -> float:
        """The time that the evidence covers, at least a second."""
        return max(self.ended_ms - self.started_ms, 1_000) / 3_600_000
