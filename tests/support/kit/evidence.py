"""Writes evidence about one group as one source would give it, for tests: each call is one line, at a time after the one before."""

from typing import Any

from ottla.groups.events import EventMember
from ottla.history.sources.evidence import Evidence, Kind, Source


class EvidenceLog:
    """The evidence of one source and clock. Times are milliseconds; `after_ms` is the time since the last line."""

    def __init__(
        self,
        source: Source = Source.BROKER_LOG,
        *,
        clock: str = "",
        group: str | None = "g",
        group_type: str = "classic",
        now_ms: int = 1_000_000,
    ) -> None:
        self.lines: list[Evidence] = []
        self.now_ms = now_ms
        self._head: dict[str, Any] = {"source": source, "clock": clock or str(source), "group": group, "group_type": group_type}

    def add(self, kind: Kind, after_ms: int = 0, **fields: Any) -> Evidence:
        """One line."""
        self.now_ms += after_ms
        self.lines.append(Evidence(at_ms=self.now_ms, kind=kind, **(self._head | fields)))
        return self.lines[-1]

    def rebalance(
        self, generation: int, *, count: int | None = None, members: tuple[EventMember, ...] | None = None, **fields: Any
    ) -> None:
        """A generation is formed and its assignment stored."""
        count = len(members) if members is not None else count
        self.add(Kind.JOIN_COMPLETED, 100, generation=generation, member_count=count)
        self.add(Kind.SYNC_COMPLETED, 20, generation=generation, member_count=count, members=members, **fields)

    def join(self, member_id: str, old_generation: int, *, after_ms: int = 5_000, **fields: Any) -> None:
        """A new member triggers a rebalance."""
        reason = f"Adding new member {member_id} with group instance id null; client reason: not provided"
        self.add(Kind.TRIGGER, after_ms, generation=old_generation, trigger="JOIN_NEW", member_id=member_id, reason=reason, **fields)

    def leave(
        self, member_id: str, old_generation: int, *, after_ms: int = 5_000, client_reason: str = "not provided", **fields: Any
    ) -> None:
        """A member leaves, which triggers a rebalance."""
        self.add(Kind.MEMBER_LEFT, after_ms, member_id=member_id, client_reason=client_reason, **fields)
        reason = f"explicit `LeaveGroup` request for ({member_id}) members."
        self.add(Kind.TRIGGER, generation=old_generation, member_id=member_id, reason=reason)

    def expire(self, member_id: str, old_generation: int, *, after_ms: int = 5_000, **fields: Any) -> None:
        """A member's session expires."""
        self.add(Kind.MEMBER_REMOVED, after_ms, member_id=member_id, trigger="EXPIRE_HEARTBEAT", **fields)
        reason = f"removing member {member_id} on heartbeat expiration."
        self.add(Kind.TRIGGER, generation=old_generation, trigger="EXPIRE_HEARTBEAT", member_id=member_id, reason=reason)

    def rejoin(
        self, member_id: str, old_generation: int, *, after_ms: int = 20_000, client_reason: str = "not provided", **fields: Any
    ) -> None:
        """The leader joins again, which triggers a rebalance."""
        reason = f"Leader {member_id} re-joining group during Stable; client reason: {client_reason}"
        named = {"member_id": member_id, "client_reason": client_reason, "reason": reason}
        self.add(Kind.TRIGGER, after_ms, generation=old_generation, **named, **fields)


def member(
    name: str, *partitions: int, member_id: str | None = None, instance_id: str | None = None, host: str = "/10.0.0.1"
) -> EventMember:
    """A member with client id `name` that owns these partitions of topic t; session 6 s, poll interval 8 s."""
    return EventMember(
        member_id=member_id or f"{name}-id",
        instance_id=instance_id,
        client_id=name,
        client_host=host,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=8_000,
        assignment={"t": partitions} if partitions else {},
    )
