"""The members that a group event lists, created on demand: a large group completes a rebalance without creating them.

They are the members at the time of the event. An assignment that cannot be decoded is shown as empty.
"""

from collections.abc import Mapping, Sequence

from ottla.core.errors import PeerError
from ottla.core.groups.lazy_sequence import LazySequence
from ottla.core.model import EventMember
from ottla.core.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, parse_assignment

MemberRow = tuple[str, str | None, str, str, int, int, bytes]
"""Member id, instance id, client id and host, session and rebalance timeout in ms, assignment bytes (empty before SyncGroup)."""


class EventMembers(LazySequence[EventMember]):
    """Members from rows, created at most once; assignments of other protocols than the consumer protocol are empty."""

    __slots__ = ("_items", "protocol_type", "rows")

    def __init__(self, protocol_type: str | None, rows: Sequence[MemberRow]) -> None:
        self.protocol_type = protocol_type
        self.rows = rows
        self._items: tuple[EventMember, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def _make(self) -> tuple[EventMember, ...]:
        if self._items is None:
            self._items = self._create()
        return self._items

    def _create(self) -> tuple[EventMember, ...]:
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
    """Partitions by topic; empty where the bytes are not a consumer's assignment."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return {}
    try:
        return parse_assignment(assignment)
    except PeerError:
        return {}
