"""SyncGroup: the leader sends the assignment, and every member fetches its part of it.

The assignment takes effect when its record is replayed (group_records); a failed append is handled in failures.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.events import Trigger, assigned_members, emit_trigger, liveness_evidence
from ottla.core.groups.classic.group import ClassicGroup, Staged
from ottla.core.groups.classic.group_records import group_metadata_record, member_value
from ottla.core.groups.classic.identity import check_member, find_group, restart_session
from ottla.core.groups.classic.member import Member
from ottla.core.groups.classic.rebalance import remove_member, start_or_complete
from ottla.core.groups.classic.states import ANSWERS, PARK, GroupState
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import SyncGroup
from ottla.core.groups.effects import SyncResult
from ottla.core.groups.events import Cause, emit_change

EMPTY_ASSIGNMENT_WARNING = "Sending empty assignment to member"
"""The start of Kafka's warning that a stored assignment has no bytes for a member."""


def sync_group(context: CommandContext, command: SyncGroup) -> None:
    """Answer a SyncGroup, or park it until the leader's assignment is stored. The order of the checks is Kafka's."""
    group = find_group(context, command.group_id)
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
        restart_session(context, member)
        context.reply(command.reply_to, _sync_result(group, member.assignment))
        return
    superseded, member.awaiting_sync = member.awaiting_sync, command.reply_to
    member.last_seen_ms = context.timer_ms
    if superseded is not None:
        context.reply(superseded, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
    if group.leader == member.member_id:
        _store_assignments(context, group, member, dict(command.assignments))


def expire_sync(context: CommandContext, group: ClassicGroup) -> None:
    """Handle the sync timer: remove the members of this generation that have not sent SyncGroup."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
        return
    reason = f"Removing [{', '.join(group.pending_sync)}] on pending sync request expiration"
    for at, member_id in enumerate([*group.pending_sync]):
        member = group.members.get(member_id)  # None for the old id of a static member that was replaced before it sent SyncGroup
        evidence = None if member is None else liveness_evidence(context, member)
        trigger = Trigger(cause=Cause.SYNC_TIMEOUT, reason=reason, member=member, member_id=member_id, evidence=evidence)
        emit_trigger(context, group, trigger, coalesced=at > 0)
        if member is not None:
            remove_member(context, group, member)
    start_or_complete(context, group, reason)


def _refusal(context: CommandContext, group: ClassicGroup, command: SyncGroup) -> ErrorCode:
    answer = ANSWERS[group.state].sync
    if group.state is GroupState.DEAD and answer is not PARK:
        return answer
    error = check_member(context, group, command.member_id, command.instance_id)
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
    members = tuple(member_value(member, group.protocol, assignments.get(member.member_id, b"")) for member in group.members.values())
    context.records.append(group_metadata_record(group, members, leader=group.leader))
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
            restart_session(context, member)
    emit_change(
        context,
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
