"""Compares the members and assignments of two generations."""

from collections.abc import Mapping

from ottla.core.diagnosis.rounds.round import AssignmentDiff, Membership
from ottla.core.model import EventMember, TopicPartition

Owned = Mapping[TopicPartition, str]


def owners(membership: Membership) -> dict[TopicPartition, str]:
    """Who owns each partition: by instance id, or else by member id."""
    return {
        TopicPartition(topic, partition): member.instance_id or member.member_id
        for member in membership.members.values()
        for topic, partitions in member.assignment.items()
        for partition in partitions
    }


def diff(before: Owned, after: Owned, last_known: Owned) -> AssignmentDiff:
    """What changed. `last_known`: every partition's last owner so far, also of those that are not assigned at the moment."""
    moved = new = regained = kept = 0
    for partition, owner in after.items():
        held = before.get(partition)
        if held is not None:
            kept += held == owner
            moved += held != owner
        elif partition in last_known:
            regained += 1
        else:
            new += 1
    gone = sum(partition not in after for partition in before)
    return AssignmentDiff(assigned=len(after), moved=moved, new=new, gone=gone, regained=regained, kept=kept)


def same_members(before: Mapping[str, EventMember], after: Mapping[str, EventMember]) -> bool:
    """Whether the members are the same, static ones by instance id."""
    return before.keys() == after.keys() or _names(before) == _names(after)


def _names(members: Mapping[str, EventMember]) -> set[str]:
    return {member.instance_id or member_id for member_id, member in members.items()}
