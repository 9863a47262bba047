"""Administration of groups: ListGroups, DescribeGroups and DeleteGroups.

It looks, and asks for tombstones; it never touches a member.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup, Member
from ottla.core.groups.commands import DeleteGroup, DescribeGroup, ListGroups
from ottla.core.groups.effects import (
    DeleteResult,
    DescribedMember,
    DescribeResult,
    ListResult,
)
from ottla.core.groups.events import tell_change
from ottla.core.groups.offsets import forget_group
from ottla.core.groups.read_on_demand import CLASSIC, ListedGroups
from ottla.core.groups.records import GroupMetadataRecord
from ottla.core.groups.states import ANSWERS, GroupState
from ottla.core.groups.step import Step


def list_groups(step: Step, command: ListGroups) -> None:
    """The groups whose state and type are asked for; empty filters ask for all, case does not matter."""
    states = frozenset(state.strip().lower() for state in command.states)
    types = {kind.strip().lower() for kind in command.types}
    groups = tuple(step.registry.groups.values()) if not types or CLASSIC in types else ()
    step.reply(command.reply_to, ListResult(error=ErrorCode.NONE, groups=ListedGroups(groups, states)))


def describe_group(step: Step, command: DescribeGroup) -> None:
    """One group as it is now; one that nobody knows is Dead, which newer clients are also told as an error."""
    group = step.group(command.group_id)
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
            members=tuple(_described(member, group, shows_metadata=shows_metadata) for member in group.members.values()),
        )
    step.reply(command.reply_to, result)


def delete_group(step: Step, command: DeleteGroup) -> None:
    """Tombstones for a group without members: first its offsets, then the group itself."""
    group = step.group(command.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else ANSWERS[group.state].delete_group
    if group is not None and error is ErrorCode.NONE:
        forget_group(step, group.group_id)
        count = len(step.records)
        step.records.append(GroupMetadataRecord(group_id=group.group_id, value=None))
        step.log(f"The following groups were deleted: {group.group_id}. A total of {count} offsets were removed.")
        evidence = {"offset_count": count}
        tell_change(step, group, "deleted", group.state, GroupState.DEAD, evidence=evidence, reason="by DeleteGroups")
    step.reply(command.reply_to, DeleteResult(error=error))


def _described(member: Member, group: ClassicGroup, *, shows_metadata: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata(group.protocol) if shows_metadata else b"",
        assignment=member.assignment,
    )
