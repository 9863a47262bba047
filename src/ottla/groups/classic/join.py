"""JoinGroup: checks, new members and their ids, members that join again, static members that return; the rebalance that each triggers.

Parked requests are answered in rebalance.
"""

from ottla.coordinator.timers import Timer
from ottla.groups.classic.group import ClassicGroup, Staged, find_group
from ottla.groups.classic.member import SESSION, Member, Protocols, assigned_members, port_evidence
from ottla.groups.classic.rebalance import (
    Trigger,
    complete_if_all_joined,
    emit_trigger,
    joined_result,
    remove_member,
    trigger_rebalance,
)
from ottla.groups.classic.states import ANSWERS, PARK, GroupState
from ottla.groups.commands import JoinGroup, JoinMember, JoinResult, SyncResult
from ottla.groups.events import GroupEvent, TriggerCode, reason_or_default
from ottla.groups.group import CommandContext
from ottla.groups.log.records import refuse_long_strings
from ottla.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.consumer_protocol import parse_subscription


def join_group(context: CommandContext, command: JoinGroup) -> None:
    """Answer a JoinGroup, or park it."""
    texts = [command.group_id, command.instance_id, command.client_id, command.client_host, command.protocol_type, command.new_member_id]
    refuse_long_strings(*texts, *[name for name, _ in command.protocols])
    if not context.settings.allows_session_timeout(command.session_timeout_ms):
        _refuse(context, command, ErrorCode.INVALID_SESSION_TIMEOUT)
        return
    group = find_group(context.state, command.group_id)
    if group is None:
        _join_unknown_group(context, command)
    elif not _has_capacity(context, group, command.member_id):
        _reject_over_capacity(context, group, command)
    elif ANSWERS[group.state].join_new is not PARK:
        _refuse(context, command, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not group.supports(command.protocol_type, command.protocols):
        _refuse_protocols(context, group, command)
    elif not command.member_id:
        _join_new(context, group, command)
    elif command.member_id in group.pending:
        _join_pending(context, group, command)
    else:
        _join_existing(context, group, command)


def _refuse(context: CommandContext, command: JoinGroup, error: ErrorCode) -> None:
    context.reply(command.reply_to, JoinResult(error=error, member_id=command.member_id))


def _refuse_protocols(context: CommandContext, group: ClassicGroup, command: JoinGroup) -> None:
    """It shares no assignor with the members, or is of another type. Apache Kafka says so to nobody but the client."""
    names = ", ".join(name for name, _ in command.protocols)
    reason = f"it has {names or 'nothing'} of type {command.protocol_type}, which not all members have."
    context.log(f"Refused to let {command.client_id} join group {group.group_id}: {reason}")
    context.events.append(
        GroupEvent(
            at_ms=context.now_ms,
            group=group.group_id,
            kind="join_refused",
            generation=group.generation,
            state_from=group.state.value,
            state_to=group.state.value,
            reason=reason,
            client_id=command.client_id,
            client_host=command.client_host,
            protocol=group.protocol,
        )
    )
    _refuse(context, command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _join_unknown_group(context: CommandContext, command: JoinGroup) -> None:
    if command.member_id:
        _refuse(context, command, ErrorCode.UNKNOWN_MEMBER_ID)
        return
    group = ClassicGroup(command.group_id, now_ms=context.now_ms)
    context.state.groups[command.group_id] = group
    # As in Kafka, a record without members makes a new group durable before its first generation.
    context.records.append(group.record((), leader=None))
    if group.supports(command.protocol_type, command.protocols):
        _join_new(context, group, command)
    else:
        # As in Kafka 4, the group exists nevertheless, until the next expiry pass deletes it.
        _refuse(context, command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _has_capacity(context: CommandContext, group: ClassicGroup, member_id: str) -> bool:
    """Whether `group.max.size` admits the member; in PreparingRebalance the parked members count, so the last to join are rejected."""
    size_max = context.settings.group_max_size
    if group.state is GroupState.PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < size_max
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return member_id in group.members or len(group.members) < size_max
    return True


def _reject_over_capacity(context: CommandContext, group: ClassicGroup, command: JoinGroup) -> None:
    """Reject a member, and remove it if it was one. As in Kafka, the removal completes no join phase: the join timer does."""
    context.reply(command.reply_to, JoinResult(error=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=""))
    timer = group.pending.get(command.member_id)
    member = group.members.get(command.member_id)
    if timer is not None:
        context.cancel(timer)
        group.remove(command.member_id)
    elif member is not None:
        evidence = {"group_size": len(group.members), "group_size_max": context.settings.group_max_size}
        reason = f"Group {group.group_id} has reached its maximum size; member {member.member_id} is turned away."
        remove_member(context, group, member)
        emit_trigger(context, group, Trigger(code=TriggerCode.CAPACITY, reason=reason, member=member, evidence=evidence))


def _join_new(context: CommandContext, group: ClassicGroup, command: JoinGroup) -> None:
    instance_id, member_id, state = command.instance_id, command.new_member_id, group.state.value
    if instance_id is not None:
        start = f"Static member with groupInstanceId={instance_id} and unknown member id joins group {group.group_id} in {state} state."
        replaced_id = group.static_members.get(instance_id)
        if replaced_id is not None:
            context.log(f"{start} Replacing previously mapped member {replaced_id} with this groupInstanceId.")
            replace_static_member(context, group, command, replaced_id)
            return
        context.log(f"{start} Created a new member id {member_id} for this member and added to the group.")
        _add(context, group, command, member_id)
    elif command.require_known_member_id:
        context.log(
            f"Dynamic member with unknown member id joins group {group.group_id} in {state} state. "
            f"Created a new member id {member_id} and requesting the member to rejoin with this id."
        )
        timer = group.pending[member_id] = Timer(SESSION, group.group_id, member_id)
        context.arm(timer, command.session_timeout_ms)
        context.reply(command.reply_to, JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    else:
        context.log(
            f"Dynamic member with unknown member id joins group {group.group_id} in state {state}. "
            f"Created a new member id {member_id} and added the member to the group."
        )
        _add(context, group, command, member_id)


def _join_pending(context: CommandContext, group: ClassicGroup, command: JoinGroup) -> None:
    if command.instance_id is not None:
        # Only dynamic members get MEMBER_ID_REQUIRED, so the client contradicts itself.
        context.reply(command.reply_to, JoinResult(error=ErrorCode.UNKNOWN_SERVER_ERROR, member_id=""))
        return
    context.log(
        f"Pending dynamic member with id {command.member_id} joins group {group.group_id} in {group.state.value} state. "
        "Adding to the group now."
    )
    context.cancel(group.pending[command.member_id])
    _add(context, group, command, command.member_id)


def _add(context: CommandContext, group: ClassicGroup, command: JoinGroup, member_id: str) -> None:
    member = Member(
        group.group_id,
        member_id,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=command.protocols,
        now_ms=context.timer_ms,
    )
    member.is_new = True
    if group.initial_remaining_ms is not None:
        group.new_member_added = True
    group.add(member, command.protocol_type)
    group.park_join(member, command.reply_to)
    context.arm(member.session, NEW_MEMBER_JOIN_TIMEOUT_MS)
    reason = (
        f"Adding new member {member_id} with group instance id {command.instance_id or 'null'}; "
        f"client reason: {reason_or_default(command.reason)}"
    )
    trigger = Trigger(
        code=TriggerCode.JOIN_NEW,
        reason=reason,
        member=member,
        client_reason=command.reason,
        evidence={"group_size": len(group.members), **port_evidence(command.client_port)},
    )
    trigger_rebalance(context, group, trigger)


def _join_existing(context: CommandContext, group: ClassicGroup, command: JoinGroup) -> None:
    error = group.check_member(context, command.member_id, command.instance_id)
    if error is not ErrorCode.NONE:
        _refuse(context, command, error)
        return
    member = group.members[command.member_id]
    leads = group.leader == command.member_id
    changed = member.protocols != command.protocols
    answers = ANSWERS[group.state]
    if group.state is GroupState.STABLE and leads:
        # The leader joins again when topics changed, which its own metadata does not show.
        text = f"Leader {member.member_id} re-joining group during Stable"
        _update(context, group, member, command, TriggerCode.LEADER_REJOIN, text)
    elif (answers.join_changed if changed else answers.join_same) is PARK:
        if group.state is GroupState.PREPARING_REBALANCE:
            text = f"Member {member.member_id} is joining group during PreparingRebalance"
        else:
            text = f"Updating metadata for member {member.member_id} during {group.state.value}"
        code = _code_of_change(member, command.protocols) if changed else TriggerCode.METADATA_UPDATE
        _update(context, group, member, command, code, text)
    else:
        # The response was lost: the member repeats its request and gets the same generation.
        member.last_seen_ms = context.timer_ms
        context.reply(command.reply_to, joined_result(group, member))


def _update(context: CommandContext, group: ClassicGroup, member: Member, command: JoinGroup, code: TriggerCode, text: str) -> None:
    is_expected = group.state is GroupState.PREPARING_REBALANCE
    change = _subscription_change(member.protocols, command.protocols)
    has_changed = code is TriggerCode.ASSIGNOR_CHANGE or bool(change.get("topics_added") or change.get("topics_removed"))
    is_trigger = has_changed or not is_expected
    evidence = {**member.liveness(context.timer_ms), **change} if is_trigger else {}
    group.update(member, command.protocols, command.session_timeout_ms, command.rebalance_timeout_ms)
    member.last_seen_ms = context.timer_ms
    superseded = group.park_join(member, command.reply_to)
    if superseded is not None:
        # Kafka never answers the earlier request. It is answered here, so that no request stays open.
        context.reply(superseded, JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=command.member_id))
    if not is_trigger:
        complete_if_all_joined(context, group)
        return
    trigger = Trigger(
        code=code,
        reason=f"{text}; client reason: {reason_or_default(command.reason)}",
        member=member,
        client_reason=command.reason,
        evidence=evidence,
    )
    trigger_rebalance(context, group, trigger)


def _code_of_change(member: Member, after: Protocols) -> TriggerCode:
    known = [name for name, _ in member.protocols]
    comparable = [name for name, _ in after if not member.is_loaded or name in known]
    return TriggerCode.METADATA_UPDATE if comparable == known else TriggerCode.ASSIGNOR_CHANGE


def _subscription_change(before: Protocols, after: Protocols) -> dict[str, int]:
    """The change of a consumer's subscription, as evidence for a diagnosis; empty for other protocols."""
    if before == after:
        return {}
    name, metadata = before[0]
    try:
        old, new = parse_subscription(metadata), parse_subscription(dict(after).get(name, after[0][1]))
    except PeerError:
        return {}
    return {
        "topics_added": len(set(new.topics) - set(old.topics)),
        "topics_removed": len(set(old.topics) - set(new.topics)),
        "owned_partitions_before": sum(map(len, old.owned.values())),
        "owned_partitions": sum(map(len, new.owned.values())),
    }


# Static members: a new member id takes the place of the old one (KIP-345, KIP-814).


def replace_static_member(context: CommandContext, group: ClassicGroup, command: JoinGroup, replaced_id: str) -> None:
    """Give the instance id to the new member id of `command`; a parked request of the old id is answered FENCED_INSTANCE_ID."""
    old = group.members[replaced_id]
    member = _new_member(context, group, command, old)
    if group.state is GroupState.STABLE and _protocol_with(group, old, command) == group.protocol:
        _stage_replacement(context, group, command, old, member)
        return
    evidence = {**old.liveness(context.timer_ms), **port_evidence(command.client_port)}
    is_alive = _fence(context, group, old)
    context.cancel(old.session)
    group.replace(replaced_id, member)
    group.park_join(member, command.reply_to)
    context.arm(member.session, old.session_timeout_ms)
    client_reason = f"client reason: {reason_or_default(command.reason)}"
    if group.state is GroupState.STABLE:
        code = TriggerCode.ASSIGNOR_CHANGE
        reason = (
            f"Group's selectedProtocol will change because static member {member.member_id} "
            f"with instance id {member.instance_id} joined with change of protocol; {client_reason}"
        )
    else:
        # In CompletingRebalance the leader may be computing an assignment for the old id, so the group must rebalance again.
        code = TriggerCode.STATIC_FENCED if is_alive else TriggerCode.STATIC_REJOIN
        reason = f"Updating metadata for static member {member.member_id} with instance id {member.instance_id}; {client_reason}"
    trigger = Trigger(code=code, reason=reason, member=member, client_reason=command.reason, evidence=evidence)
    trigger_rebalance(context, group, trigger)


def _new_member(context: CommandContext, group: ClassicGroup, command: JoinGroup, old: Member) -> Member:
    # As in Kafka, client id and host stay those of the first member id.
    member = Member(
        group.group_id,
        command.new_member_id,
        instance_id=old.instance_id,
        client_id=old.client_id,
        client_host=old.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=command.protocols,
        now_ms=context.timer_ms,
    )
    member.assignment = old.assignment
    return member


def _protocol_with(group: ClassicGroup, old: Member, command: JoinGroup) -> str:
    """The protocol that the group selects if the member has the protocols of `command`."""
    protocols, was_loaded, timeouts_ms = old.protocols, old.is_loaded, (old.session_timeout_ms, old.rebalance_timeout_ms)
    group.update(old, command.protocols, *timeouts_ms)
    selected = group.select_protocol()
    group.update(old, protocols, *timeouts_ms)
    old.is_loaded = was_loaded
    return selected


def _fence(context: CommandContext, group: ClassicGroup, old: Member) -> bool:
    """Answer parked requests of the old id with FENCED_INSTANCE_ID; True if there was one: two processes use the instance id."""
    join_reply_to = group.unpark_join(old)
    if join_reply_to is not None:
        context.reply(join_reply_to, JoinResult(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id))
    sync_reply_to, old.awaiting_sync = old.awaiting_sync, None
    if sync_reply_to is not None:
        context.reply(sync_reply_to, SyncResult(error=ErrorCode.FENCED_INSTANCE_ID))
    return join_reply_to is not None or sync_reply_to is not None


def _stage_replacement(context: CommandContext, group: ClassicGroup, command: JoinGroup, old: Member, member: Member) -> None:
    reason = "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a rebalance."
    context.log(reason)
    leads = group.leader == old.member_id
    all_members = [*(other for other in group.members.values() if other is not old), member]
    members = tuple(each.value(group.protocol, each.assignment) for each in all_members)
    leader = member.member_id if leads else group.leader
    context.records.append(group.record(members, leader=leader))
    group.staged = Staged(at_ms=context.now_ms, replaced_id=old.member_id, member=member)
    # As in Kafka, its first session has the timeout of the old member id; its own applies from its first heartbeat on.
    context.arm(member.session, old.session_timeout_ms)
    context.reply(command.reply_to, _unchanged_result(group, command, member, all_members, leads=leads))
    group.emit_static_change(
        context,
        "static_replaced",
        TriggerCode.STATIC_REJOIN,
        member,
        reason=reason,
        evidence={**old.liveness(context.timer_ms), **port_evidence(command.client_port)},
        members=assigned_members(group.protocol_type, members),
    )


def _unchanged_result(group: ClassicGroup, command: JoinGroup, member: Member, all_members: list[Member], *, leads: bool) -> JoinResult:
    """The response for a member that keeps its assignment in the current generation."""
    skips = leads and command.supports_skip_assignment
    # A client without SkipAssignment must not compute an assignment, so the response names the old member id as leader.
    leader = member.member_id if skips else group.leader or ""
    listed = tuple(
        JoinMember(member_id=each.member_id, instance_id=each.instance_id, metadata=each.metadata(group.protocol)) for each in all_members
    )
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader,
        skip_assignment=skips,
        members=listed if skips else (),
    )
