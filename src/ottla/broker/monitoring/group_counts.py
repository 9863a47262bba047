"""Counts group events: rebalances by cause, how they ended and how long they took, for each group and for all of them.

Every group event is counted, on the broker's loop. The number of groups with counts of their own is bounded; the sums are complete.
"""

from collections import OrderedDict
from typing import Final

from ottla.broker.monitoring.group_snapshot import Durations, EventCounts
from ottla.groups.events import GroupEvent

GROUPS_COUNTED_MAX: Final = 50_000
"""Beyond them the group with the oldest last event is forgotten; with its next event it counts from 0."""

UNKNOWN: Final = "UNKNOWN"
"""The cause of a rebalance that had begun when the broker began to count."""


class _Counted:
    """One group: its counts, when its rebalance began (None: there is none), and whether a generation waits for its assignment."""

    __slots__ = ("awaits_assignment", "began_at_ms", "counts")

    def __init__(self) -> None:
        self.counts = EventCounts()
        self.began_at_ms: int | None = None
        self.awaits_assignment = False


class GroupCounts:
    """`note` takes events in the order in which they happened."""

    def __init__(self) -> None:
        self.all = EventCounts()
        self._groups: OrderedDict[str, _Counted] = OrderedDict()

    def of(self, group_id: str) -> EventCounts:
        """The counts of one group, which later events change."""
        counted = self._groups.get(group_id)
        return EventCounts() if counted is None else counted.counts

    def note(self, event: GroupEvent) -> None:
        """Count one event."""
        counted = self._groups.get(event.group)
        if counted is None:
            counted = self._groups[event.group] = _Counted()
            if len(self._groups) > GROUPS_COUNTED_MAX:
                self._groups.popitem(last=False)
        else:
            self._groups.move_to_end(event.group)
        for counts in (counted.counts, self.all):
            self._add(counts, counted, event)
        self._follow(counted, event)
        if event.kind == "deleted":
            del self._groups[event.group]

    def _add(self, counts: EventCounts, counted: _Counted, event: GroupEvent) -> None:
        kind = event.kind
        if kind == "trigger":
            cause = event.trigger or UNKNOWN
            by_cause = counts.coalesced if event.coalesced else counts.rebalances
            by_cause[cause] = by_cause.get(cause, 0) + 1
            if not event.coalesced and counted.awaits_assignment:
                _end(counts, "superseded")
        elif kind in ("join_completed", "emptied"):
            if counted.began_at_ms is None:
                counts.rebalances[UNKNOWN] = counts.rebalances.get(UNKNOWN, 0) + 1
            if kind == "emptied":
                _end(counts, "emptied")
            elif counted.began_at_ms is not None:
                _add_duration(counts, "join", event.at_ms - counted.began_at_ms)
        elif kind == "sync_completed":
            _add_duration(counts, "sync", event.evidence.get("sync_phase_ms", 0))
            _end(counts, "completed")
        elif kind in ("loaded", "deleted"):
            if counted.began_at_ms is not None:
                _end(counts, "interrupted")
        elif kind == "static_replaced":
            counts.static_replaced += 1
        elif kind == "static_fenced":
            counts.static_fenced += 1
        elif kind == "offsets_expired":
            counts.offsets_expired += event.evidence.get("offset_count", 0)

    @staticmethod
    def _follow(counted: _Counted, event: GroupEvent) -> None:
        if event.kind == "trigger":
            if not event.coalesced or counted.began_at_ms is None:
                counted.began_at_ms = event.at_ms
                counted.awaits_assignment = False
        elif event.kind == "join_completed":
            counted.awaits_assignment = True
            if counted.began_at_ms is None:
                counted.began_at_ms = event.at_ms
        elif event.kind in ("sync_completed", "emptied", "loaded", "deleted"):
            counted.began_at_ms, counted.awaits_assignment = None, False


def _end(counts: EventCounts, outcome: str) -> None:
    counts.outcomes[outcome] = counts.outcomes.get(outcome, 0) + 1


def _add_duration(counts: EventCounts, phase: str, duration_ms: int) -> None:
    counts.durations[phase] = counts.durations.get(phase, Durations()).plus(duration_ms / 1000)
