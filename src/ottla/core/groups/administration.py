"""ListGroups and DeleteGroups, for groups of any type. They change no member."""

from collections.abc import Iterator, Sequence

from ottla.core.errors import ErrorCode
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import DeleteGroup, ListGroups
from ottla.core.groups.effects import DeleteResult, ListedGroup, ListResult
from ottla.core.groups.events import emit_change
from ottla.core.groups.group import DEAD_STATE, Group
from ottla.core.groups.lazy_sequence import LazySequence
from ottla.core.groups.log.records import GroupMetadataRecord
from ottla.core.groups.offsets.deletion import delete_all_offsets


class ListedGroups(LazySequence[ListedGroup]):
    """Listed groups in one of `states` (lower case; empty: in any), created one by one while the response is encoded.

    The groups are those of the time of the request; the state of each is read when its item is created.
    """

    __slots__ = ("_groups", "_states")

    def __init__(self, groups: Sequence[Group], states: frozenset[str]) -> None:
        self._groups = groups
        self._states = states

    def __len__(self) -> int:
        return len(self._make())

    def __iter__(self) -> Iterator[ListedGroup]:
        for group in self._groups:
            if not self._states or group.state_name.lower() in self._states:
                yield ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    state=group.state_name,
                    group_type=group.group_type,
                )

    def _make(self) -> tuple[ListedGroup, ...]:
        return tuple(iter(self))


def list_groups(context: CommandContext, command: ListGroups) -> None:
    """List the groups of the requested states and types; an empty filter matches all, case is ignored."""
    states = frozenset(state.strip().lower() for state in command.states)
    types = {group_type.strip().lower() for group_type in command.types}
    groups = tuple(context.state.groups.values())
    if types:
        groups = tuple(group for group in groups if group.group_type in types)
    context.reply(command.reply_to, ListResult(error=ErrorCode.NONE, groups=ListedGroups(groups, states)))


def delete_group(context: CommandContext, command: DeleteGroup) -> None:
    """Write tombstones for a group without members: first for its offsets, then for the group."""
    group = context.state.groups.get(command.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.delete_group_error
    if group is not None and error is ErrorCode.NONE:
        delete_all_offsets(context, group.group_id)
        count = len(context.records)
        context.records.append(GroupMetadataRecord(group_id=group.group_id, value=None))
        context.log(f"The following groups were deleted: {group.group_id}. A total of {count} offsets were removed.")
        evidence = {"offset_count": count}
        emit_change(context, group, "deleted", group.state_name, DEAD_STATE, evidence=evidence, reason="by DeleteGroups")
    context.reply(command.reply_to, DeleteResult(error=error))
