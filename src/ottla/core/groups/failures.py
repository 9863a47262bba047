"""A record could not be appended: what was to happen did not, and those who wait are told.

Nothing durable has to be undone, because nothing durable was done; the replies of the failed step were not sent.
"""

from dataclasses import replace

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.commands import AppendFailed
from ottla.core.groups.effects import (
    CommitResult,
    DeleteResult,
    JoinResult,
    LeaveResult,
    OffsetDeleteResult,
    Result,
)
from ottla.core.groups.events import Cause, Trigger
from ottla.core.groups.rebalance import release_syncs, trigger_rebalance
from ottla.core.groups.records import GroupMetadataRecord, GroupMetadataValue
from ottla.core.groups.step import Step
from ottla.core.groups.sync import SENDING_NOTHING

_E = ErrorCode
ANSWER_TO_APPEND_ERROR = {
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


def append_failed(step: Step, command: AppendFailed) -> None:
    """Answer everybody who would have been answered, and put the group where it can go on."""
    error = ANSWER_TO_APPEND_ERROR.get(command.error, command.error)
    for record in command.effects.records:
        if isinstance(record, GroupMetadataRecord) and record.value is not None:
            group = step.registry.groups[record.group_id]
            if group.staged is not None:
                _drop_staged(step, group, command, error)
            elif record.value.generation == 0 and group.generation == 0:
                _forget_new_group(step, group, command, error)
            else:
                _stay_empty(step, record.value, command, error)
            return
    for reply in command.effects.replies:
        step.reply(reply.to, failed_result(reply.result, error))


def failed_result(result: Result, error: ErrorCode) -> Result:
    """The answer in place of `result`, which promised that something is kept."""
    match result:
        case CommitResult(errors=errors):
            # A partition that was refused before has its own error.
            return CommitResult(errors=tuple(error if each is _E.NONE else each for each in errors))
        case LeaveResult():
            return LeaveResult(error=error)
        case DeleteResult():
            return DeleteResult(error=error)
        case OffsetDeleteResult():
            return OffsetDeleteResult(error=error)
        case JoinResult():
            return JoinResult(error=error, member_id="")
        case _:
            return result


def _drop_staged(step: Step, group: ClassicGroup, command: AppendFailed, error: ErrorCode) -> None:
    staged, group.staged = group.staged, None
    assert staged is not None, f"{group.group_id} has nothing staged"
    step.log_lines.extend(line for line in command.effects.log_lines if not line.startswith(SENDING_NOTHING))
    if staged.member is not None:
        # The static member's old incarnation was never touched: it simply stays.
        step.cancel(staged.member.session)
        step.log(
            f"Failed to persist metadata for group {group.group_id} static member {staged.member.member_id} with group "
            f"instance id {staged.member.instance_id} due to {command.error.name}. "
            f"Reverting to old member id {staged.replaced_id}."
        )
        for reply in command.effects.replies:
            # The one error of JoinGroup that tells the generation as well, which goes on without the client.
            step.reply(
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
    release_syncs(step, group, error)
    # "assignmentduring" is how Apache Kafka 4.3 spells it, and what people search for.
    reason = f"Error {error.name} when storing group assignmentduring SyncGroup (member: {group.leader})."
    trigger_rebalance(
        step,
        group,
        Trigger(
            cause=Cause.STORE_ERROR,
            reason=reason,
            member=group.members[group.leader or ""],
            evidence={"error_code": command.error.value},
        ),
    )


def _forget_new_group(step: Step, group: ClassicGroup, command: AppendFailed, error: ErrorCode) -> None:
    """There never was such a group, so nothing is told of what it would have begun."""
    step.log(f"Failed to write empty metadata for group {group.group_id}: {command.error.name}")
    for reply in command.effects.replies:
        step.reply(reply.to, failed_result(reply.result, error))
    for member in group.members.values():
        waiting = group.unpark_join(member)
        if waiting is not None:
            step.reply(waiting, JoinResult(error=error, member_id=""))
    step.registry.drop(group)


def _stay_empty(step: Step, value: GroupMetadataValue, command: AppendFailed, error: ErrorCode) -> None:
    """An emptied group stays empty: at worst a restart brings its last members back, whose sessions then run out."""
    step.log_lines.extend(command.effects.log_lines)
    step.log(f"Failed to write empty metadata for group with generation {value.generation}: {command.error.name}")
    for reply in command.effects.replies:
        leaves = isinstance(reply.result, LeaveResult)
        step.replies.append(replace(reply, result=failed_result(reply.result, error)) if leaves else reply)
    step.events.extend(command.effects.events)
