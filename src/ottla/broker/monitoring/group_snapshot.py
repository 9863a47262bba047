"""The groups of this process as one frozen snapshot, for the metrics: the largest one by one, all of them in sums, also by broker.

Made on the broker's loop (group_sampler.py), read by any thread. `ottla watch` makes the same of another cluster's groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.groups.classic.group import CLASSIC
from ottla.groups.classic.states import GroupState
from ottla.groups.consumer.group import CONSUMER_STATES
from ottla.groups.events import TriggerCode
from ottla.history.burrow import Status

DURATIONS_S: Final = (0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the histogram of a phase's durations; the rest is counted too."""

PHASES: Final = ("join", "sync", "assign", "revoke", "reconcile")
"""The last three are of consumer groups; `revoke` and `reconcile` are counted for each member."""

Owner = tuple[str, str, str]
"""Member id, client id and host of the member that reads a partition."""
NO_OWNER: Final[Owner] = ("", "", "")


class Durations(NamedTuple):
    """How long a phase took: how many times it took place, seconds in total, and how many times it took up to each of DURATIONS_S."""

    times: int = 0
    sum_s: float = 0.0
    up_to: tuple[int, ...] = (0,) * len(DURATIONS_S)

    def plus(self, duration_s: float) -> "Durations":
        """These durations and one more."""
        up_to = tuple(count + (duration_s <= bound) for count, bound in zip(self.up_to, DURATIONS_S, strict=True))
        return Durations(self.times + 1, self.sum_s + duration_s, up_to)


CauseKey = str | tuple[str, bool | None]
"""A trigger's code, of which alone follows whether it was planned; or a cause and whether it was, as far as that is known."""


def cause_key(trigger: str, instance_id: str | None) -> CauseKey:
    """How a trigger is counted. A static member that is stopped says nothing, so that its session expires: planned or not."""
    return (trigger, None) if trigger == TriggerCode.EXPIRE_HEARTBEAT and instance_id is not None else trigger


@dataclass(slots=True, kw_only=True)
class EventCounts:
    """What the events of one group, or of all, add up to since the start.

    rebalances, coalesced: by cause. outcomes: by `completed`, `emptied`, `superseded`, `interrupted`.
    """

    rebalances: dict[CauseKey, int] = field(default_factory=dict)
    coalesced: dict[CauseKey, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    static_replaced: int = 0
    static_fenced: int = 0
    offsets_expired: int = 0
    durations: dict[str, Durations] = field(default_factory=dict)
    classic_completed: int = 0
    """Completed rebalances of classic groups: Kafka counts these alone."""
    consumer_rebalances: int = 0
    """New epochs of consumer groups, without those for members that left, were removed or expired: Kafka counts these alone."""

    def copy(self) -> "EventCounts":
        """A copy that stays as it is."""
        return EventCounts(
            rebalances=dict(self.rebalances),
            coalesced=dict(self.coalesced),
            outcomes=dict(self.outcomes),
            static_replaced=self.static_replaced,
            static_fenced=self.static_fenced,
            offsets_expired=self.offsets_expired,
            durations=dict(self.durations),
            classic_completed=self.classic_completed,
            consumer_rebalances=self.consumer_rebalances,
        )


class OffsetRow(NamedTuple):
    """One committed offset. `log_start`, `log_end` and `lag` are None while the partition's log is not open (or is gone).

    `owner`: NO_OWNER when no member reads the partition. `status` is Burrow's.
    """

    topic: str
    partition: int
    offset: int
    log_start: int | None
    log_end: int | None
    lag: int | None
    owner: Owner
    status: Status


class TopicRow(NamedTuple):
    """A topic in a group's assignment."""

    topic: str
    members: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group. `offsets_left_out`: committed offsets that are not in `offsets`; the sums by topic have them all.

    by_topic: (sum of the offsets, sum of the lags) by topic. empty_members: members without partitions. generation and offset_commits are
    None where a watch has not seen them.
    """

    group_id: str
    broker_id: int
    state: str
    generation: int | None
    protocol_type: str
    protocol: str
    members: int
    static_members: int
    empty_members: int
    lag_sum: int
    lag_max: int
    offset_commits: int | None
    offsets: tuple[OffsetRow, ...]
    offsets_left_out: int
    by_topic: Mapping[str, tuple[int, int]]
    topics: tuple[TopicRow, ...]
    status: Status
    counts: EventCounts
    group_type: str = CLASSIC


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """What one broker coordinates. by_state, consumer_groups: classic and consumer groups by state.

    coordinators: how many are `loading` and `active`. offset_commits: offsets that were committed since the start.
    """

    broker_id: int
    groups: int
    offsets: int
    by_state: Mapping[str, int]
    consumer_groups: Mapping[str, int]
    coordinators: Mapping[str, int]
    offset_commits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSnapshot:
    """All groups as of `at_ms`; `groups` holds the ones with most lag, then most members. `took_s`: the time it took on the loop.

    topics: names with their numbers of partitions. is_of_coordinators: with what coordinators alone know, unlike the snapshot of a watch.
    """

    at_ms: int = 0
    took_s: float = 0.0
    cluster_id: str = ""
    brokers: tuple[BrokerRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    groups_left_out: int = 0
    counts: EventCounts = field(default_factory=EventCounts)
    topics: tuple[tuple[str, int], ...] = ()
    is_of_coordinators: bool = True


class BrokerSums:
    """The sums over one broker's coordinators in one sample."""

    def __init__(self) -> None:
        self.offsets = 0
        self.by_state = {state.value: 0 for state in GroupState}
        self.consumer_groups = dict.fromkeys(CONSUMER_STATES, 0)
        self.coordinators = {CoordinatorStatus.LOADING.value: 0, CoordinatorStatus.ACTIVE.value: 0}

    def row(self, broker_id: int, offset_commits: int) -> BrokerRow:
        return BrokerRow(
            broker_id=broker_id,
            groups=sum(self.by_state.values()) + sum(self.consumer_groups.values()),
            offsets=self.offsets,
            by_state=self.by_state,
            consumer_groups=self.consumer_groups,
            coordinators=self.coordinators,
            offset_commits=offset_commits,
        )


class CommitCounts:
    """Counts the offsets committed on each broker since its start: a coordinator that is loaded again starts at 0, its broker does not."""

    def __init__(self) -> None:
        self._by_broker: dict[int, int] = {}
        self._last: dict[tuple[int, int], int] = {}

    def add(self, broker_id: int, partition: int, count: int) -> None:
        """Add what the coordinator of an offsets partition has counted since the last call; `count` is its own total."""
        last = self._last.get((broker_id, partition), 0)
        self._last[broker_id, partition] = count
        self._by_broker[broker_id] = self._by_broker.get(broker_id, 0) + (count - last if count >= last else count)

    def of(self, broker_id: int) -> int:
        return self._by_broker[broker_id]
