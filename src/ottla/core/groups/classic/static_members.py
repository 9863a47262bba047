"""Replacement of a static member that joins again without its member id (KIP-345, KIP-814), in most cases without a rebalance.

In a stable group it takes effect when the group's record is replayed (group_records). A new static member joins in join.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.events import Trigger, assigned_members, emit_static_change, liveness_evidence, port_evidence
from ottla.core.groups.classic.group import ClassicGroup, Staged
from ottla.core.groups.classic.group_records import group_metadata_record, member_value
from ottla.core.groups.classic.member import Member
from ottla.core.groups.classic.rebalance import trigger_rebalance
from ottla.core.groups.classic.states import GroupState
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import JoinGroup
from ottla.core.groups.effects import JoinMember, JoinResult, SyncResult
from ottla.core.groups.events import Cause, reason_or_default


def replace_static_member(context: CommandContext, group: ClassicGroup, command: JoinGroup, replaced_id: str) -> None:
    """Give the instance id to the new member id of `command`; a parked request of the old id is answered FENCED_INSTANCE_ID."""
    old = group.members[replaced_id]
    member = _new_member(context, group, command, old)
    if group.state is GroupState.STABLE and _protocol_with(group, old, command) == group.protocol:
        _stage_replacement(context, group, command, old, member)
        return
    evidence = {**liveness_evidence(context, old), **port_evidence(command.client_port)}
    is_alive = _fence(context, group, old)
    context.cancel(old.session)
    group.replace(replaced_id, member)
    group.park_join(member, command.reply_to)
    context.arm(member.session, old.session_timeout_ms)
    client_reason = f"client reason: {reason_or_default(command.reason)}"
    if group.state is GroupState.STABLE:
        cause = Cause.ASSIGNOR_CHANGE
        reason = (
            f"Group's selectedProtocol will change because static member {member.member_id} "
            f"with instance id {member.instance_id} joined with change of protocol; {client_reason}"
        )
    else:
        # In CompletingRebalance the leader may be computing an assignment for the old id, so the group must rebalance again.
        cause = Cause.STATIC_FENCED if is_alive else Cause.STATIC_REJOIN
        reason = f"Updating metadata for static member {member.member_id} with instance id {member.instance_id}; {client_reason}"
    trigger = Trigger(cause=cause, reason=reason, member=member, client_reason=command.reason, evidence=evidence)
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
    members = tuple(member_value(each, group.protocol, each.assignment) for each in all_members)
    leader = member.member_id if leads else group.leader
    context.records.append(group_metadata_record(group, members, leader=leader))
    group.staged = Staged(at_ms=context.now_ms, replaced_id=old.member_id, member=member)
    # As in Kafka, its first session has the timeout of the old member id; its own applies from its first heartbeat on.
    context.arm(member.session, old.session_timeout_ms)
    context.reply(command.reply_to, _unchanged_result(group, command, member, all_members, leads=leads))
    emit_static_change(
        context,
        group,
        "static_replaced",
        Cause.STATIC_REJOIN,
        member,
        reason=reason,
        evidence={**liveness_evidence(context, old), **port_evidence(command.client_port)},
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
