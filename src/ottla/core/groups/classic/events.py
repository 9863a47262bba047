"""The events of a classic group: triggers of a rebalance, changes of static members, and the members that an event lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.member import Member
from ottla.core.groups.classic.states import GroupState, can_rebalance
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.event_members import EventMembers
from ottla.core.groups.events import Cause
from ottla.core.groups.log.records import MemberValue
from ottla.core.model import EventMember, GroupEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A reason to rebalance. `reason` is Kafka's text, `client_reason` the client's own (KIP-800).

    `member_id` is set where there is no `member`: an id that was handed out and never joined.
    """

    cause: Cause
    reason: str
    member: Member | None = None
    member_id: str | None = None
    client_reason: str | None = None
    evidence: Mapping[str, int] | None = None


def liveness_evidence(context: CommandContext, member: Member) -> dict[str, int]:
    """The evidence about a lost member: how long it was silent, and how long it may be."""
    return {
        "last_heartbeat_age_ms": context.timer_ms - member.last_seen_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


def port_evidence(client_port: int) -> dict[str, int]:
    """The port of the request's connection: a member that leaves and joins again from the same port did not close in between."""
    return {"client_port": client_port} if client_port else {}


def emit_trigger(context: CommandContext, group: ClassicGroup, trigger: Trigger, *, coalesced: bool | None = None) -> None:
    """Publish a trigger; by default it is coalesced when a rebalance is already in progress."""
    if coalesced is None:
        coalesced = not can_rebalance(group.state)
    # A coalesced trigger belongs to a rebalance that has started, or that an earlier trigger of the same request starts.
    state_from = GroupState.PREPARING_REBALANCE if coalesced else group.state
    member = trigger.member
    context.events.append(
        GroupEvent(
            at_ms=context.now_ms,
            group=group.group_id,
            kind="trigger",
            generation=group.generation,
            state_from=state_from.value,
            state_to=GroupState.PREPARING_REBALANCE.value,
            trigger=trigger.cause.value,
            coalesced=coalesced,
            reason=trigger.reason,
            member_id=trigger.member_id if member is None else member.member_id,
            instance_id=None if member is None else member.instance_id,
            client_id=None if member is None else member.client_id,
            client_host=None if member is None else member.client_host,
            client_reason=trigger.client_reason,
            protocol=group.protocol,
            leader=group.leader,
            evidence=trigger.evidence or {},
        )
    )


def emit_static_change(
    context: CommandContext,
    group: ClassicGroup,
    kind: str,
    cause: Cause,
    member: Member,
    *,
    reason: str,
    evidence: Mapping[str, int],
    members: Sequence[EventMember] = (),
) -> None:
    """Publish a change of a static member without a rebalance: `static_replaced` or `static_fenced`."""
    context.events.append(
        GroupEvent(
            at_ms=context.now_ms,
            group=group.group_id,
            kind=kind,
            generation=group.generation,
            state_from=group.state.value,
            state_to=group.state.value,
            trigger=cause.value,
            reason=reason,
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            protocol=group.protocol,
            leader=group.leader,
            members=members,
            evidence=evidence,
        )
    )


def joined_members(group: ClassicGroup) -> Sequence[EventMember]:
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
        for member in group.members.values()
    ]
    return EventMembers(None, rows)


def assigned_members(protocol_type: str | None, members: tuple[MemberValue, ...]) -> Sequence[EventMember]:
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
