"""Whether a request comes from who it says: known member, and for static members the current holder of the instance id (KIP-345).

It only answers; it removes nobody.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.events import Cause, silence_of, tell_static
from ottla.core.groups.step import Step


def check_member(step: Step, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID; an id that has not joined yet is not a member."""
    if instance_id is not None:
        holder_id = group.static_members.get(instance_id)
        if holder_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder_id != member_id:
            _tell_fenced(step, group, holder_id, member_id)
            return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _tell_fenced(step: Step, group: ClassicGroup, holder_id: str, member_id: str) -> None:
    # Two processes with one instance id are a mistake in a deployment that nothing else shows; each loser is told of once.
    holder = group.members[holder_id]
    reason = (
        f"Request memberId={member_id} for static member with groupInstanceId={holder.instance_id} "
        f"is fenced by existing memberId={holder_id}"
    )
    if holder.fenced_id != member_id:
        holder.fenced_id = member_id
        step.log(reason)
        evidence = silence_of(step, holder)
        tell_static(step, group, "static_fenced", Cause.STATIC_FENCED, holder, reason=reason, evidence=evidence)
