"""Identity of a classic group's members: which group, which member, and for static members which holder of the instance id (KIP-345).

These checks remove no member.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.events import emit_static_change, liveness_evidence
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.member import Member
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.events import Cause


def find_group(context: CommandContext, group_id: str) -> ClassicGroup | None:
    """The classic group of this id; None if there is none."""
    group = context.state.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None


def check_member(context: CommandContext, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID; an id that has not joined yet is not a member."""
    if instance_id is not None:
        holder_id = group.static_members.get(instance_id)
        if holder_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder_id != member_id:
            _report_fenced(context, group, holder_id, member_id)
            return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def restart_session(context: CommandContext, member: Member) -> None:
    """Record that the member is alive and restart its session timeout."""
    member.last_seen_ms = context.timer_ms
    context.arm(member.session, member.session_timeout_ms)


def _report_fenced(context: CommandContext, group: ClassicGroup, holder_id: str, member_id: str) -> None:
    # Two processes with one instance id are a deployment mistake that shows nowhere else; each fenced member id is reported once.
    holder = group.members[holder_id]
    reason = (
        f"Request memberId={member_id} for static member with groupInstanceId={holder.instance_id} "
        f"is fenced by existing memberId={holder_id}"
    )
    if holder.fenced_id != member_id:
        holder.fenced_id = member_id
        context.log(reason)
        evidence = liveness_evidence(context, holder)
        emit_static_change(context, group, "static_fenced", Cause.STATIC_FENCED, holder, reason=reason, evidence=evidence)
