"""Members of the classic protocol in a consumer group: their JoinGroup, SyncGroup and Heartbeat (KIP-848, online migration).

To such a member a rebalance is what it knows: REBALANCE_IN_PROGRESS, JoinGroup, SyncGroup. But it is answered at once, by its own way to
its target: no member waits for another one, none leads, and the generation is the member's epoch. LeaveGroup is in departures.py.
"""

from dataclasses import replace

from ottla.groups.classic.join import join_group as join_classic_group
from ottla.groups.commands import Heartbeat, HeartbeatResult, JoinGroup, JoinResult, SyncGroup, SyncResult
from ottla.groups.consumer.downgrade import downgrade_with, may_become_classic
from ottla.groups.consumer.group import ConsumerGroup, find_consumer_group
from ottla.groups.consumer.heartbeat import refuse_fenced, refuse_over_capacity
from ottla.groups.consumer.member import ConsumerMember, ReconciliationState
from ottla.groups.consumer.member_update import MemberEntry, MemberUpdate, replacement
from ottla.groups.consumer.reconciliation import RequestRefused
from ottla.groups.group import CommandContext
from ottla.groups.log.records import refuse_long_strings
from ottla.protocol.coordinator_records import ClassicMemberMetadata, ClassicProtocol
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    encode_assignment,
    parse_subscription,
    protocol_version,
)


def join_group(context: CommandContext, command: JoinGroup) -> None:
    """A member of the classic protocol comes to a consumer group; one without members becomes a classic group."""
    texts = command.group_id, command.member_id, command.instance_id, command.client_id, command.client_host, command.new_member_id
    refuse_long_strings(*texts, *[name for name, _ in command.protocols])
    group = find_consumer_group(context.state, command.group_id)
    assert group is not None
    if not context.settings.allows_session_timeout(command.session_timeout_ms):
        context.reply(command.reply_to, JoinResult(error=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=command.member_id))
        return
    if group.is_empty:
        _join_empty_group(context, group, command)
        return
    try:
        result = _join(context, group, command)
    except RequestRefused as refused:
        context.records.clear()
        context.events.clear()
        context.state.groups[group.group_id] = group
        result = JoinResult(error=refused.error, member_id="")
    context.reply(command.reply_to, result)


def _join_empty_group(context: CommandContext, group: ConsumerGroup, command: JoinGroup) -> None:
    if command.member_id:
        context.reply(command.reply_to, JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=command.member_id))
        return
    del context.state.groups[group.group_id]
    join_classic_group(context, command)
    classic = context.state.groups.pop(group.group_id)
    context.state.groups[group.group_id] = group
    context.state.convert_group(classic)
    context.records[:0] = group.tombstones()
    reason = "Converted the empty consumer group to a classic group."
    context.log(f"[GroupId {command.group_id}] {reason}")
    joined = list(context.events)
    context.events.clear()
    context.emit_change(classic, "converted", "Empty", "Empty", reason=reason)
    context.events += joined


def _join(context: CommandContext, group: ConsumerGroup, command: JoinGroup) -> JoinResult:
    member_id = command.member_id or command.new_uuid
    refuse_over_capacity(context, group, member_id)
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.durable.classic.support(name for name, _ in command.protocols):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)
    if not command.member_id and command.instance_id is None and command.require_known_member_id:
        # The id is not remembered: whoever comes with one is let in.
        context.log(
            f"[GroupId {group.group_id}] Dynamic member with unknown member id joins the consumer group. "
            f"Created a new member id {member_id} and requesting the member to rejoin with this id."
        )
        return JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    durable = group.durable
    holder = None if command.instance_id is None else durable.members.get(durable.static_members.get(command.instance_id, ""))
    entry = _enter(context, group, command, member_id, holder)
    downgrades = holder is not None and not holder.is_classic and may_become_classic(context, group, [holder], size=len(durable.members))
    subscription = _subscription(command)
    owned = _by_id(context, subscription)
    update = MemberUpdate(
        context,
        group,
        entry,
        _updated(entry.member, command, subscription),
        owned=owned,
        may_describe=command.may_describe,
        client_port=command.client_port,
    )
    update.subscribe()
    if holder is not None and downgrades:
        is_stale = durable.assignment_epoch < update.epoch
        joined = update.member if is_stale else update.reconcile()
        downgrade_with(context, group, holder, joined, is_stale=is_stale)
    else:
        update.assign()
        joined = update.reconcile()
        group.arm_session(context, joined)
        group.expect_sync(context, joined)
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=joined.member_id,
        generation=joined.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=joined.classic_protocol.name,
    )


def _enter(context: CommandContext, group: ConsumerGroup, command: JoinGroup, member_id: str, holder: ConsumerMember | None) -> MemberEntry:
    """The member that joins; `holder` is the present one of its instance id. A dynamic member may come with any id."""
    known = group.durable.members.get(member_id)
    instance_id, prefix = command.instance_id, f"[GroupId {group.group_id}]"
    if instance_id is None:
        if known is None:
            context.log(f"{prefix} Member {member_id} joins the consumer group using the classic protocol.")
            return MemberEntry(ConsumerMember(member_id=member_id), is_new=True)
        return MemberEntry(known)
    if command.member_id:
        if holder is None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, None)
        if holder.member_id != member_id:
            refuse_fenced(context, group, holder, member_id)
        return MemberEntry(holder)
    if holder is None:
        context.log(
            f"{prefix} Static member {member_id} with instance id {instance_id} joins the consumer group using the classic protocol."
        )
        return MemberEntry(ConsumerMember(member_id=member_id), is_new=True)
    context.log(
        f"{prefix} Static member with instance id {instance_id} re-joins the consumer group using the classic protocol. "
        f"Created a new member {member_id} to replace the existing member {holder.member_id}."
    )
    return replacement(holder, member_id)


def _subscription(command: JoinGroup) -> Subscription:
    try:
        return parse_subscription(command.protocols[0][1])
    except PeerError as error:
        raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR, None) from error


def _by_id(context: CommandContext, subscription: Subscription) -> dict[bytes, tuple[int, ...]]:
    """What it owns, as far as the topics exist. Eager members own nothing while they join, so that they have given up everything."""
    topics = context.state.topics.topics
    return {topics[name].topic_id: numbers for name, numbers in subscription.owned.items() if name in topics}


def _updated(member: ConsumerMember, command: JoinGroup, subscription: Subscription) -> ConsumerMember:
    """The member with what the request says. A regular expression of a member before it ends: the classic protocol has none."""
    return replace(
        member,
        instance_id=member.instance_id if command.instance_id is None else command.instance_id,
        rack_id=subscription.rack or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if command.rebalance_timeout_ms == -1 else command.rebalance_timeout_ms,
        client_id=command.client_id,
        client_host=command.client_host,
        topics=frozenset(subscription.topics),
        regex="",
        classic=ClassicMemberMetadata(
            session_timeout_ms=command.session_timeout_ms,
            supported_protocols=tuple(ClassicProtocol(name=name, metadata=metadata) for name, metadata in command.protocols),
        ),
    )


def sync_group(context: CommandContext, command: SyncGroup) -> None:
    """Give a member of the classic protocol its assignment; one that it sends is ignored, since the coordinator assigns."""
    group = find_consumer_group(context.state, command.group_id)
    assert group is not None
    try:
        member = _member(context, group, command)
        protocol = member.classic_protocol
        if command.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or command.protocol_name not in (None, protocol.name):
            raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)
        is_behind = member.member_epoch < group.durable.assignment_epoch
        if is_behind and member.state is not ReconciliationState.UNREVOKED_PARTITIONS:
            group.expect_join(context, member)
            raise RequestRefused(ErrorCode.REBALANCE_IN_PROGRESS, None)
        version = protocol_version(protocol.metadata)
    except RequestRefused as refused:
        context.reply(command.reply_to, SyncResult(error=refused.error))
        return
    except PeerError:
        # After an upgrade: only what the classic group had selected was read.
        context.reply(command.reply_to, SyncResult(error=ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    group.synced(context, member)
    group.arm_session(context, member)
    assigned = {
        name: sorted(numbers)
        for topic_id, numbers in member.assigned.items()
        if numbers and (name := group.topic_name(topic_id)) is not None
    }
    result = SyncResult(
        error=ErrorCode.NONE,
        protocol_type=command.protocol_type,
        protocol_name=command.protocol_name,
        assignment=encode_assignment(assigned, version=version),
    )
    context.reply(command.reply_to, result)


def heartbeat(context: CommandContext, command: Heartbeat) -> None:
    """Keep the session of a member of the classic protocol, and say whether it must join again to come nearer to its target."""
    group = find_consumer_group(context.state, command.group_id)
    assert group is not None
    try:
        member = _member(context, group, command)
    except RequestRefused as refused:
        context.reply(command.reply_to, HeartbeatResult(error=refused.error))
        return
    group.arm_session(context, member)
    error = ErrorCode.NONE
    if _must_join(group, member):
        group.expect_join(context, member)
        error = ErrorCode.REBALANCE_IN_PROGRESS
    context.reply(command.reply_to, HeartbeatResult(error=error))


def _must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.member_epoch < group.durable.assignment_epoch or member.state is ReconciliationState.UNREVOKED_PARTITIONS:
        return True
    return member.state is ReconciliationState.UNRELEASED_PARTITIONS and not group.durable.waits_for_others(member)


def _member(context: CommandContext, group: ConsumerGroup, command: SyncGroup | Heartbeat) -> ConsumerMember:
    """The member of the classic protocol that a request is of, at its epoch. Raises RequestRefused."""
    durable = group.durable
    if command.instance_id is None:
        member = durable.members.get(command.member_id)
    else:
        member = durable.members.get(durable.static_members.get(command.instance_id, ""))
        if member is not None and member.member_id != command.member_id:
            refuse_fenced(context, group, member, command.member_id)
    if member is None or not member.is_classic:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, None)
    if command.generation != member.member_epoch:
        raise RequestRefused(ErrorCode.ILLEGAL_GENERATION, None)
    return member
