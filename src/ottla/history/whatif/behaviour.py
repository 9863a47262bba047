"""What the members of a group did by themselves, whatever the settings: the input of a replay.

A setting changes what follows from an action (a silence of 8 s ends a session of 6 s and not one of 45 s), never the action.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from ottla.history.sources.evidence import Cause


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action. SILENCE and POLL_GAP end at `until_ms`; their true length may be up to `uncertain_ms` more.

    Of RESUBSCRIBE: `topics`, None for the same as before, and `cause`.
    """

    at_ms: int
    kind: ActionKind
    until_ms: int | None = None
    uncertain_ms: int = 0
    topics: frozenset[str] | None = None
    cause: Cause = Cause.SUBSCRIPTION

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


class LeaderRejoin(NamedTuple):
    """The leader joined again: topics changed, or for another cause that is no member's doing."""

    at_ms: int
    cause: Cause = Cause.TOPIC_CHANGE


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
    earlier). partition_counts: by topic, from each time on. recorded_ms: when each recorded rebalance began. notes: what is assumed,
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
    recorded_ms: tuple[int, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def hours(self) -> float:
        """The time that the evidence covers, at least a second."""
        return max(self.ended_ms - self.started_ms, 1_000) / 3_600_000
