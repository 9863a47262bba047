"""Deletion of committed offsets by tombstones: OffsetDelete, deleted topics, deleted groups. Expired offsets are in `expiry`."""

from ottla.core.errors import ErrorCode
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import ForgetTopics, OffsetDelete
from ottla.core.groups.effects import OffsetDeleteResult
from ottla.core.groups.events import emit_change
from ottla.core.groups.group import Group
from ottla.core.groups.log.records import OffsetRecord


def delete_offsets(context: CommandContext, command: OffsetDelete) -> None:
    """Delete offsets of topics to which no member of the group subscribes."""
    group = context.state.groups.get(command.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.delete_offsets_error
    if group is None or error is not ErrorCode.NONE:
        context.reply(command.reply_to, OffsetDeleteResult(error=error))
        return
    errors = []
    for topic, partition in dict.fromkeys(command.partitions):
        if not group.is_subscribed_to(topic):
            _delete_offset(context, command.group_id, topic, partition)
    _emit_deleted(context, group, len(context.records), "by OffsetDelete")
    for topic, _ in command.partitions:
        in_use = group.is_subscribed_to(topic)
        errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE)
    context.reply(command.reply_to, OffsetDeleteResult(error=ErrorCode.NONE, errors=tuple(errors)))


def forget_topics(context: CommandContext, command: ForgetTopics) -> None:
    """Delete the offsets of deleted topics in all groups."""
    deleted = set(command.topics)
    for group_id, by_topic in context.state.replayed.offsets.items():
        before = len(context.records)
        for topic, by_partition in by_topic.items():
            if topic in deleted:
                for partition in by_partition:
                    _delete_offset(context, group_id, topic, partition)
        _emit_deleted(context, context.state.groups[group_id], len(context.records) - before, "its topic was deleted")
    if context.records:
        names = ", ".join(command.topics)
        context.log(f"Generated {len(context.records)} tombstone records in 0 milliseconds while deleting offsets for topics [{names}].")


def delete_all_offsets(context: CommandContext, group_id: str) -> None:
    """Write tombstones for every offset of a group; the caller publishes the event."""
    for topic, by_partition in context.state.replayed.offsets.get(group_id, {}).items():
        for partition in by_partition:
            _delete_offset(context, group_id, topic, partition)


def _emit_deleted(context: CommandContext, group: Group, count: int, reason: str) -> None:
    if count:
        state = group.state_name
        emit_change(context, group, "offsets_deleted", state, state, evidence={"offset_count": count}, reason=reason)


def _delete_offset(context: CommandContext, group_id: str, topic: str, partition: int) -> None:
    if context.state.replayed.committed(group_id, topic, partition) is not None:
        context.records.append(OffsetRecord(group_id=group_id, topic=topic, partition=partition, value=None))
