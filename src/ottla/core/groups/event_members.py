"""The members that a group event tells of, made when somebody looks: a group of thousands forms generations without making them.

It holds what the members were when it was told, and reads a plan's bytes only as far as they can be read.
"""

from collections.abc import Mapping, Sequence

from ottla.core.errors import PeerError
from ottla.core.groups.on_demand import OnDemand
from ottla.core.groups.subscription import CONSUMER_PROTOCOL_TYPE, parse_assignment
from ottla.core.model import EventMember

Row = tuple[str, str | None, str, str, int, int, bytes]
"""Member id, instance id, client id and host, session and rebalance timeout in ms, the bytes of the assignment (none: no plan yet)."""


class EventMembers(OnDemand[EventMember]):
    """Members as rows, each made once; assignments of another protocol than the consumers' show nothing."""

    __slots__ = ("_made", "protocol_type", "rows")

    def __init__(self, protocol_type: str | None, rows: Sequence[Row]) -> None:
        self.protocol_type = protocol_type
        self.rows = rows
        self._made: tuple[EventMember, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def _make(self) -> tuple[EventMember, ...]:
        if self._made is None:
            self._made = self._all()
        return self._made

    def _all(self) -> tuple[EventMember, ...]:
        return tuple(
            EventMember(
                member_id=member_id,
                instance_id=instance_id,
                client_id=client_id,
                client_host=client_host,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                assignment=readable_assignment(self.protocol_type, assignment),
            )
            for member_id, instance_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms, assignment in self.rows
        )


def readable_assignment(protocol_type: str | None, assignment: bytes) -> Mapping[str, tuple[int, ...]]:
    """Partitions by topic; empty where the bytes belong to another protocol or to none."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return {}
    try:
        return parse_assignment(assignment)
    except PeerError:
        return {}
