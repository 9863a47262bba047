"""A coordinator begins and ends: groups come alive from what was replayed, and let go when another broker takes over.

Reading the log is the shell's work; what a record means is in durable.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.effects import JoinResult, SyncResult
from ottla.core.groups.events import Cause, Trigger, assigned_members, tell_change
from ottla.core.groups.rebalance import tell_unknown_topics, trigger_rebalance
from ottla.core.groups.states import GroupState
from ottla.core.groups.step import Step


def finish_loading(step: Step) -> None:
    """Groups with members are Stable, each member's session starts afresh; a group that is over capacity rebalances."""
    durable = step.registry.durable
    for group_id, value in durable.registrations.items():
        group = ClassicGroup.from_registration(group_id, value, timer_ms=step.timer_ms)
        step.registry.groups[group_id] = group
        tell_unknown_topics(step, group)
        step.log(f"Loaded classic group {group_id} with {len(group.members)} members.")
        members = assigned_members(group.protocol_type, value.members)
        tell_change(step, group, "loaded", group.state, group.state, members=members)
        for member in group.members.values():
            step.arm(member.session, member.session_timeout_ms)
        size, size_max = len(group.members), step.settings.group_max_size
        if size > size_max:
            reason = (
                f"Freshly-loaded group {group_id} (size {size}) is over capacity {size_max}. "
                "Rebalancing in order to give a chance for consumers to commit offsets"
            )
            evidence = {"group_size": size, "group_size_max": size_max}
            trigger_rebalance(step, group, Trigger(cause=Cause.CAPACITY, reason=reason, evidence=evidence))
    for group_id in durable.offsets:
        # Offsets without a registration were committed by consumers that are no members: a simple group.
        if group_id not in step.registry.groups:
            step.registry.groups[group_id] = ClassicGroup(group_id, now_ms=step.now_ms)


def resign(step: Step) -> None:
    """Tell everybody who waits to look for the new coordinator, and forget everything."""
    for group in list(step.registry.groups.values()):
        step.log(f"[GroupId={group.group_id}] Unloading group metadata for generation {group.generation}.")
        for member in group.members.values():
            join_reply_to = group.unpark_join(member)
            if join_reply_to is not None:
                result = JoinResult(error=ErrorCode.NOT_COORDINATOR, member_id=member.member_id)
                step.reply(join_reply_to, result)
            if member.awaiting_sync is not None:
                step.reply(member.awaiting_sync, SyncResult(error=ErrorCode.NOT_COORDINATOR))
                member.awaiting_sync = None
        group.transition(GroupState.DEAD, step.now_ms)
        step.registry.drop(group)
    step.registry.expiry = None
    step.registry.durable.registrations.clear()
    step.registry.durable.offsets.clear()
