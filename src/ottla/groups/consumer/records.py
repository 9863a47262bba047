"""The records of consumer groups: groups are created from them after a restart, their replay completes a change, their append may fail."""

from ottla.coordinator.coordinator import AppendFailed
from ottla.groups.commands import JoinResult
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ReconciliationState
from ottla.groups.group import CommandContext, CoordinatorState
from ottla.groups.log.records import ConsumerGroupRecord


def create_consumer_groups(context: CommandContext) -> None:
    """Create the groups, each session restarted; members that must give up partitions have their rebalance timeout for it again."""
    for group_id, durable in context.state.replayed.consumer_groups.items():
        group = ConsumerGroup(group_id, context.state, now_ms=context.now_ms)
        group.attach(durable)
        context.state.groups[group_id] = group
        context.log(f"Loaded consumer group {group_id} with {len(durable.members)} members.")
        for member in durable.members.values():
            group.arm_session(context, member, is_loaded=True)
            if member.state is ReconciliationState.UNREVOKED_PARTITIONS:
                group.arm_revocation(context, member)
        members = tuple(group.event_member(member, group.by_name(member.assigned)) for member in durable.members.values())
        context.emit_change(group, "loaded", group.state_name, group.state_name, members=members)


def replay_consumer_record(state: CoordinatorState, record: ConsumerGroupRecord) -> None:
    """After the record was applied to the durable state: create, complete or remove the group."""
    group = state.groups.get(record.group_id)
    if not isinstance(group, ConsumerGroup):
        # Its tombstones, while it becomes a classic group, and a static member's replacement before them.
        assert group is not None or record.value is None, f"{record.group_id} has a record, and no group that wrote it"
        return
    state.complete_conversion(group)
    durable = state.replayed.consumer_groups.get(record.group_id)
    if durable is not None:
        group.attach(durable)
    elif record.value is None:
        state.remove_group(group)


def consumer_append_failed(context: CommandContext, command: AppendFailed) -> None:
    """Nothing of what was decided is stored: forget groups that were to be created, and what members were told to do next."""
    joined = {reply.result.member_id for reply in command.effects.replies if isinstance(reply.result, JoinResult)}
    for group_id in {record.group_id for record in command.effects.records if isinstance(record, ConsumerGroupRecord)}:
        group = context.state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or context.state.undo_conversion(group):
            continue
        if group_id not in context.state.replayed.consumer_groups:
            context.state.remove_group(group)
            continue
        for member in group.durable.members.values():
            if group.timers_of(member.member_id).session.at_ms is None:
                # It was to be fenced.
                group.arm_session(context, member)
            if member.member_id in joined and member.is_classic:
                group.synced(context, member)
                group.expect_join(context, member)
