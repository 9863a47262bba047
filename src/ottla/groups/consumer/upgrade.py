"""A classic group becomes a consumer group: at once if it has no members, and with its members if the policy allows it (KIP-848).

Its members stay, of the classic protocol, each with the assignment that it had: nobody stops reading. The first heartbeat's target then
moves partitions, as for any member that joins.
"""

from collections.abc import Iterable
from typing import NoReturn

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.member import Member
from ottla.groups.commands import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    JoinResult,
    SyncResult,
    heartbeat_problem,
)
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.group_state import CURRENT, EPOCH, MEMBER, TARGET, TARGET_EPOCH
from ottla.groups.consumer.heartbeat import consumer_heartbeat
from ottla.groups.consumer.member import JOIN_EPOCH, ConsumerMember, target_value
from ottla.groups.consumer.reconciliation import RequestRefused
from ottla.groups.group import CommandContext
from ottla.groups.log.records import GroupRecord
from ottla.protocol.coordinator_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadataValue,
    TargetAssignmentMetadataValue,
)
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, has_user_data, parse_assignment, parse_subscription

_CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before re-attempting the "
    "upgrade."
)


def heartbeat_at_classic_group(context: CommandContext, command: ConsumerGroupHeartbeat) -> None:
    """A member of the consumer protocol comes to a classic group."""
    problem = heartbeat_problem(command, context.settings)
    classic = context.state.groups[command.group_id]
    assert isinstance(classic, ClassicGroup)
    if problem is None and (command.member_epoch != JOIN_EPOCH or classic.is_dead):
        problem = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} is not a consumer group."
    if problem is not None:
        context.reply(command.reply_to, ConsumerGroupHeartbeatResult(error=problem[0], message=problem[1]))
        return
    group = ConsumerGroup(command.group_id, context.state, now_ms=context.now_ms)
    what = "the empty classic group"
    records: list[GroupRecord] = [*classic.tombstones()]
    if not classic.is_empty:
        what = "the classic group"
        try:
            _refuse_upgrade(context, classic)
            _release_parked(context, classic)
            records += _convert(context, classic, group)
        except RequestRefused as refused:
            context.reply(command.reply_to, ConsumerGroupHeartbeatResult(error=refused.error, message=refused.message))
            return
    context.log(f"[GroupId {command.group_id}] Converted {what} to a consumer group.")
    context.state.convert_group(group)
    state = group.state_name
    members = tuple(group.event_member(member, group.by_name(member.assigned)) for member in group.durable.members.values())
    context.emit_change(group, "converted", state, state, members=members, reason=f"Converted {what} to a consumer group.")
    converted = list(context.events)
    context.events.clear()
    consumer_heartbeat(context, command)
    if not context.records:
        # It was refused.
        context.state.undo_conversion(group)
        return
    context.records[:0] = records
    context.events[:0] = converted


def _refuse_upgrade(context: CommandContext, classic: ClassicGroup) -> None:
    if not context.settings.consumer_migration_policy.allows_upgrade:
        why = "online upgrade is disabled."
    elif classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        why = "the group does not use the consumer embedded protocol."
    elif len(classic.members) > context.settings.consumer_max_size:
        why = "the group size exceeds the consumer group maximum size."
    else:
        return
    _refuse(context, classic, why)


def _refuse(context: CommandContext, classic: ClassicGroup, why: str) -> NoReturn:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    context.log(message)
    raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _release_parked(context: CommandContext, classic: ClassicGroup) -> None:
    """Answer requests that wait for the classic rebalance: the members join again. As in Kafka, also if the conversion fails."""
    for member in classic.members.values():
        joining = classic.unpark_join(member)
        if joining is not None:
            context.reply(joining, JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
        if member.awaiting_sync is not None:
            context.reply(member.awaiting_sync, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
            member.awaiting_sync = None


def _convert(context: CommandContext, classic: ClassicGroup, group: ConsumerGroup) -> Iterable[GroupRecord]:
    """Give the new group the members of the classic one; returns the records that say so, to which it replays."""
    try:
        members = [_member(context, group, classic, member) for member in classic.members.values()]
    except PeerError:
        _refuse(context, classic, "the embedded consumer protocol is malformed.")
    topics = {topic for member in members for topic in member.topics}
    metadata_hash = context.state.topic_hashes.of_group(topics, context.state.topics.topics)
    epoch = classic.generation
    records = [
        *(group.record(MEMBER, member.member_id, member.metadata_value()) for member in members),
        group.record(EPOCH, "", ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)),
        *(group.record(TARGET, member.member_id, target_value(member.assigned)) for member in members),
        group.record(TARGET_EPOCH, "", TargetAssignmentMetadataValue(assignment_epoch=epoch)),
        *(group.record(CURRENT, member.member_id, member.assignment_value()) for member in members),
    ]
    for record in records:
        group.durable.apply(record)
    group.generation = epoch
    for member in members:
        group.arm_session(context, member)
    return records


def _member(context: CommandContext, group: ConsumerGroup, classic: ClassicGroup, member: Member) -> ConsumerMember:
    """Raises PeerError for bytes that are not the consumer protocol's, RequestRefused for an assignor's own data."""
    if has_user_data(member.assignment):
        _refuse(context, classic, _CUSTOM_ASSIGNOR)
    # Before its first generation a group has no protocol yet.
    subscription = parse_subscription(member.metadata(classic.protocol or classic.select_protocol()))
    assigned: dict[bytes, dict[int, int]] = {}
    for name, numbers in parse_assignment(member.assignment).items():
        topic = group.topics.topics.get(name)
        if topic is not None and numbers:
            assigned[topic.topic_id] = dict.fromkeys(numbers, classic.generation)
    protocols = tuple(ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols)
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=classic.generation,
        previous_member_epoch=classic.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMemberMetadata(session_timeout_ms=member.session_timeout_ms, supported_protocols=protocols),
    )
