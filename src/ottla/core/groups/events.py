"""What a coordinator tells the world about its groups: cause codes, Kafka's reason texts, and the events made from them.

One event per thing that happens, also where Kafka lets it pass in silence because a round is already under way. It tells; it
never changes a group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ottla.core.groups.classic_group import ClassicGroup, Member
from ottla.core.groups.event_members import EventMembers
from ottla.core.groups.records import MemberValue
from ottla.core.groups.states import GroupState, can_rebalance
from ottla.core.groups.step import Step
from ottla.core.model import EventMember, GroupEvent

NO_REASON = "not provided"


class Cause(StrEnum):
    """Why a group rebalances, or why it did not have to (docs/rebalances.md)."""

    JOIN_NEW = "JOIN_NEW"
    LEAVE = "LEAVE"
    POLL_TIMEOUT = "POLL_TIMEOUT"
    ADMIN_REMOVE = "ADMIN_REMOVE"
    EXPIRE_HEARTBEAT = "EXPIRE_HEARTBEAT"
    JOIN_TIMEOUT = "JOIN_TIMEOUT"
    SYNC_TIMEOUT = "SYNC_TIMEOUT"
    LEADER_REJOIN = "LEADER_REJOIN"
    METADATA_UPDATE = "METADATA_UPDATE"
    ASSIGNOR_CHANGE = "ASSIGNOR_CHANGE"
    STATIC_REJOIN = "STATIC_REJOIN"
    STATIC_FENCED = "STATIC_FENCED"
    STORE_ERROR = "STORE_ERROR"
    CAPACITY = "CAPACITY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Something that asks for a rebalance. `reason` is Kafka's text, `client_reason` what the client itself said (KIP-800).

    `member_id` stands where there is no `member`: an id that was handed out and never joined.
    """

    cause: Cause
    reason: str
    member: Member | None = None
    member_id: str | None = None
    client_reason: str | None = None
    evidence: Mapping[str, int] | None = None


def reason_or_default(client_reason: str | None) -> str:
    """The client's reason as Kafka prints it."""
    return client_reason or NO_REASON


def silence_of(step: Step, member: Member) -> dict[str, int]:
    """The evidence that every lost member leaves: how long it had been silent, and how long it may be."""
    return {
        "last_heartbeat_age_ms": step.timer_ms - member.last_seen_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


def tell_trigger(step: Step, group: ClassicGroup, trigger: Trigger, *, coalesced: bool | None = None) -> None:
    """Publish a trigger; unless said otherwise it is coalesced when a round is already under way."""
    if coalesced is None:
        coalesced = not can_rebalance(group.state)
    # Where a round is under way, or one of the same request has just been told to start one, the state is no news.
    state_from = GroupState.PREPARING_REBALANCE if coalesced else group.state
    member = trigger.member
    step.events.append(
        GroupEvent(
            at_ms=step.now_ms,
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


def tell_change(
    step: Step,
    group: ClassicGroup,
    kind: str,
    state_from: GroupState,
    state_to: GroupState,
    *,
    members: Sequence[EventMember] = (),
    evidence: Mapping[str, int] | None = None,
    reason: str | None = None,
) -> None:
    """Publish what became of a group; `kind` is one of GroupEvent's."""
    step.events.append(
        GroupEvent(
            at_ms=step.now_ms,
            group=group.group_id,
            kind=kind,
            generation=group.generation,
            state_from=state_from.value,
            state_to=state_to.value,
            reason=reason,
            protocol=group.protocol,
            leader=group.leader,
            members=members,
            evidence=evidence or {},
        )
    )


def tell_static(
    step: Step,
    group: ClassicGroup,
    kind: str,
    cause: Cause,
    member: Member,
    *,
    reason: str,
    evidence: Mapping[str, int],
    members: Sequence[EventMember] = (),
) -> None:
    """Publish what happened to a static member without a rebalance: `static_replaced` or `static_fenced`."""
    step.events.append(
        GroupEvent(
            at_ms=step.now_ms,
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
    """All members of a new generation, before anybody has a plan."""
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
    """All members with their part of the plan, as far as its bytes can be read: only the consumer protocol is known here."""
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
