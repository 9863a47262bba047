"""A member of a classic group: its identity, timeouts, protocols, assignment and parked requests; what records and events show of it."""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.coordinator.timers import Timer
from ottla.groups.events import EventMember, EventMembers, readable_assignment
from ottla.groups.group import CommandContext
from ottla.groups.snapshots import MemberSnapshot
from ottla.protocol.coordinator_records import MemberValue

SESSION: Final = "session"
"""The timer of a member, or of an id that was handed out and has not joined: it is removed."""

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

    def value(self, protocol: str | None, assignment: bytes) -> MemberValue:
        """The member as the group's record contains it."""
        return MemberValue(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    def liveness(self, timer_ms: int) -> dict[str, int]:
        """The evidence about a lost member: how long it was silent, and how long it may be."""
        return {
            "last_heartbeat_age_ms": timer_ms - self.last_seen_ms,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
        }

    def restart_session(self, context: CommandContext) -> None:
        """Record that the member is alive and restart its session timeout."""
        self.last_seen_ms = context.timer_ms
        context.arm(self.session, self.session_timeout_ms)

    def snapshot(self, protocol_type: str | None) -> MemberSnapshot:
        """The member as it is now."""
        parked_in = "JoinGroup" if self.awaiting_join is not None else "SyncGroup" if self.awaiting_sync is not None else None
        return MemberSnapshot(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=tuple(name for name, _ in self.protocols),
            assignment=self.assignment,
            assigned=readable_assignment(protocol_type, self.assignment),
            parked_in=parked_in,
            is_new=self.is_new,
            last_seen_ms=self.last_seen_ms,
            session_deadline_ms=self.session.at_ms,
        )

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


def port_evidence(client_port: int) -> dict[str, int]:
    """The port of the request's connection: a member that leaves and joins again from the same port did not close in between."""
    return {"client_port": client_port} if client_port else {}


def joined_members(members: Iterable[Member]) -> Sequence[EventMember]:
    """All members of a new generation, before its assignment exists."""
    rows = [
        (
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            b"",
        )
        for member in members
    ]
    return EventMembers(None, rows)


def assigned_members(protocol_type: str | None, members: Iterable[MemberValue]) -> Sequence[EventMember]:
    """All members with their assignments, which are decoded for the consumer protocol only."""
    rows = [
        (
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.assignment,
        )
        for member in members
    ]
    return EventMembers(protocol_type, rows)
