"""ConsumerGroupHeartbeat: a member joins, says what it subscribes to and owns, keeps its session, and gets its assignment.

In Kafka's order: group and member are looked up, the member's record is updated, regular expressions are looked at, the group epoch is
increased, the target computed, and the member reconciled with it (member_update.py). Leaving is in departures.py. A refused request
changes nothing.
"""

from dataclasses import replace
from typing import NoReturn

from ottla.groups.commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResult, heartbeat_problem
from ottla.groups.consumer.departures import leave_by_heartbeat
from ottla.groups.consumer.group import ConsumerGroup, find_consumer_group
from ottla.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerMember, is_within
from ottla.groups.consumer.member_update import MemberEntry, MemberUpdate, replacement
from ottla.groups.consumer.reconciliation import RequestRefused
from ottla.groups.events import GroupEvent, TriggerCode
from ottla.groups.group import CommandContext
from ottla.groups.log.records import refuse_long_strings
from ottla.groups.settings import HEARTBEAT_INTERVAL
from ottla.protocol.errors import ErrorCode

_REJOIN = "The member must abandon all its partitions and rejoin."


def consumer_heartbeat(context: CommandContext, command: ConsumerGroupHeartbeat) -> None:
    """Answer a heartbeat to a consumer group, or to none: the first member creates its group."""
    texts = command.group_id, command.member_id, command.instance_id, command.rack_id, command.client_id, command.client_host
    refuse_long_strings(*texts, command.regex, *(command.topics or ()))
    try:
        problem = heartbeat_problem(command, context.settings)
        if problem is not None:
            raise RequestRefused(*problem)
        result = _decide(context, command)
    except RequestRefused as refused:
        context.records.clear()
        context.events.clear()
        group = find_consumer_group(context.state, command.group_id)
        if group is not None and refused.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            _emit_refusal(context, group, command)
        result = ConsumerGroupHeartbeatResult(error=refused.error, message=refused.message)
    context.reply(command.reply_to, result)


def _decide(context: CommandContext, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResult:
    found = context.state.groups.get(command.group_id)
    if command.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        if found is None:
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
        assert isinstance(found, ConsumerGroup)
        return leave_by_heartbeat(context, found, command)
    if found is None and command.member_epoch != JOIN_EPOCH:
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {command.group_id} not found.")
    group = found or ConsumerGroup(command.group_id, context.state, now_ms=context.now_ms)
    assert isinstance(group, ConsumerGroup)
    return heartbeat_of_member(context, group, command)


def heartbeat_of_member(context: CommandContext, group: ConsumerGroup, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResult:
    """Handle the heartbeat of a member that joins or stays."""
    refuse_over_capacity(context, group, command.member_id)
    entry = _enter(context, group, command)
    update = MemberUpdate(
        context,
        group,
        entry,
        _updated(entry.member, command),
        owned=command.owned,
        may_describe=command.may_describe,
        client_port=command.client_port,
    )
    update.subscribe()
    update.assign()
    reconciled = update.reconcile()
    context.state.groups[group.group_id] = group
    group.arm_session(context, reconciled)
    return _result(context, group, command, entry.member, reconciled)


def refuse_over_capacity(context: CommandContext, group: ConsumerGroup, member_id: str) -> None:
    """Raise RequestRefused for a member that comes to a full group."""
    size_max = context.settings.consumer_max_size
    if len(group.durable.members) >= size_max and member_id not in group.durable.members:
        message = f"The consumer group has reached its maximum capacity of {size_max} members."
        raise RequestRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _result(
    context: CommandContext, group: ConsumerGroup, command: ConsumerGroupHeartbeat, before: ConsumerMember, member: ConsumerMember
) -> ConsumerGroupHeartbeatResult:
    is_full = command.rebalance_timeout_ms != -1 and (command.topics is not None or command.regex is not None) and command.owned is not None
    shows = command.member_epoch == JOIN_EPOCH or is_full or member.assigned != before.assigned
    return ConsumerGroupHeartbeatResult(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=context.group_number(group, HEARTBEAT_INTERVAL),
        assignment={topic_id: sorted(numbers) for topic_id, numbers in member.assigned.items()} if shows else None,
    )


def _enter(context: CommandContext, group: ConsumerGroup, command: ConsumerGroupHeartbeat) -> MemberEntry:
    """The member that the request is of. Raises RequestRefused."""
    durable, group_id, instance_id = group.durable, group.group_id, command.instance_id
    member_id = command.member_id or command.new_member_id
    known = durable.members.get(member_id)
    is_joining = command.member_epoch == JOIN_EPOCH
    prefix = f"[GroupId {group_id}] "
    if instance_id is None:
        if known is None:
            if not is_joining:
                raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
            context.log(f"{prefix}Member {member_id} joins the consumer group using the consumer protocol.")
            return MemberEntry(ConsumerMember(member_id=member_id), is_new=True)
        _check_epoch(known, command)
        if is_joining:
            context.log(f"{prefix}Member {member_id} joins the consumer group using the consumer protocol.")
        return MemberEntry(known)
    holder_id = durable.static_members.get(instance_id)
    holder = None if holder_id is None else durable.members.get(holder_id)
    if not is_joining:
        if holder is None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder.member_id != member_id:
            refuse_fenced(context, group, holder, member_id)
        _check_epoch(holder, command)
        return MemberEntry(holder)
    if holder is None:
        context.log(
            f"{prefix}Static member {member_id} with instance id {instance_id} joins the consumer group using the consumer protocol."
        )
        return MemberEntry(known or ConsumerMember(member_id=member_id), is_new=known is None)
    if not holder.is_away and not holder.is_classic:
        context.log(
            f"{prefix}Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned "
            f"by member {holder.member_id}."
        )
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned "
            f"by {holder.member_id} member."
        )
        raise RequestRefused(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    context.log(
        f"{prefix}Static member with instance id {instance_id} re-joins the consumer group using the consumer protocol. "
        f"Created a new member {member_id} to replace the existing member {holder.member_id}."
    )
    return replacement(holder, member_id)


def _emit_refusal(context: CommandContext, group: ConsumerGroup, command: ConsumerGroupHeartbeat) -> None:
    """A member may not join as long as another one has its instance id; the evidence is of that one."""
    durable, instance_id = group.durable, command.instance_id or ""
    state = group.state_name
    context.events.append(
        GroupEvent(
            at_ms=context.now_ms,
            group=group.group_id,
            kind="join_refused",
            generation=durable.epoch,
            state_from=state,
            state_to=state,
            trigger=TriggerCode.STATIC_FENCED.value,
            member_id=command.member_id or command.new_member_id,
            instance_id=instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            protocol=group.protocol,
            evidence=group.liveness(context, durable.members[durable.static_members[instance_id]]),
            group_type=group.group_type,
        )
    )


def _check_epoch(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> None:
    """A member that rejoins with epoch 0 is always let in; one that did not get the last response may be one epoch behind."""
    received, known = command.member_epoch, member.member_epoch
    if received in (JOIN_EPOCH, known):
        return
    is_behind = received < known and received == member.previous_member_epoch
    if is_behind and command.owned is not None and is_within(command.owned, member.assigned):
        return
    comparison = "greater" if received > known else "smaller"
    message = (
        f"The consumer group member has a {comparison} member epoch ({received}) than the one known by the group coordinator ({known}). "
        f"{_REJOIN}"
    )
    raise RequestRefused(ErrorCode.FENCED_MEMBER_EPOCH, message)


def refuse_fenced(context: CommandContext, group: ConsumerGroup, holder: ConsumerMember, member_id: str) -> NoReturn:
    """Another member has the instance id. Raises RequestRefused."""
    text = f"Static member {member_id} with instance id {holder.instance_id}"
    context.log(f"[GroupId {group.group_id}] {text} is fenced by existing member {holder.member_id}.")
    raise RequestRefused(ErrorCode.FENCED_INSTANCE_ID, f"{text} was fenced by member {holder.member_id}.")


def _updated(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> ConsumerMember:
    """The member with what the request says; what it leaves out stays."""
    return replace(
        member,
        instance_id=member.instance_id if command.instance_id is None else command.instance_id,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if command.rebalance_timeout_ms == -1 else command.rebalance_timeout_ms,
        client_id=command.client_id,
        client_host=command.client_host,
        topics=member.topics if command.topics is None else command.topics,
        regex=member.regex if command.regex is None else command.regex,
        assignor=member.assignor if command.assignor is None else command.assignor,
        classic=None,
    )
