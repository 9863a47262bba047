"""JoinGroup: who may join, who is told to come back with an id, whose join starts a round, and who just waits.

What a round does with those who wait is decided in rebalance; static members that return are in static_members.
"""

from ottla.core.errors import ErrorCode, PeerError
from ottla.core.groups.classic_group import ClassicGroup, Member, Protocols
from ottla.core.groups.commands import JoinGroup
from ottla.core.groups.effects import JoinResult
from ottla.core.groups.events import Cause, Trigger, reason_or_default, silence_of, tell_trigger
from ottla.core.groups.identity import check_member
from ottla.core.groups.rebalance import (
    complete_if_all_joined,
    joined_result,
    let_go,
    registration,
    trigger_rebalance,
)
from ottla.core.groups.records import refuse_long_strings
from ottla.core.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from ottla.core.groups.states import ANSWERS, PARK, GroupState
from ottla.core.groups.static_members import replace_static_member
from ottla.core.groups.step import Step
from ottla.core.groups.subscription import parse_subscription
from ottla.core.groups.timers import SESSION, Timer


def session_timeout_is_allowed(settings: GroupSettings, session_timeout_ms: int) -> bool:
    """S1.6: the session timeout lies between the broker's bounds."""
    return settings.group_min_session_timeout_ms <= session_timeout_ms <= settings.group_max_session_timeout_ms


def join_group(step: Step, command: JoinGroup) -> None:
    """Answer a JoinGroup, or park it."""
    texts = [command.group_id, command.instance_id, command.client_id, command.client_host, command.protocol_type, command.new_member_id]
    refuse_long_strings(*texts, *[name for name, _ in command.protocols])
    if not session_timeout_is_allowed(step.settings, command.session_timeout_ms):
        _refuse(step, command, ErrorCode.INVALID_SESSION_TIMEOUT)
        return
    group = step.group(command.group_id)
    if group is None:
        _join_unknown_group(step, command)
    elif not _has_room(step, group, command.member_id):
        _turn_away(step, group, command)
    elif ANSWERS[group.state].join_new is not PARK:
        _refuse(step, command, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not group.supports(command.protocol_type, command.protocols):
        _refuse(step, command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif not command.member_id:
        _join_new(step, group, command)
    elif command.member_id in group.pending:
        _join_pending(step, group, command)
    else:
        _join_existing(step, group, command)


def _refuse(step: Step, command: JoinGroup, error: ErrorCode) -> None:
    step.reply(command.reply_to, JoinResult(error=error, member_id=command.member_id))


def _join_unknown_group(step: Step, command: JoinGroup) -> None:
    if command.member_id:
        _refuse(step, command, ErrorCode.UNKNOWN_MEMBER_ID)
        return
    group = ClassicGroup(command.group_id, now_ms=step.now_ms)
    step.registry.groups[command.group_id] = group
    # The empty registration makes the group known to whoever reads the log, before it has a generation.
    step.records.append(registration(group, (), leader=None))
    if group.supports(command.protocol_type, command.protocols):
        _join_new(step, group, command)
    else:
        # As in Kafka 4, the group is there now all the same, until its offsets are next looked at.
        _refuse(step, command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _has_room(step: Step, group: ClassicGroup, member_id: str) -> bool:
    """`group.max.size`: while a group prepares, those who already wait count, so that the last to come are turned away."""
    size_max = step.settings.group_max_size
    if group.state is GroupState.PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < size_max
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return member_id in group.members or len(group.members) < size_max
    return True


def _turn_away(step: Step, group: ClassicGroup, command: JoinGroup) -> None:
    """No room. Who gives up its place does not end the round: that is left to the round's timer, as in Kafka."""
    step.reply(command.reply_to, JoinResult(error=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=""))
    timer = group.pending.get(command.member_id)
    member = group.members.get(command.member_id)
    if timer is not None:
        step.cancel(timer)
        group.remove(command.member_id)
    elif member is not None:
        evidence = {"group_size": len(group.members), "group_size_max": step.settings.group_max_size}
        reason = f"Group {group.group_id} has reached its maximum size; member {member.member_id} is turned away."
        let_go(step, group, member)
        tell_trigger(step, group, Trigger(cause=Cause.CAPACITY, reason=reason, member=member, evidence=evidence))


def _join_new(step: Step, group: ClassicGroup, command: JoinGroup) -> None:
    instance_id, member_id, state = command.instance_id, command.new_member_id, group.state.value
    if instance_id is not None:
        start = f"Static member with groupInstanceId={instance_id} and unknown member id joins group {group.group_id} in {state} state."
        replaced_id = group.static_members.get(instance_id)
        if replaced_id is not None:
            step.log(f"{start} Replacing previously mapped member {replaced_id} with this groupInstanceId.")
            replace_static_member(step, group, command, replaced_id)
            return
        step.log(f"{start} Created a new member id {member_id} for this member and added to the group.")
        _add(step, group, command, member_id)
    elif command.require_known_member_id:
        step.log(
            f"Dynamic member with unknown member id joins group {group.group_id} in {state} state. "
            f"Created a new member id {member_id} and requesting the member to rejoin with this id."
        )
        timer = group.pending[member_id] = Timer(SESSION, group.group_id, member_id)
        step.arm(timer, command.session_timeout_ms)
        step.reply(command.reply_to, JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    else:
        step.log(
            f"Dynamic member with unknown member id joins group {group.group_id} in state {state}. "
            f"Created a new member id {member_id} and added the member to the group."
        )
        _add(step, group, command, member_id)


def _join_pending(step: Step, group: ClassicGroup, command: JoinGroup) -> None:
    if command.instance_id is not None:
        # Only dynamic members are told to come back with an id, so this client contradicts itself.
        step.reply(command.reply_to, JoinResult(error=ErrorCode.UNKNOWN_SERVER_ERROR, member_id=""))
        return
    step.log(
        f"Pending dynamic member with id {command.member_id} joins group {group.group_id} in {group.state.value} state. "
        "Adding to the group now."
    )
    step.cancel(group.pending[command.member_id])
    _add(step, group, command, command.member_id)


def _add(step: Step, group: ClassicGroup, command: JoinGroup, member_id: str) -> None:
    member = Member(
        group.group_id,
        member_id,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=command.protocols,
        now_ms=step.timer_ms,
    )
    member.is_new = True
    if group.initial_remaining_ms is not None:
        group.new_member_added = True
    group.add(member, command.protocol_type)
    group.park_join(member, command.reply_to)
    step.arm(member.session, NEW_MEMBER_JOIN_TIMEOUT_MS)
    reason = (
        f"Adding new member {member_id} with group instance id {command.instance_id or 'null'}; "
        f"client reason: {reason_or_default(command.reason)}"
    )
    trigger = Trigger(
        cause=Cause.JOIN_NEW,
        reason=reason,
        member=member,
        client_reason=command.reason,
        evidence={"group_size": len(group.members)},
    )
    trigger_rebalance(step, group, trigger)


def _join_existing(step: Step, group: ClassicGroup, command: JoinGroup) -> None:
    error = check_member(step, group, command.member_id, command.instance_id)
    if error is not ErrorCode.NONE:
        _refuse(step, command, error)
        return
    member = group.members[command.member_id]
    leads = group.leader == command.member_id
    changed = member.protocols != command.protocols
    answers = ANSWERS[group.state]
    if group.state is GroupState.STABLE and leads:
        # The leader's join is how consumers say that topics changed, which their own metadata does not show.
        text = f"Leader {member.member_id} re-joining group during Stable"
        _update(step, group, member, command, Cause.LEADER_REJOIN, text)
    elif (answers.join_changed if changed else answers.join_same) is PARK:
        if group.state is GroupState.PREPARING_REBALANCE:
            text = f"Member {member.member_id} is joining group during PreparingRebalance"
        else:
            text = f"Updating metadata for member {member.member_id} during {group.state.value}"
        cause = _cause_of_change(member, command.protocols) if changed else Cause.METADATA_UPDATE
        _update(step, group, member, command, cause, text)
    else:
        # The answer was lost: the same member says the same again, and gets the same generation.
        member.last_seen_ms = step.timer_ms
        step.reply(command.reply_to, joined_result(group, member))


def _update(step: Step, group: ClassicGroup, member: Member, command: JoinGroup, cause: Cause, text: str) -> None:
    answers_the_call = group.state is GroupState.PREPARING_REBALANCE
    change = _subscription_change(member.protocols, command.protocols)
    says_more = cause is Cause.ASSIGNOR_CHANGE or bool(change.get("topics_added") or change.get("topics_removed"))
    is_told = says_more or not answers_the_call
    evidence = {**silence_of(step, member), **change} if is_told else {}
    group.update(member, command.protocols, command.session_timeout_ms, command.rebalance_timeout_ms)
    member.last_seen_ms = step.timer_ms
    superseded = group.park_join(member, command.reply_to)
    if superseded is not None:
        # Kafka forgets the earlier request; here it is answered, so that no request is left open for ever.
        step.reply(superseded, JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=command.member_id))
    if not is_told:
        complete_if_all_joined(step, group)
        return
    trigger = Trigger(
        cause=cause,
        reason=f"{text}; client reason: {reason_or_default(command.reason)}",
        member=member,
        client_reason=command.reason,
        evidence=evidence,
    )
    trigger_rebalance(step, group, trigger)


def _cause_of_change(member: Member, after: Protocols) -> Cause:
    known = [name for name, _ in member.protocols]
    said = [name for name, _ in after if not member.is_loaded or name in known]
    return Cause.METADATA_UPDATE if said == known else Cause.ASSIGNOR_CHANGE


def _subscription_change(before: Protocols, after: Protocols) -> dict[str, int]:
    """What a member says now against what it said, if it speaks the consumer protocol: the evidence for a diagnosis."""
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
