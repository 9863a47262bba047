"""Counts the partitions that stopped in each rebalance, and those that moved: the cost of a rebalance protocol.

With an eager protocol every member revokes all its partitions before it joins, so all of them stop; with a cooperative one only those stop
that leave their owner. The assignor's name says which protocol it uses; for other names the count is None.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.core.diagnosis.ownership import Owners
from ottla.core.model import EventMember, GroupEvent

EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
COOPERATIVE: Final = frozenset({"cooperative-sticky"})


class RebalanceImpact(NamedTuple):
    """One completed rebalance: partitions that stopped (None: the protocol is unknown), and those that have another owner now."""

    group: str
    generation: int
    protocol: str | None
    stopped: int | None
    moved: int


def rebalance_impacts(events: Iterable[GroupEvent]) -> list[RebalanceImpact]:
    """The impact of each stored assignment, in the order of the events. Partitions owned before the first event are not known."""
    assigned: dict[str, frozenset[tuple[str, str, int]]] = {}
    owners: dict[str, Owners] = {}
    found = []
    for event in events:
        if event.kind not in ("sync_completed", "loaded", "emptied"):
            continue
        before, after = assigned.get(event.group, frozenset()), _assigned(event.members)
        assigned[event.group] = after
        moved = owners.setdefault(event.group, Owners()).update(event.members).moved
        if event.kind == "sync_completed":
            stopped = len(before) if event.protocol in EAGER else len(before - after) if event.protocol in COOPERATIVE else None
            found.append(RebalanceImpact(event.group, event.generation, event.protocol, stopped, moved))
    return found


def _assigned(members: Iterable[EventMember]) -> frozenset[tuple[str, str, int]]:
    return frozenset(
        (member.instance_id or member.member_id, topic, partition)
        for member in members
        for topic, partitions in member.assignment.items()
        for partition in partitions
    )
