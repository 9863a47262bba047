"""SyncGroup (S3): members fetch their part of the plan, and the leader brings the plan.

The plan takes effect with its record and not before (`settle`); what follows a failed store is in failures.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup, Member, Staged
from ottla.core.groups.commands import SyncGroup
from ottla.core.groups.effects import SyncResult
from ottla.core.groups.events import Cause, Trigger, assigned_members, silence_of, tell_change, tell_trigger
from ottla.core.groups.identity import check_member
from ottla.core.groups.rebalance import let_go, registered_member, registration, start_or_complete
from ottla.core.groups.records import GroupMetadataValue
from ottla.core.groups.states import ANSWERS, PARK, GroupState
from ottla.core.groups.step import Step

SENDING_NOTHING = "Sending empty assignment to member"
"""How Kafka begins its warning that a plan, once it is kept, has nothing for a member: not even an empty list."""


def sync_group(step: Step, command: SyncGroup) -> None:
    """Answer a SyncGroup, or park it until the leader's plan is kept. The order of checks is S3's."""
    group = step.group(command.group_id)
    if group is None:
        step.reply(command.reply_to, SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
        return
    error = _refusal(step, group, command)
    if error is not ErrorCode.NONE:
        step.reply(command.reply_to, SyncResult(error=error))
        return
    member = group.members[command.member_id]
    _received(step, group, member)
    if group.state is GroupState.STABLE:
        step.saw(member)
        step.reply(command.reply_to, _part(group, member.assignment))
        return
    superseded, member.awaiting_sync = member.awaiting_sync, command.reply_to
    member.last_seen_ms = step.timer_ms
    if superseded is not None:
        step.reply(superseded, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
    if group.leader == member.member_id:
        _store_plan(step, group, member, dict(command.assignments))


def settle(group: ClassicGroup, staged: Staged, value: GroupMetadataValue) -> None:
    """The plan is kept: everybody has its part, nobody waits any more, the group is Stable."""
    for registered in value.members:
        member = group.members[registered.member_id]
        member.assignment = registered.assignment
        member.awaiting_sync = None
    group.transition(GroupState.STABLE, staged.at_ms)


def expire_sync(step: Step, group: ClassicGroup) -> None:
    """The sync timer fired: members of this generation that never asked for their part are given up."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
        return
    silent = [group.members[member_id] for member_id in group.pending_sync]
    reason = f"Removing [{', '.join(group.pending_sync)}] on pending sync request expiration"
    for at, member in enumerate(silent):
        evidence = silence_of(step, member)
        trigger = Trigger(cause=Cause.SYNC_TIMEOUT, reason=reason, member=member, evidence=evidence)
        tell_trigger(step, group, trigger, coalesced=at > 0)
        let_go(step, group, member)
    start_or_complete(step, group, reason)


def _refusal(step: Step, group: ClassicGroup, command: SyncGroup) -> ErrorCode:
    answer = ANSWERS[group.state].sync
    if group.state is GroupState.DEAD and answer is not PARK:
        return answer
    error = check_member(step, group, command.member_id, command.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(command.protocol_type, group.protocol_type) or _differs(command.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if answer is PARK else answer


def _differs(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


def _received(step: Step, group: ClassicGroup, member: Member) -> None:
    group.pending_sync.pop(member.member_id, None)
    if not group.pending_sync:
        step.cancel(group.sync_timer)


def _store_plan(step: Step, group: ClassicGroup, leader: Member, plan: dict[str, bytes]) -> None:
    statics = len(group.static_members)
    step.log(
        f"Assignment received from leader {leader.member_id} for group {group.group_id} for generation "
        f"{group.generation}. The group has {len(group.members)} members, {statics} of which are static."
    )
    missing = [member_id for member_id in group.members if member_id not in plan]
    if missing:
        step.log(f"Setting empty assignments for members [{', '.join(missing)}] of {group.group_id} for generation {group.generation}.")
    members = tuple(registered_member(member, group.protocol, plan.get(member.member_id, b"")) for member in group.members.values())
    step.records.append(registration(group, members, leader=group.leader))
    group.staged = Staged(at_ms=step.now_ms)
    for member in group.members.values():
        part = plan.get(member.member_id, b"")
        if not part:
            step.log(f"{SENDING_NOTHING} {member.member_id} of {group.group_id} for generation {group.generation} with no errors")
        if member.awaiting_sync is not None:
            step.reply(member.awaiting_sync, _part(group, part))
            step.saw(member)
    tell_change(
        step,
        group,
        "sync_completed",
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
        members=assigned_members(group.protocol_type, members),
        evidence={"sync_phase_ms": step.now_ms - group.state_since_ms, "left_out": len(missing)},
    )


def _part(group: ClassicGroup, assignment: bytes) -> SyncResult:
    return SyncResult(
        error=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=assignment,
    )
