"""A consumer group becomes a classic group: at once if it has no members, and when only members of the classic protocol are left.

That is so when the last member of the consumer protocol goes, or when a static member takes its place that is of the classic protocol.
Every member keeps the assignment that was its target, until the classic group rebalances.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.member import Member, assigned_members
from ottla.groups.classic.rebalance import Trigger, emit_trigger, prepare_rebalance
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.group_state import CURRENT, MEMBER, TARGET
from ottla.groups.consumer.member import ConsumerMember, Partitions
from ottla.groups.consumer.reconciliation import RequestRefused
from ottla.groups.events import TriggerCode
from ottla.groups.group import CommandContext
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, encode_assignment, protocol_version


def may_become_classic(context: CommandContext, group: ConsumerGroup, without: Collection[ConsumerMember], *, size: int) -> bool:
    """Whether the group is to become a classic one of `size` members: without these, all of its members are of the classic protocol."""
    durable = group.durable
    consumers = len(durable.members) - durable.classic.members - sum(not member.is_classic for member in without)
    if consumers or not size:
        return False
    if not context.settings.consumer_migration_policy.allows_downgrade:
        why = "the online downgrade is disabled."
    elif size > context.settings.group_max_size:
        why = "its group size is greater than classic group max size."
    else:
        return True
    context.log(f"Cannot downgrade consumer group {group.group_id} to classic group because {why}")
    return False


def downgrade_without(context: CommandContext, group: ConsumerGroup, leaving: Collection[str], triggers: Sequence[Trigger]) -> None:
    """Turn the group into a classic one of its other members, which rebalances. Raises RequestRefused, with nothing changed."""
    members = [member for member in group.durable.members.values() if member.member_id not in leaving]
    classic = _classic_group(context, group, members, dict(group.durable.targets))
    context.records.extend(group.tombstones())
    _convert(context, classic)
    for at, trigger in enumerate(triggers):
        emit_trigger(context, classic, trigger, coalesced=at > 0)
    prepare_rebalance(context, classic, f"Downgrade group {group.group_id} from consumer to classic for member leaving.")
    _log_conversion(context, group)


def downgrade_with(
    context: CommandContext, group: ConsumerGroup, replaced: ConsumerMember, joining: ConsumerMember, *, is_stale: bool
) -> None:
    """Turn the group into a classic one, in which a member of the classic protocol has the place of a static member.

    `is_stale`: the target is not that of the group's epoch, so that the classic group rebalances. Raises RequestRefused.
    """
    old_id, new_id = replaced.member_id, joining.member_id
    of_members = (CURRENT, TARGET, MEMBER)
    # Its id has changed with this request's first records.
    context.records.extend(
        replace(record, name=new_id) if record.record_type in of_members and record.name == old_id else record
        for record in group.tombstones()
    )
    durable = group.durable
    members = [member for member in durable.members.values() if member.member_id != old_id]
    targets = {**durable.targets, new_id: durable.target(old_id)}
    classic = _classic_group(context, group, [*members, joining], targets)
    _convert(context, classic)
    if is_stale:
        reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        member = classic.members[new_id]
        emit_trigger(context, classic, Trigger(code=TriggerCode.STATIC_REJOIN, reason=reason, member=member))
        prepare_rebalance(context, classic, reason)
    _log_conversion(context, group)


def _log_conversion(context: CommandContext, group: ConsumerGroup) -> None:
    context.log(f"[GroupId {group.group_id}] Converted the consumer group to a classic group.")


def _classic_group(
    context: CommandContext, group: ConsumerGroup, members: Sequence[ConsumerMember], targets: dict[str, Partitions]
) -> ClassicGroup:
    """The classic group of these members, with their targets as assignments. Raises RequestRefused for a subscription that is none."""
    classic = ClassicGroup.of_members(
        group.group_id,
        [_member(context, group, member) for member in members],
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.durable.epoch,
        now_ms=context.now_ms,
    )
    try:
        for member in classic.members.values():
            version = protocol_version(member.metadata(classic.protocol))
            assigned = {
                name: sorted(numbers)
                for topic_id, numbers in targets.get(member.member_id, {}).items()
                if numbers and (name := group.topic_name(topic_id)) is not None
            }
            member.assignment = encode_assignment(assigned, version=version)
    except PeerError as error:
        context.log(f"Cannot downgrade the consumer group {group.group_id}: fail to parse the Consumer Protocol consumer.")
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group.group_id}: {error}.") from error
    return classic


def _convert(context: CommandContext, classic: ClassicGroup) -> None:
    """Put the classic group in the place of the consumer group, and record it."""
    values = tuple(member.value(classic.protocol, member.assignment) for member in classic.members.values())
    context.records.append(classic.record(values, leader=classic.leader))
    context.state.convert_group(classic)
    state = classic.state_name
    members = assigned_members(classic.protocol_type, values)
    context.emit_change(classic, "converted", state, state, members=members, reason="Converted the consumer group to a classic group.")
    for member in classic.members.values():
        member.restart_session(context)


def _member(context: CommandContext, group: ConsumerGroup, member: ConsumerMember) -> Member:
    assert member.classic is not None, f"{member.member_id} is of the consumer protocol"
    return Member(
        group.group_id,
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols),
        now_ms=context.timer_ms,
    )
