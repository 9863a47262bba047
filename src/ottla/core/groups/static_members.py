"""A static member that comes back without its member id (KIP-345, KIP-814): it takes its old place, in most cases without a rebalance.

Joining as a new static member is in join. Nothing takes effect in a stable group before its record is kept.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup, Member, Staged
from ottla.core.groups.commands import JoinGroup
from ottla.core.groups.effects import JoinMember, JoinResult, SyncResult
from ottla.core.groups.events import Cause, Trigger, assigned_members, reason_or_default, silence_of, tell_static
from ottla.core.groups.rebalance import registered_member, registration, trigger_rebalance
from ottla.core.groups.states import GroupState
from ottla.core.groups.step import Step


def replace_static_member(step: Step, group: ClassicGroup, command: JoinGroup, replaced_id: str) -> None:
    """Give the instance id to the new member id of `command`; whatever the old id still waits for is fenced."""
    old = group.members[replaced_id]
    member = _incarnation(step, group, command, old)
    if group.state is GroupState.STABLE and _selects(group, old, command) == group.protocol:
        _stage_replacement(step, group, command, old, member)
        return
    evidence = silence_of(step, old)
    lives = _fence(step, group, old)
    step.cancel(old.session)
    group.replace(replaced_id, member)
    group.park_join(member, command.reply_to)
    step.arm(member.session, old.session_timeout_ms)
    client_reason = f"client reason: {reason_or_default(command.reason)}"
    if group.state is GroupState.STABLE:
        cause = Cause.ASSIGNOR_CHANGE
        reason = (
            f"Group's selectedProtocol will change because static member {member.member_id} "
            f"with instance id {member.instance_id} joined with change of protocol; {client_reason}"
        )
    else:
        # In CompletingRebalance the leader may be at work on a plan for the old id, so a new round is needed.
        cause = Cause.STATIC_FENCED if lives else Cause.STATIC_REJOIN
        reason = f"Updating metadata for static member {member.member_id} with instance id {member.instance_id}; {client_reason}"
    trigger = Trigger(cause=cause, reason=reason, member=member, client_reason=command.reason, evidence=evidence)
    trigger_rebalance(step, group, trigger)


def take_staged_place(group: ClassicGroup, staged: Staged) -> Member:
    """The group's record with the new incarnation is kept: swap. Returns the old one, whose session ends."""
    assert staged.member is not None, f"{group.group_id} has no replacement staged"
    assert staged.replaced_id is not None, f"{group.group_id} has no replacement staged"
    old = group.members[staged.replaced_id]
    group.replace(staged.replaced_id, staged.member)
    return old


def _incarnation(step: Step, group: ClassicGroup, command: JoinGroup, old: Member) -> Member:
    # Client id and host stay those of the first incarnation, as in Kafka's records.
    member = Member(
        group.group_id,
        command.new_member_id,
        instance_id=old.instance_id,
        client_id=old.client_id,
        client_host=old.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=command.protocols,
        now_ms=step.timer_ms,
    )
    member.assignment = old.assignment
    return member


def _selects(group: ClassicGroup, old: Member, command: JoinGroup) -> str:
    """The protocol that the group would select if the member said what its new incarnation says."""
    said, was_loaded, timeouts_ms = old.protocols, old.is_loaded, (old.session_timeout_ms, old.rebalance_timeout_ms)
    group.update(old, command.protocols, *timeouts_ms)
    selected = group.select_protocol()
    group.update(old, said, *timeouts_ms)
    old.is_loaded = was_loaded
    return selected


def _fence(step: Step, group: ClassicGroup, old: Member) -> bool:
    """Answer what the old id waits for; True if it waited, so that two processes live under one instance id."""
    join_reply_to = group.unpark_join(old)
    if join_reply_to is not None:
        step.reply(join_reply_to, JoinResult(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id))
    sync_reply_to, old.awaiting_sync = old.awaiting_sync, None
    if sync_reply_to is not None:
        step.reply(sync_reply_to, SyncResult(error=ErrorCode.FENCED_INSTANCE_ID))
    return join_reply_to is not None or sync_reply_to is not None


def _stage_replacement(step: Step, group: ClassicGroup, command: JoinGroup, old: Member, member: Member) -> None:
    reason = "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a rebalance."
    step.log(reason)
    leads = group.leader == old.member_id
    everybody = [*(other for other in group.members.values() if other is not old), member]
    members = tuple(registered_member(each, group.protocol, each.assignment) for each in everybody)
    leader = member.member_id if leads else group.leader
    step.records.append(registration(group, members, leader=leader))
    group.staged = Staged(at_ms=step.now_ms, replaced_id=old.member_id, member=member)
    # As in Kafka, its first session is as long as its former self's; from its first heartbeat on its own timeout counts.
    step.arm(member.session, old.session_timeout_ms)
    step.reply(command.reply_to, _unchanged_result(group, command, member, everybody, leads=leads))
    tell_static(
        step,
        group,
        "static_replaced",
        Cause.STATIC_REJOIN,
        member,
        reason=reason,
        evidence=silence_of(step, old),
        members=assigned_members(group.protocol_type, members),
    )


def _unchanged_result(group: ClassicGroup, command: JoinGroup, member: Member, everybody: list[Member], *, leads: bool) -> JoinResult:
    """The current generation, for a member that need not be assigned anything anew."""
    skips = leads and command.supports_skip_assignment
    # A client that cannot be told to skip the assignment must not learn that it leads: it is told of its former self.
    leader = member.member_id if skips else group.leader or ""
    listed = tuple(
        JoinMember(member_id=each.member_id, instance_id=each.instance_id, metadata=each.metadata(group.protocol)) for each in everybody
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
