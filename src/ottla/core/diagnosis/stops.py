"""How many partitions stood still in each rebalance, and how many moved: what a protocol costs (S2.7).

With an eager protocol every member gives up everything before it joins, so all that was owned stops; with a cooperative one only what
leaves its owner does. Which a protocol is, its name tells; of protocols with other names nothing is said.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.core.diagnosis.ownership import Owners
from ottla.core.model import EventMember, GroupEvent

EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
COOPERATIVE: Final = frozenset({"cooperative-sticky"})


class Stops(NamedTuple):
    """One completed rebalance: partitions that stood still (None: the protocol is unknown), and those that have another owner now."""

    group: str
    generation: int
    protocol: str | None
    stopped: int | None
    moved: int


def stops(events: Iterable[GroupEvent]) -> list[Stops]:
    """One for each stored plan, in the order of the events; what was owned before the first event is unknown and stops nothing."""
    plans: dict[str, frozenset[tuple[str, str, int]]] = {}
    owners: dict[str, Owners] = {}
    found = []
    for event in events:
        if event.kind not in ("sync_completed", "loaded", "emptied"):
            continue
        before, plan = plans.get(event.group, frozenset()), _plan(event.members)
        plans[event.group] = plan
        moved = owners.setdefault(event.group, Owners()).take(event.members).moved
        if event.kind == "sync_completed":
            stopped = len(before) if event.protocol in EAGER else len(before - plan) if event.protocol in COOPERATIVE else None
            found.append(Stops(event.group, event.generation, event.protocol, stopped, moved))
    return found


def _plan(members: Iterable[EventMember]) -> frozenset[tuple[str, str, int]]:
    return frozenset(
        (member.instance_id or member.member_id, topic, partition)
        for member in members
        for topic, partitions in member.assignment.items()
        for partition in partitions
    )
