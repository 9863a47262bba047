"""LeaveGroup: members leave, or an administrator removes them; then one rebalance for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.events import Trigger, emit_trigger, liveness_evidence, port_evidence
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.identity import check_member, find_group
from ottla.core.groups.classic.member import Member
from ottla.core.groups.classic.rebalance import remove_member, start_or_complete
from ottla.core.groups.classic.states import ANSWERS, GroupState, can_rebalance
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import EvictMember, LeaveGroup, LeavingMember
from ottla.core.groups.effects import LeaveResult, LeftMember
from ottla.core.groups.events import Cause, reason_or_default

ADMIN_REASON = "member was removed by an admin"
POLL_TIMEOUT_REASON = "poll timeout has expired"
"""The reason that Java consumers and Connect workers send when they exceed max.poll.interval.ms."""


@dataclass(frozen=True, slots=True)
class _Departure:
    """A member that left; `member` is None for an id that had not joined yet."""

    leaving: LeavingMember
    cause: Cause
    member: Member | None
    evidence: Mapping[str, int]


def leave_group(context: CommandContext, command: LeaveGroup) -> None:
    """Remove members, each with its own error code; then one rebalance for all of them."""
    group = find_group(context, command.group_id)
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
    group = find_group(context, command.group_id)
    if group is None or group.state is GroupState.DEAD:
        return
    departures: list[_Departure] = []
    leaving = LeavingMember(member_id=command.member_id, instance_id=None, reason=command.reason)
    if command.member_id:
        _leave(context, group, leaving, departures)
    evicted = [replace(each, cause=Cause.ADMIN_REMOVE) if each.cause is Cause.LEAVE else each for each in departures]
    if evicted and group.state is not GroupState.EMPTY:
        _rebalance_without(context, group, evicted, {})


def _rebalance_without(context: CommandContext, group: ClassicGroup, departures: Sequence[_Departure], port: Mapping[str, int]) -> None:
    gone = ", ".join(departure.leaving.member_id for departure in departures)
    reason = f"explicit `LeaveGroup` request for ({gone}) members."
    starts = can_rebalance(group.state)
    for at, departure in enumerate(departures):
        trigger = Trigger(
            cause=departure.cause,
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
        departures.append(_Departure(leaving, _cause_of_leave(leaving), None, {}))
        return ErrorCode.NONE
    else:
        error = check_member(context, group, member_id, leaving.instance_id)
        if error is not ErrorCode.NONE:
            return error
    member = group.members[member_id]
    context.log(f"{prefix} Member {member_id} {text}")
    departures.append(_Departure(leaving, _cause_of_leave(leaving), member, liveness_evidence(context, member)))
    remove_member(context, group, member)
    return ErrorCode.NONE


def _line(leaving: LeavingMember, error: ErrorCode) -> LeftMember:
    return LeftMember(member_id=leaving.member_id, instance_id=leaving.instance_id, error=error)


def _cause_of_leave(leaving: LeavingMember) -> Cause:
    reason = leaving.reason or ""
    if POLL_TIMEOUT_REASON in reason:
        return Cause.POLL_TIMEOUT
    if not leaving.member_id or reason == ADMIN_REASON:
        return Cause.ADMIN_REMOVE
    return Cause.LEAVE
