"""Members that go: by LeaveGroup, by an administrator, or because their session ended; then one rebalance for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ottla.groups.classic.group import ClassicGroup, find_group
from ottla.groups.classic.member import Member, port_evidence
from ottla.groups.classic.rebalance import (
    Trigger,
    complete_after_expiry,
    emit_trigger,
    prepare_rebalance,
    remove_member,
    start_or_complete,
)
from ottla.groups.classic.states import ANSWERS, GroupState, can_rebalance
from ottla.groups.commands import EvictMember, ExpireMember, LeaveGroup, LeaveResult, LeavingMember, LeftMember
from ottla.groups.events import TriggerCode, reason_or_default
from ottla.groups.group import CommandContext
from ottla.protocol.errors import ErrorCode

ADMIN_REASON = "member was removed by an admin"
POLL_TIMEOUT_REASON = "poll timeout has expired"
"""The reason that Java consumers and Connect workers send when they exceed max.poll.interval.ms."""


@dataclass(frozen=True, slots=True)
class _Departure:
    """A member that left; `member` is None for an id that had not joined yet."""

    leaving: LeavingMember
    code: TriggerCode
    member: Member | None
    evidence: Mapping[str, int]


def leave_group(context: CommandContext, command: LeaveGroup) -> None:
    """Remove members, each with its own error code; then one rebalance for all of them."""
    group = find_group(context.state, command.group_id)
    if group is None:
        lines = tuple(_line(leaving, ErrorCode.UNKNOWN_MEMBER_ID) for leaving in command.members)
        context.reply(command.reply_to, LeaveResult(error=ErrorCode.NONE, members=lines))
        return
    if group.state is GroupState.DEAD:
        context.reply(command.reply_to, LeaveResult(error=ANSWERS[GroupState.DEAD].leave))
        return
    departures: list[_Departure] = []
    lines = tuple(_line(leaving, _leave(context, group, leaving, departures)) for leaving in command.members)
    context.reply(command.reply_to, LeaveResult(error=ErrorCode.NONE, members=lines))
    if departures and group.state is not GroupState.EMPTY:
        _rebalance_without(context, group, departures, port_evidence(command.client_port))


def evict_member(context: CommandContext, command: EvictMember) -> None:
    """Remove one member; its client learns it from its next request (UNKNOWN_MEMBER_ID). Without effects if there is no such member."""
    group = find_group(context.state, command.group_id)
    if group is None or group.state is GroupState.DEAD:
        return
    departures: list[_Departure] = []
    leaving = LeavingMember(member_id=command.member_id, instance_id=None, reason=command.reason)
    if command.member_id:
        _leave(context, group, leaving, departures)
    evicted = [
        replace(departure, code=TriggerCode.ADMIN_REMOVE) if departure.code is TriggerCode.LEAVE else departure for departure in departures
    ]
    if evicted and group.state is not GroupState.EMPTY:
        _rebalance_without(context, group, evicted, {})


def _rebalance_without(context: CommandContext, group: ClassicGroup, departures: Sequence[_Departure], port: Mapping[str, int]) -> None:
    gone = ", ".join(departure.leaving.member_id for departure in departures)
    reason = f"explicit `LeaveGroup` request for ({gone}) members."
    starts = can_rebalance(group.state)
    for at, departure in enumerate(departures):
        trigger = Trigger(
            code=departure.code,
            reason=reason,
            member=departure.member,
            member_id=departure.leaving.member_id,
            client_reason=departure.leaving.reason,
            evidence={**departure.evidence, **port},
        )
        emit_trigger(context, group, trigger, coalesced=at > 0 or not starts)
    start_or_complete(context, group, reason)


def _leave(context: CommandContext, group: ClassicGroup, leaving: LeavingMember, departures: list[_Departure]) -> ErrorCode:
    member_id, prefix = leaving.member_id, f"[Group {group.group_id}]"
    text = f"has left group through explicit `LeaveGroup` request; client reason: {reason_or_default(leaving.reason)}"
    if not member_id:
        # An administrator removes the present holder of the instance id.
        holder_id = None if leaving.instance_id is None else group.static_members.get(leaving.instance_id)
        if holder_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = holder_id
    elif member_id in group.pending:
        context.log(f"{prefix} Pending member {member_id} {text}")
        context.cancel(group.pending[member_id])
        group.remove(member_id)
        departures.append(_Departure(leaving, code_of_leave(leaving), None, {}))
        return ErrorCode.NONE
    else:
        error = group.check_member(context, member_id, leaving.instance_id)
        if error is not ErrorCode.NONE:
            return error
    member = group.members[member_id]
    context.log(f"{prefix} Member {member_id} {text}")
    departures.append(_Departure(leaving, code_of_leave(leaving), member, member.liveness(context.timer_ms)))
    remove_member(context, group, member)
    return ErrorCode.NONE


def _line(leaving: LeavingMember, error: ErrorCode) -> LeftMember:
    return LeftMember(member_id=leaving.member_id, instance_id=leaving.instance_id, error=error)


def code_of_leave(leaving: LeavingMember) -> TriggerCode:
    """Why a member leaves by LeaveGroup."""
    reason = leaving.reason or ""
    if POLL_TIMEOUT_REASON in reason:
        return TriggerCode.POLL_TIMEOUT
    if not leaving.member_id or reason == ADMIN_REASON:
        return TriggerCode.ADMIN_REMOVE
    return TriggerCode.LEAVE


def expire_member(context: CommandContext, command: ExpireMember) -> None:
    """End a session before its time. Without effects if there is no such member or id, or if a request of it is parked."""
    group = find_group(context.state, command.group_id)
    if group is None:
        return
    pending = group.pending.get(command.member_id)
    if pending is not None:
        context.cancel(pending)
    expire_session(context, group.group_id, command.member_id)


def expire_session(context: CommandContext, group_id: str, member_id: str) -> None:
    """Handle a session timer: remove the member, or the id that never joined. A member with a parked request stays."""
    group = find_group(context.state, group_id)
    assert group is not None, f"a session of {group_id} is running, and the group was removed"
    if group.state is GroupState.DEAD:
        return
    if member_id in group.pending:
        context.log(f"Pending member {member_id} in group {group.group_id} has been removed after session timeout expiration.")
        group.remove(member_id)
        complete_after_expiry(context, group)
        return
    member = group.members.get(member_id)
    if member is None or member.counts_as_alive:
        return
    context.log(f"Member {member_id} in group {group.group_id} has failed, removing it from the group.")
    reason, evidence = f"removing member {member_id} on heartbeat expiration.", member.liveness(context.timer_ms)
    remove_member(context, group, member)
    emit_trigger(context, group, Trigger(code=TriggerCode.EXPIRE_HEARTBEAT, reason=reason, member=member, evidence=evidence))
    if can_rebalance(group.state):
        prepare_rebalance(context, group, reason)
    else:
        complete_after_expiry(context, group)
