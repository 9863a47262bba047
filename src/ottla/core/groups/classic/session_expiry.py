"""Expired sessions: members that sent no request in time, and ids that were handed out and never joined, are removed."""

from ottla.core.groups.classic.events import Trigger, emit_trigger, liveness_evidence
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.identity import find_group
from ottla.core.groups.classic.rebalance import complete_after_expiry, prepare_rebalance, remove_member
from ottla.core.groups.classic.states import GroupState, can_rebalance
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import ExpireMember
from ottla.core.groups.events import Cause


def expire_member(context: CommandContext, command: ExpireMember) -> None:
    """End a session before its time. Without effects if there is no such member or id, or if a request of it is parked."""
    group = find_group(context, command.group_id)
    if group is None:
        return
    pending = group.pending.get(command.member_id)
    if pending is not None:
        context.cancel(pending)
    expire_session(context, group, command.member_id)


def expire_session(context: CommandContext, group: ClassicGroup, member_id: str) -> None:
    """Handle a session timer: remove the member, or the id that never joined. A member with a parked request stays."""
    if group.state is GroupState.DEAD:
        return
    if member_id in group.pending:
        context.log(f"Pending member {member_id} in group {group.group_id} has been removed after session timeout expiration.")
        group.remove(member_id)
        complete_after_expiry(context, group)
        return
    member = group.members.get(member_id)
    if member is None or member.counts_as_alive:
        return
    context.log(f"Member {member_id} in group {group.group_id} has failed, removing it from the group.")
    reason, evidence = f"removing member {member_id} on heartbeat expiration.", liveness_evidence(context, member)
    remove_member(context, group, member)
    emit_trigger(context, group, Trigger(cause=Cause.EXPIRE_HEARTBEAT, reason=reason, member=member, evidence=evidence))
    if can_rebalance(group.state):
        prepare_rebalance(context, group, reason)
    else:
        complete_after_expiry(context, group)
