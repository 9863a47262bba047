"""The end of loading, which creates classic groups from the replayed records, and unloading, when another broker takes the partition."""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.events import Trigger, assigned_members
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.rebalance import log_unreadable_subscriptions, trigger_rebalance
from ottla.core.groups.classic.states import GroupState
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.effects import JoinResult, SyncResult
from ottla.core.groups.events import Cause, emit_change


def create_groups(context: CommandContext) -> None:
    """Create the groups: with members Stable, each session restarted. A group that is over capacity rebalances."""
    replayed = context.state.replayed
    for group_id, value in replayed.group_metadata.items():
        group = ClassicGroup.from_record(group_id, value, timer_ms=context.timer_ms)
        context.state.groups[group_id] = group
        log_unreadable_subscriptions(context, group)
        context.log(f"Loaded classic group {group_id} with {len(group.members)} members.")
        members = assigned_members(group.protocol_type, value.members)
        emit_change(context, group, "loaded", group.state_name, group.state_name, members=members)
        for member in group.members.values():
            context.arm(member.session, member.session_timeout_ms)
        size, size_max = len(group.members), context.settings.group_max_size
        if size > size_max:
            reason = (
                f"Freshly-loaded group {group_id} (size {size}) is over capacity {size_max}. "
                "Rebalancing in order to give a chance for consumers to commit offsets"
            )
            evidence = {"group_size": size, "group_size_max": size_max}
            trigger_rebalance(context, group, Trigger(cause=Cause.CAPACITY, reason=reason, evidence=evidence))
    for group_id in replayed.offsets:
        # Offsets without a group record were committed by consumers that are not members: a simple group.
        if group_id not in context.state.groups:
            context.state.groups[group_id] = ClassicGroup(group_id, now_ms=context.now_ms)


def unload_groups(context: CommandContext) -> None:
    """Answer parked requests with NOT_COORDINATOR and remove every group."""
    for group in list(context.state.groups.values()):
        context.log(f"[GroupId={group.group_id}] Unloading group metadata for generation {group.generation}.")
        if isinstance(group, ClassicGroup):
            _release_members(context, group)
            group.transition(GroupState.DEAD, context.now_ms)
        context.state.remove_group(group)


def _release_members(context: CommandContext, group: ClassicGroup) -> None:
    for member in group.members.values():
        join_reply_to = group.unpark_join(member)
        if join_reply_to is not None:
            context.reply(join_reply_to, JoinResult(error=ErrorCode.NOT_COORDINATOR, member_id=member.member_id))
        if member.awaiting_sync is not None:
            context.reply(member.awaiting_sync, SyncResult(error=ErrorCode.NOT_COORDINATOR))
            member.awaiting_sync = None
