"""A member of a classic group: its identity, timeouts, protocols, assignment and parked requests."""

from collections.abc import Iterable

from ottla.core.groups.log.records import MemberValue
from ottla.core.groups.timers import SESSION, Timer

Protocols = tuple[tuple[str, bytes], ...]
"""Protocol names with the member's metadata for each, in the order of its preference."""


class Member:
    """One member. `awaiting_join` and `awaiting_sync` are the `reply_to` of its parked request, None when none is parked."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "fenced_id",
        "instance_id",
        "is_loaded",
        "is_new",
        "last_seen_ms",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        now_ms: int,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.awaiting_join: int | None = None
        self.awaiting_sync: int | None = None
        self.is_new = False
        self.is_loaded = False
        """Restored from the group's record, which contains one of its protocols; until it joins again."""
        self.last_seen_ms = now_ms
        """Time of its last request, of any kind, by the timers' clock."""
        self.session = Timer(SESSION, group_id, member_id)
        self.fenced_id: str | None = None
        """The member id that was last fenced by this static member, so that each is reported once."""

    @property
    def counts_as_alive(self) -> bool:
        """Whether an expired session does not count, since a parked member sends no heartbeats; a new member's session always counts."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """The metadata it sent for `protocol`; empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that it prefers: the first in its list."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} supports no candidate")


def member_from_value(group_id: str, protocol: str | None, value: MemberValue, timer_ms: int) -> Member:
    """A member as the group's record contains it, after a restart."""
    member = Member(
        group_id,
        value.member_id,
        instance_id=value.instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        session_timeout_ms=value.session_timeout_ms,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        protocols=((protocol or "", value.subscription),),
        now_ms=timer_ms,
    )
    member.assignment = value.assignment
    member.is_loaded = True
    return member
