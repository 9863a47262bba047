"""The log record of a classic group: how it is built from the group, and what it changes in the group when it is replayed."""

from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.member import Member
from ottla.core.groups.classic.states import GroupState
from ottla.core.groups.coordinator_state import CoordinatorState
from ottla.core.groups.log.records import GroupMetadataRecord, GroupMetadataValue, MemberValue


def group_metadata_record(group: ClassicGroup, members: tuple[MemberValue, ...], *, leader: str | None) -> GroupMetadataRecord:
    """The group's record at its current generation."""
    return GroupMetadataRecord(
        group_id=group.group_id,
        value=GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol,
            leader=leader,
            current_state_timestamp_ms=group.state_since_ms,
            members=members,
        ),
    )


def member_value(member: Member, protocol: str | None, assignment: bytes) -> MemberValue:
    """A member as the group's record contains it."""
    return MemberValue(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def replay_group_record(state: CoordinatorState, group: ClassicGroup, record: GroupMetadataRecord) -> None:
    """Apply a record that was appended: remove the group, or complete the change that was staged with the record."""
    if record.value is None:
        state.remove_group(group)
        return
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
