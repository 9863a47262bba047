"""Members that go: they leave, an administrator removes them, or a timeout fences them. One increase of the group epoch for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ottla.groups.classic.leave import code_of_leave
from ottla.groups.classic.member import port_evidence
from ottla.groups.classic.rebalance import Trigger
from ottla.groups.commands import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    EvictMember,
    ExpireMember,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    LeftMember,
)
from ottla.groups.consumer.downgrade import downgrade_without, may_become_classic
from ottla.groups.consumer.epochs import Bump, bump_epoch
from ottla.groups.consumer.group import ConsumerGroup, find_consumer_group
from ottla.groups.consumer.group_state import CURRENT, MEMBER, REGEX, TARGET
from ottla.groups.consumer.member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerMember
from ottla.groups.consumer.reconciliation import RequestRefused
from ottla.groups.events import TriggerCode, reason_or_default
from ottla.groups.group import CommandContext
from ottla.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedMember:
    """A member that is removed, and why."""

    member: ConsumerMember
    code: TriggerCode
    reason: str
    client_reason: str | None = None
    evidence: Mapping[str, int] | None = None


def fence(context: CommandContext, group: ConsumerGroup, departures: Sequence[FencedMember]) -> None:
    """Remove members. The next heartbeat of another member computes the new target.

    If only members of the classic protocol remain, the group becomes a classic one.
    """
    durable = group.durable
    members = [departure.member for departure in departures]
    if may_become_classic(context, group, members, size=len(durable.members) - len(members)):
        try:
            downgrade_without(context, group, [member.member_id for member in members], [_trigger(departure) for departure in departures])
        except RequestRefused:
            # A member cannot be kept from leaving by what another one has written: it stays a consumer group.
            pass
        else:
            return
    subscriptions = durable.subscriptions.changed(None, None)
    for departure in departures:
        member = departure.member
        for record_type in (CURRENT, TARGET, MEMBER):
            context.records.append(group.record(record_type, member.member_id, None))
        subscriptions.change(member, None)
        group.cancel_timers(context, member.member_id)
    resolved = {regex: found for regex, found in durable.regexes.items() if regex in subscriptions.regexes}
    context.records.extend(
        # As in Kafka, also of one that was not looked up yet.
        group.record(REGEX, regex, None)
        for regex in durable.subscriptions.regexes
        if regex not in subscriptions.regexes
    )
    bumps = [
        Bump(
            code=departure.code,
            reason=departure.reason,
            member=departure.member,
            client_reason=departure.client_reason,
            evidence=departure.evidence,
        )
        for departure in departures
    ]
    is_emptied = len(departures) == len(durable.members)
    bump_epoch(context, group, bumps, subscriptions, resolved, is_emptied=is_emptied)


def _trigger(departure: FencedMember) -> Trigger:
    return Trigger(
        code=departure.code,
        reason=departure.reason,
        member=departure.member,
        client_reason=departure.client_reason,
        evidence=departure.evidence,
    )


def leave_by_heartbeat(context: CommandContext, group: ConsumerGroup, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResult:
    """A heartbeat with epoch -1, or -2 of a static member that will come back. Its epoch is not checked."""
    durable, group_id, member_id = group.durable, group.group_id, command.member_id
    if command.instance_id is None:
        member = durable.members.get(member_id)
        if member is None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
        name = f"Member {member_id}"
    else:
        member = durable.members.get(durable.static_members.get(command.instance_id, ""))
        if member is None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {command.instance_id} is unknown.")
        name = f"Static member {member_id} with instance id {command.instance_id}"
        if member.member_id != member_id:
            context.log(f"[GroupId {group_id}] {name} is fenced by existing member {member.member_id}.")
            raise RequestRefused(ErrorCode.FENCED_INSTANCE_ID, f"{name} was fenced by member {member.member_id}.")
    if command.member_epoch == LEAVE_EPOCH:
        context.log(f"[GroupId {group_id}] {name} left the consumer group.")
        evidence = {**group.liveness(context, member), **port_evidence(command.client_port)}
        fence(context, group, [FencedMember(member=member, code=TriggerCode.LEAVE, reason=f"member {member_id} left", evidence=evidence)])
    else:
        context.log(f"[GroupId {group_id}] {name} temporarily left the consumer group.")
        away = replace(
            member,
            member_epoch=LEAVE_STATIC_EPOCH,
            assigned={topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.assigned.items()},
            pending={},
        )
        context.records.append(group.record(CURRENT, member.member_id, away.assignment_value()))
        state = group.state_name
        context.emit_change(group, "static_left", state, state, members=(group.event_member(member, group.by_name(member.assigned)),))
    return ConsumerGroupHeartbeatResult(error=ErrorCode.NONE, member_id=member.member_id, member_epoch=command.member_epoch)


def leave_group(context: CommandContext, command: LeaveGroup) -> None:
    """LeaveGroup, by which administrators remove members: each with its own error, all good ones at once."""
    group = find_consumer_group(context.state, command.group_id)
    assert group is not None
    departures: dict[str, FencedMember] = {}
    left = []
    for leaving in command.members:
        error = _leave(context, group, leaving, departures)
        left.append(LeftMember(member_id=leaving.member_id, instance_id=leaving.instance_id, error=error))
    context.reply(command.reply_to, LeaveResult(error=ErrorCode.NONE, members=tuple(left)))
    if departures:
        fence(context, group, list(departures.values()))


def _leave(context: CommandContext, group: ConsumerGroup, leaving: LeavingMember, departures: dict[str, FencedMember]) -> ErrorCode:
    durable, text = (
        group.durable,
        f"has left group through explicit `LeaveGroup` request; client reason: {reason_or_default(leaving.reason)}",
    )
    if leaving.instance_id is None:
        member = durable.members.get(leaving.member_id)
        name = f"Dynamic member {leaving.member_id}"
    else:
        member = durable.members.get(durable.static_members.get(leaving.instance_id, ""))
        if member is not None and leaving.member_id and leaving.member_id != member.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        name = f"Static member {leaving.member_id} with instance id {leaving.instance_id}"
    if member is None or member.member_id in departures:
        return ErrorCode.UNKNOWN_MEMBER_ID
    context.log(f"[GroupId {group.group_id}] {name} {text}")
    departures[member.member_id] = FencedMember(
        member=member,
        # Members of the consumer protocol leave by heartbeats: only an administrator removes them so.
        code=code_of_leave(leaving) if member.is_classic else TriggerCode.ADMIN_REMOVE,
        reason=f"explicit `LeaveGroup` request for ({member.member_id}) members.",
        client_reason=leaving.reason,
        evidence=group.liveness(context, member),
    )
    return ErrorCode.NONE


def evict_member(context: CommandContext, command: EvictMember) -> None:
    """Remove one member. Without effects if there is no such member."""
    group = find_consumer_group(context.state, command.group_id)
    member = None if group is None else group.durable.members.get(command.member_id)
    if group is not None and member is not None:
        evidence = group.liveness(context, member)
        fence(context, group, [FencedMember(member=member, code=TriggerCode.ADMIN_REMOVE, reason=command.reason, evidence=evidence)])


def expire_member(context: CommandContext, command: ExpireMember) -> None:
    """End a session before its time. Without effects if there is no such member."""
    expire_session(context, command.group_id, command.member_id)


def expire_session(context: CommandContext, group_id: str, member_id: str) -> None:
    """A member sent no heartbeat in its session timeout."""
    _expire(context, group_id, member_id, TriggerCode.EXPIRE_HEARTBEAT, "the member session expired")


def expire_revocation(context: CommandContext, group_id: str, member_id: str) -> None:
    """A member did not give up its partitions within its rebalance timeout. If its epoch changed since, nothing happens."""
    group = find_consumer_group(context.state, group_id)
    member = None if group is None else group.durable.members.get(member_id)
    if group is None or member is None or group.timers_of(member_id).revocation_epoch != member.member_epoch:
        return
    reason = f"it failed to transition from epoch {member.member_epoch} within {member.rebalance_timeout_ms}ms"
    _expire(context, group_id, member_id, TriggerCode.REBALANCE_TIMEOUT, reason)


def expire_classic_join(context: CommandContext, group_id: str, member_id: str) -> None:
    """A member of the classic protocol did not join again in its rebalance timeout."""
    reason = "the classic member failed to join within the rebalance timeout"
    _expire_classic(context, group_id, member_id, TriggerCode.JOIN_TIMEOUT, reason)


def expire_classic_sync(context: CommandContext, group_id: str, member_id: str) -> None:
    """A member of the classic protocol joined, and sent no SyncGroup in its rebalance timeout."""
    _expire_classic(context, group_id, member_id, TriggerCode.SYNC_TIMEOUT, "the member failed to sync within timeout")


def _expire_classic(context: CommandContext, group_id: str, member_id: str, code: TriggerCode, reason: str) -> None:
    group = find_consumer_group(context.state, group_id)
    member = None if group is None else group.durable.members.get(member_id)
    if member is not None and member.is_classic:
        _expire(context, group_id, member_id, code, reason)


def _expire(context: CommandContext, group_id: str, member_id: str, code: TriggerCode, reason: str) -> None:
    group = find_consumer_group(context.state, group_id)
    member = None if group is None else group.durable.members.get(member_id)
    if group is None:
        return
    if member is None:
        group.cancel_timers(context, member_id)
        return
    context.log(f"[GroupId {group_id}] Member {member_id} fenced from the group because {reason}.")
    fence(context, group, [FencedMember(member=member, code=code, reason=reason, evidence=group.liveness(context, member))])
