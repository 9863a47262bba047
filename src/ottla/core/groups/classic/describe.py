"""DescribeGroups of a classic group."""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.identity import find_group
from ottla.core.groups.classic.member import Member
from ottla.core.groups.classic.states import ANSWERS, GroupState
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import DescribeGroup
from ottla.core.groups.effects import DescribedMember, DescribeResult


def describe_group(context: CommandContext, command: DescribeGroup) -> None:
    """Answer with the group's present state; an unknown group is Dead, for newer clients with an error."""
    group = find_group(context, command.group_id)
    if group is None:
        unknown = command.unknown_is_error
        result = DescribeResult(
            error=ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.NONE,
            group_id=command.group_id,
            state=GroupState.DEAD.value,
            error_message=f"Group {command.group_id} not found." if unknown else None,
        )
    else:
        shows_metadata = ANSWERS[group.state].describes_metadata
        result = DescribeResult(
            error=ErrorCode.NONE,
            group_id=group.group_id,
            state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=group.protocol or "" if shows_metadata else "",
            members=tuple(_describe_member(member, group, shows_metadata=shows_metadata) for member in group.members.values()),
        )
    context.reply(command.reply_to, result)


def _describe_member(member: Member, group: ClassicGroup, *, shows_metadata: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata(group.protocol) if shows_metadata else b"",
        assignment=member.assignment,
    )
