"""SyncGroup: the leader sends the assignment, and every member fetches its part of it. Heartbeat: a member says that it is alive.

The assignment takes effect when its record is replayed; a failed append is handled in `records`.
"""

from ottla.groups.classic.group import ClassicGroup, Staged, find_group
from ottla.groups.classic.member import Member, assigned_members
from ottla.groups.classic.rebalance import Trigger, emit_trigger, remove_member, start_or_complete
from ottla.groups.classic.states import ANSWERS, PARK, GroupState
from ottla.groups.commands import Heartbeat, HeartbeatResult, SyncGroup, SyncResult
from ottla.groups.events import TriggerCode
from ottla.groups.group import CommandContext
from ottla.protocol.errors import ErrorCode

EMPTY_ASSIGNMENT_WARNING = "Sending empty assignment to member"
"""The start of Kafka's warning that a stored assignment has no bytes for a member."""


def sync_group(context: CommandContext, command: SyncGroup) -> None:
    """Answer a SyncGroup, or park it until the leader's assignment is stored. The order of the checks is Kafka's."""
    group = find_group(context.state, command.group_id)
    if group is None:
        context.reply(command.reply_to, SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
        return
    error = _refusal(context, group, command)
    if error is not ErrorCode.NONE:
        context.reply(command.reply_to, SyncResult(error=error))
        return
    member = group.members[command.member_id]
    _record_sync(context, group, member)
    if group.state is GroupState.STABLE:
        member.restart_session(context)
        context.reply(command.reply_to, _sync_result(group, member.assignment))
        return
    superseded, member.awaiting_sync = member.awaiting_sync, command.reply_to
    member.last_seen_ms = context.timer_ms
    if superseded is not None:
        context.reply(superseded, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
    if group.leader == member.member_id:
        _store_assignments(context, group, member, dict(command.assignments))


def expire_sync(context: CommandContext, group_id: str) -> None:
    """Handle the sync timer: remove the members of this generation that have not sent SyncGroup."""
    group = find_group(context.state, group_id)
    assert group is not None, f"the sync timer of {group_id} is armed, and the group was removed"
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
        return
    reason = f"Removing [{', '.join(group.pending_sync)}] on pending sync request expiration"
    for at, member_id in enumerate([*group.pending_sync]):
        member = group.members.get(member_id)  # None for the old id of a static member that was replaced before it sent SyncGroup
        evidence = None if member is None else member.liveness(context.timer_ms)
        trigger = Trigger(code=TriggerCode.SYNC_TIMEOUT, reason=reason, member=member, member_id=member_id, evidence=evidence)
        emit_trigger(context, group, trigger, coalesced=at > 0)
        if member is not None:
            remove_member(context, group, member)
    start_or_complete(context, group, reason)


def _refusal(context: CommandContext, group: ClassicGroup, command: SyncGroup) -> ErrorCode:
    answer = ANSWERS[group.state].sync
    if group.state is GroupState.DEAD and answer is not PARK:
        return answer
    error = group.check_member(context, command.member_id, command.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(command.protocol_type, group.protocol_type) or _differs(command.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if answer is PARK else answer


def _differs(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current


def _record_sync(context: CommandContext, group: ClassicGroup, member: Member) -> None:
    group.pending_sync.pop(member.member_id, None)
    if not group.pending_sync:
        context.cancel(group.sync_timer)


def _store_assignments(context: CommandContext, group: ClassicGroup, leader: Member, assignments: dict[str, bytes]) -> None:
    statics = len(group.static_members)
    context.log(
        f"Assignment received from leader {leader.member_id} for group {group.group_id} for generation "
        f"{group.generation}. The group has {len(group.members)} members, {statics} of which are static."
    )
    missing = [member_id for member_id in group.members if member_id not in assignments]
    if missing:
        context.log(f"Setting empty assignments for members [{', '.join(missing)}] of {group.group_id} for generation {group.generation}.")
    members = tuple(member.value(group.protocol, assignments.get(member.member_id, b"")) for member in group.members.values())
    context.records.append(group.record(members, leader=group.leader))
    group.staged = Staged(at_ms=context.now_ms)
    # The leader first: its request settles those that are parked, and no response to them is written before its own.
    for member in (leader, *(each for each in group.members.values() if each is not leader)):
        assignment = assignments.get(member.member_id, b"")
        if not assignment:
            context.log(
                f"{EMPTY_ASSIGNMENT_WARNING} {member.member_id} of {group.group_id} for generation {group.generation} with no errors"
            )
        if member.awaiting_sync is not None:
            context.reply(member.awaiting_sync, _sync_result(group, assignment))
            member.restart_session(context)
    context.emit_change(
        group,
        "sync_completed",
        GroupState.COMPLETING_REBALANCE.value,
        GroupState.STABLE.value,
        members=assigned_members(group.protocol_type, members),
        evidence={"sync_phase_ms": context.now_ms - group.state_since_ms, "left_out": len(missing)},
    )


def _sync_result(group: ClassicGroup, assignment: bytes) -> SyncResult:
    return SyncResult(
        error=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=assignment,
    )


def heartbeat(context: CommandContext, command: Heartbeat) -> None:
    """Answer a Heartbeat; an accepted one restarts the member's session, also while the group rebalances."""
    group = find_group(context.state, command.group_id)
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif group.state is GroupState.DEAD:
        error = ANSWERS[GroupState.DEAD].heartbeat
    else:
        error = group.check_member(context, command.member_id, command.instance_id)
        if error is ErrorCode.NONE:
            if command.generation != group.generation:
                error = ErrorCode.ILLEGAL_GENERATION
            else:
                group.members[command.member_id].restart_session(context)
                error = ANSWERS[group.state].heartbeat
    context.reply(command.reply_to, HeartbeatResult(error=error))
