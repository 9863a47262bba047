"""The record of a classic group in the log: groups are created from it after a restart, its replay completes a change, its append may fail.

Failed effects changed nothing durable and their replies were not sent, so nothing has to be undone.
"""

from dataclasses import replace

from ottla.coordinator.coordinator import AppendFailed
from ottla.groups.classic.group import ClassicGroup, find_group
from ottla.groups.classic.member import assigned_members
from ottla.groups.classic.rebalance import Trigger, log_unreadable_subscriptions, release_syncs, trigger_rebalance
from ottla.groups.classic.states import GroupState
from ottla.groups.classic.sync import EMPTY_ASSIGNMENT_WARNING
from ottla.groups.commands import (
    CommitResult,
    ConsumerGroupHeartbeatResult,
    DeleteResult,
    JoinResult,
    LeaveResult,
    OffsetDeleteResult,
    Result,
)
from ottla.groups.events import TriggerCode
from ottla.groups.group import CommandContext, CoordinatorState
from ottla.groups.log.records import GroupMetadataRecord
from ottla.protocol.coordinator_records import GroupMetadataValue
from ottla.protocol.errors import ErrorCode

_E = ErrorCode
RESPONSE_ERRORS = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _E.COORDINATOR_NOT_AVAILABLE,
    _E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
    _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
    _E.MESSAGE_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.RECORD_LIST_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.INVALID_FETCH_SIZE: _E.UNKNOWN_SERVER_ERROR,
}


def create_groups(context: CommandContext) -> None:
    """Create the groups: with members Stable, each session restarted. A group that is over capacity rebalances."""
    replayed = context.state.replayed
    for group_id, value in replayed.group_metadata.items():
        group = ClassicGroup.from_record(group_id, value, timer_ms=context.timer_ms)
        context.state.groups[group_id] = group
        log_unreadable_subscriptions(context, group)
        context.log(f"Loaded classic group {group_id} with {len(group.members)} members.")
        members = assigned_members(group.protocol_type, value.members)
        context.emit_change(group, "loaded", group.state_name, group.state_name, members=members)
        for member in group.members.values():
            context.arm(member.session, member.session_timeout_ms)
        size, size_max = len(group.members), context.settings.group_max_size
        if size > size_max:
            reason = (
                f"Freshly-loaded group {group_id} (size {size}) is over capacity {size_max}. "
                "Rebalancing in order to give a chance for consumers to commit offsets"
            )
            evidence = {"group_size": size, "group_size_max": size_max}
            trigger_rebalance(context, group, Trigger(code=TriggerCode.CAPACITY, reason=reason, evidence=evidence))
    for group_id in replayed.offsets:
        # Offsets without a group record were committed by consumers that are not members: a simple group.
        if group_id not in context.state.groups:
            context.state.groups[group_id] = ClassicGroup(group_id, now_ms=context.now_ms)


def replay_group_record(state: CoordinatorState, record: GroupMetadataRecord) -> None:
    """Apply a record that was appended: remove the group, or complete the change that was staged with the record."""
    group = find_group(state, record.group_id)
    if group is None:
        return
    if record.value is None:
        state.remove_group(group)
        return
    state.complete_conversion(group)
    staged, group.staged = group.staged, None
    if staged is None:
        return
    if staged.member is None:
        for value in record.value.members:
            member = group.members[value.member_id]
            member.assignment = value.assignment
            member.awaiting_sync = None
        group.transition(GroupState.STABLE, staged.at_ms)
    else:
        assert staged.replaced_id is not None, f"{group.group_id} has no replacement staged"
        replaced = group.members[staged.replaced_id]
        group.replace(staged.replaced_id, staged.member)
        state.timers.cancel(replaced.session)


def append_failed(context: CommandContext, command: AppendFailed) -> None:
    """Answer the requests of the failed effects with an error, and every request that is parked for them."""
    error = RESPONSE_ERRORS.get(command.error, command.error)
    for record in command.effects.records:
        if isinstance(record, GroupMetadataRecord) and record.value is not None:
            group = find_group(context.state, record.group_id)
            assert group is not None, f"{record.group_id} was removed while its record was appended"
            if context.state.undo_conversion(group):
                _refuse_all(context, group, command, error)
            elif group.staged is not None:
                _discard_staged(context, group, command, error)
            elif record.value.generation == 0 and group.generation == 0:
                _discard_new_group(context, group, command, error)
            else:
                _keep_empty(context, record.value, command, error)
            return
    for reply in command.effects.replies:
        context.reply(reply.to, failed_result(reply.result, error))


def failed_result(result: Result, error: ErrorCode) -> Result:
    """The error response in place of `result`, which confirms that something is stored."""
    match result:
        case CommitResult(errors=errors):
            # A partition that was refused keeps its own error.
            return CommitResult(errors=tuple(error if each is _E.NONE else each for each in errors))
        case LeaveResult():
            return LeaveResult(error=error)
        case DeleteResult():
            return DeleteResult(error=error)
        case OffsetDeleteResult():
            return OffsetDeleteResult(error=error)
        case JoinResult(error=_E.REBALANCE_IN_PROGRESS):
            # A parked request, which waits for nothing any more.
            return result
        case JoinResult():
            return JoinResult(error=error, member_id="")
        case ConsumerGroupHeartbeatResult():
            return ConsumerGroupHeartbeatResult(error=error)
        case _:
            return result


def _discard_staged(context: CommandContext, group: ClassicGroup, command: AppendFailed, error: ErrorCode) -> None:
    staged, group.staged = group.staged, None
    assert staged is not None, f"{group.group_id} has nothing staged"
    context.log_lines.extend(line for line in command.effects.log_lines if not line.startswith(EMPTY_ASSIGNMENT_WARNING))
    if staged.member is not None:
        # The static member's old member id was not replaced and stays.
        context.cancel(staged.member.session)
        context.log(
            f"Failed to persist metadata for group {group.group_id} static member {staged.member.member_id} with group "
            f"instance id {staged.member.instance_id} due to {command.error.name}. "
            f"Reverting to old member id {staged.replaced_id}."
        )
        for reply in command.effects.replies:
            # The only error response of JoinGroup that contains the generation, which continues with the old member id.
            context.reply(
                reply.to,
                JoinResult(
                    error=error,
                    member_id="",
                    generation=group.generation,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol,
                    leader=group.leader or "",
                ),
            )
        return
    release_syncs(context, group, error)
    # "assignmentduring" is the spelling in Apache Kafka 4.3, and so what people search for.
    reason = f"Error {error.name} when storing group assignmentduring SyncGroup (member: {group.leader})."
    trigger_rebalance(
        context,
        group,
        Trigger(
            code=TriggerCode.STORE_ERROR,
            reason=reason,
            member=group.members[group.leader or ""],
            evidence={"error_code": command.error.value},
        ),
    )


def _discard_new_group(context: CommandContext, group: ClassicGroup, command: AppendFailed, error: ErrorCode) -> None:
    """Remove a group whose first record failed, without an event."""
    context.log(f"Failed to write empty metadata for group {group.group_id}: {command.error.name}")
    _refuse_all(context, group, command, error)
    context.state.remove_group(group)


def _refuse_all(context: CommandContext, group: ClassicGroup, command: AppendFailed, error: ErrorCode) -> None:
    """Answer every request to a group that will not be with the error."""
    for reply in command.effects.replies:
        context.reply(reply.to, failed_result(reply.result, error))
    for member in group.members.values():
        waiting = group.unpark_join(member)
        if waiting is not None:
            context.reply(waiting, JoinResult(error=error, member_id=""))


def _keep_empty(context: CommandContext, value: GroupMetadataValue, command: AppendFailed, error: ErrorCode) -> None:
    """Leave an emptied group empty: after a restart its last members come back, and their sessions expire."""
    context.log_lines.extend(command.effects.log_lines)
    context.log(f"Failed to write empty metadata for group with generation {value.generation}: {command.error.name}")
    for reply in command.effects.replies:
        leaves = isinstance(reply.result, LeaveResult)
        context.replies.append(replace(reply, result=failed_result(reply.result, error)) if leaves else reply)
    context.events.extend(command.effects.events)
