"""What administrators see of consumer groups: ConsumerGroupDescribe, and DescribeGroups, which is of classic groups alone."""

from collections.abc import Mapping

from ottla.groups.commands import ConsumerGroupDescribe, ConsumerGroupDescribeResult, ConsumerGroupMember, DescribeGroup, DescribeResult
from ottla.groups.consumer.group import ConsumerGroup, find_consumer_group
from ottla.groups.consumer.member import ConsumerMember, Partitions
from ottla.groups.group import DEAD_STATE, CommandContext
from ottla.protocol.errors import ErrorCode


def describe_consumer_group(context: CommandContext, command: ConsumerGroupDescribe) -> None:
    """Answer with the group's present state. What a member must still give up counts as assigned; topics that were deleted are left out."""
    group = find_consumer_group(context.state, command.group_id)
    if group is None:
        exists = command.group_id in context.state.groups
        message = f"Group {command.group_id} is not a consumer group." if exists else f"Group {command.group_id} not found."
        error = ErrorCode.GROUP_ID_NOT_FOUND
        context.reply(command.reply_to, ConsumerGroupDescribeResult(error=error, group_id=command.group_id, message=message))
        return
    durable = group.durable
    members = tuple(_described(group, member) for member in durable.members.values())
    topic_ids = {topic_id for member in members for topic_id in (*member.assignment, *member.target)}
    result = ConsumerGroupDescribeResult(
        error=ErrorCode.NONE,
        group_id=group.group_id,
        state=group.state_name,
        epoch=durable.epoch,
        assignment_epoch=durable.assignment_epoch,
        assignor=group.assignor(durable.members.values(), next(iter(context.settings.consumer_assignors))),
        members=members,
        topic_names={topic_id: name for topic_id in topic_ids if (name := group.topic_name(topic_id)) is not None},
    )
    context.reply(command.reply_to, result)


def _described(group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroupMember:
    assigned: dict[bytes, list[int]] = {}
    for partitions in (member.assigned, member.pending):
        for topic_id, numbers in partitions.items():
            assigned.setdefault(topic_id, []).extend(numbers)
    return ConsumerGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(member.topics)),
        regex=member.regex,
        assignment=_existing(group, assigned),
        target=_existing(group, group.durable.target(member.member_id)),
        is_classic=member.classic is not None,
    )


def _existing(group: ConsumerGroup, partitions: Partitions) -> Mapping[bytes, list[int]]:
    return {topic_id: sorted(numbers) for topic_id, numbers in partitions.items() if numbers and group.topic_name(topic_id) is not None}


def describe_as_classic(context: CommandContext, command: DescribeGroup) -> None:
    """To DescribeGroups a consumer group is as if it did not exist."""
    unknown = command.unknown_is_error
    result = DescribeResult(
        error=ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.NONE,
        group_id=command.group_id,
        state=DEAD_STATE,
        error_message=f"Group {command.group_id} is not a classic group." if unknown else None,
    )
    context.reply(command.reply_to, result)
