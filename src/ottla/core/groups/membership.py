"""Staying in a group and going: Heartbeat, LeaveGroup, and sessions that run out.

Joining is in join; what a lost member means for the others is decided in rebalance.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup, Member
from ottla.core.groups.commands import Heartbeat, LeaveGroup, LeavingMember
from ottla.core.groups.effects import HeartbeatResult, LeaveResult, LeftMember
from ottla.core.groups.events import Cause, Trigger, reason_or_default, silence_of, tell_trigger
from ottla.core.groups.identity import check_member
from ottla.core.groups.rebalance import complete_after_expiry, let_go, prepare_rebalance, start_or_complete
from ottla.core.groups.states import ANSWERS, GroupState, can_rebalance
from ottla.core.groups.step import Step

ADMIN_REASON = "member was removed by an admin"
POLL_TIMEOUT_REASON = "poll timeout has expired"
"""Java consumers and Connect workers say so when max.poll.interval.ms made them leave (S2.8, class 2)."""


@dataclass(frozen=True, slots=True)
class _Departure:
    """Someone who left; `member` None for an id that had not joined yet."""

    leaving: LeavingMember
    member: Member | None
    evidence: Mapping[str, int]


def heartbeat(step: Step, command: Heartbeat) -> None:
    """Answer a Heartbeat; one that is in order starts the member's session anew, also while the group rebalances."""
    group = step.group(command.group_id)
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif group.state is GroupState.DEAD:
        error = ANSWERS[GroupState.DEAD].heartbeat
    else:
        error = check_member(step, group, command.member_id, command.instance_id)
        if error is ErrorCode.NONE:
            if command.generation != group.generation:
                error = ErrorCode.ILLEGAL_GENERATION
            else:
                step.saw(group.members[command.member_id])
                error = ANSWERS[group.state].heartbeat
    step.reply(command.reply_to, HeartbeatResult(error=error))


def leave_group(step: Step, command: LeaveGroup) -> None:
    """Let members go, each answered for itself; then one round for all of them."""
    group = step.group(command.group_id)
    if group is None:
        lines = tuple(_line(leaving, ErrorCode.UNKNOWN_MEMBER_ID) for leaving in command.members)
        step.reply(command.reply_to, LeaveResult(error=ErrorCode.NONE, members=lines))
        return
    if group.state is GroupState.DEAD:
        step.reply(command.reply_to, LeaveResult(error=ANSWERS[GroupState.DEAD].leave))
        return
    departures: list[_Departure] = []
    lines = tuple(_line(leaving, _leave(step, group, leaving, departures)) for leaving in command.members)
    step.reply(command.reply_to, LeaveResult(error=ErrorCode.NONE, members=lines))
    if not departures or group.state is GroupState.EMPTY:
        return
    gone = ", ".join(line.member_id for line in lines if line.error is ErrorCode.NONE)
    reason = f"explicit `LeaveGroup` request for ({gone}) members."
    starts = can_rebalance(group.state)
    for at, departure in enumerate(departures):
        trigger = Trigger(
            cause=_cause_of_leave(departure.leaving),
            reason=reason,
            member=departure.member,
            member_id=departure.leaving.member_id,
            client_reason=departure.leaving.reason,
            evidence=departure.evidence,
        )
        tell_trigger(step, group, trigger, coalesced=at > 0 or not starts)
    start_or_complete(step, group, reason)


def expire_session(step: Step, group: ClassicGroup, member_id: str) -> None:
    """A session timer fired: give up the member, or the id that nobody joined with. Whoever is parked is alive."""
    if group.state is GroupState.DEAD:
        return
    if member_id in group.pending:
        step.log(f"Pending member {member_id} in group {group.group_id} has been removed after session timeout expiration.")
        group.remove(member_id)
        complete_after_expiry(step, group)
        return
    member = group.members.get(member_id)
    if member is None or member.counts_as_alive:
        return
    step.log(f"Member {member_id} in group {group.group_id} has failed, removing it from the group.")
    reason, evidence = f"removing member {member_id} on heartbeat expiration.", silence_of(step, member)
    let_go(step, group, member)
    tell_trigger(step, group, Trigger(cause=Cause.EXPIRE_HEARTBEAT, reason=reason, member=member, evidence=evidence))
    if can_rebalance(group.state):
        prepare_rebalance(step, group, reason)
    else:
        complete_after_expiry(step, group)


def _leave(step: Step, group: ClassicGroup, leaving: LeavingMember, departures: list[_Departure]) -> ErrorCode:
    member_id, prefix = leaving.member_id, f"[Group {group.group_id}]"
    said = f"has left group through explicit `LeaveGroup` request; client reason: {reason_or_default(leaving.reason)}"
    if not member_id:
        # An administrator removes whoever holds the instance id now.
        holder_id = None if leaving.instance_id is None else group.static_members.get(leaving.instance_id)
        if holder_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = holder_id
    elif member_id in group.pending:
        step.log(f"{prefix} Pending member {member_id} {said}")
        step.cancel(group.pending[member_id])
        group.remove(member_id)
        departures.append(_Departure(leaving, None, {}))
        return ErrorCode.NONE
    else:
        error = check_member(step, group, member_id, leaving.instance_id)
        if error is not ErrorCode.NONE:
            return error
    member = group.members[member_id]
    step.log(f"{prefix} Member {member_id} {said}")
    departures.append(_Departure(leaving, member, silence_of(step, member)))
    let_go(step, group, member)
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
