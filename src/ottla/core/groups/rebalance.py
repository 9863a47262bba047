"""One round of a classic group: how it starts, how long it waits, and how its join phase ends.

Requests and timers that touch membership end here. It decides nothing about single requests, and the plan itself is stored in sync.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup, Member
from ottla.core.groups.effects import JoinResult, SyncResult
from ottla.core.groups.events import Cause, Trigger, joined_members, silence_of, tell_change, tell_trigger
from ottla.core.groups.records import GroupMetadataRecord, GroupMetadataValue, MemberValue
from ottla.core.groups.states import GroupState, can_rebalance
from ottla.core.groups.step import Step
from ottla.core.groups.subscription import CONSUMER_PROTOCOL_TYPE

GENERATION_MAX = 2**31 - 1
SILENT_ROUND_MS_MIN = 100
"""A round that nobody joins is tried again no sooner, whatever rebalance timeout its members gave: with 0 it would never end."""


def trigger_rebalance(step: Step, group: ClassicGroup, trigger: Trigger) -> None:
    """Start a round, or, where one is under way, see whether this completes it. The trigger is told either way."""
    tell_trigger(step, group, trigger)
    start_or_complete(step, group, trigger.reason)


def start_or_complete(step: Step, group: ClassicGroup, reason: str) -> None:
    """As `trigger_rebalance`, for triggers that have been told already."""
    if can_rebalance(group.state):
        prepare_rebalance(step, group, reason)
    else:
        complete_if_all_joined(step, group)


def prepare_rebalance(step: Step, group: ClassicGroup, reason: str) -> None:
    """Call the members to join again. The first round of an empty group only waits for more members (the initial delay)."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        release_syncs(step, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    step.cancel(group.sync_timer)
    is_initial = group.state is GroupState.EMPTY
    group.transition(GroupState.PREPARING_REBALANCE, step.now_ms)
    step.log(
        f"Preparing to rebalance group {group.group_id} in state {group.state.value} "
        f"with old generation {group.generation} (reason: {reason})."
    )
    if is_initial:
        delay_ms = step.settings.group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        step.arm(group.join_timer, delay_ms)
    elif group.all_joined:
        complete_join(step, group)
    else:
        step.arm(group.join_timer, group.rebalance_timeout_ms)


def complete_if_all_joined(step: Step, group: ClassicGroup) -> None:
    """End the join phase if nobody is missing. An initial round is ended by its timer alone."""
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is not GroupState.EMPTY and group.all_joined:
        complete_join(step, group)


def complete_after_expiry(step: Step, group: ClassicGroup) -> None:
    """As `complete_if_all_joined`, after a session ran out: that ends an initial round, too (`removeMemberAndUpdateClassicGroup`)."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        complete_join(step, group)


def expire_join(step: Step, group: ClassicGroup) -> None:
    """The join timer fired: extend an initial delay while members keep arriving, otherwise go on without the missing."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.initial_remaining_ms and group.new_member_added:
        group.new_member_added = False
        delay_ms = min(step.settings.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms -= delay_ms
        step.arm(group.join_timer, delay_ms)
    else:
        complete_join(step, group)


def complete_join(step: Step, group: ClassicGroup) -> None:
    """End the join phase: a new generation of those who joined, and of static members, who may be late."""
    step.cancel(group.join_timer)
    group.initial_remaining_ms = None
    _drop_late_members(step, group)
    if group.members and not _elect_joined_leader(step, group):
        step.log(f"Group {group.group_id} could not complete rebalance because no members rejoined.")
        step.arm(group.join_timer, max(group.rebalance_timeout_ms, SILENT_ROUND_MS_MIN))
        return
    group.generation = _next_generation(group.generation)
    group.pending_sync.clear()
    if group.members:
        _form_generation(step, group)
    else:
        _become_empty(step, group)


def release_syncs(step: Step, group: ClassicGroup, error: ErrorCode) -> None:
    """No plan will come: forget the old one and tell everybody who waits for it."""
    for member in group.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            step.reply(member.awaiting_sync, SyncResult(error=error))
            member.awaiting_sync = None
            step.saw(member)


def let_go(step: Step, group: ClassicGroup, member: Member) -> None:
    """Remove a member; what it still waits for is answered UNKNOWN_MEMBER_ID, so that it joins anew if it lives."""
    join_reply_to = group.unpark_join(member)
    if join_reply_to is not None:
        step.reply(join_reply_to, JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=""))
    if member.awaiting_sync is not None:
        step.reply(member.awaiting_sync, SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
        member.awaiting_sync = None
    step.cancel(member.session)
    group.remove(member.member_id)


def tell_unknown_topics(step: Step, group: ClassicGroup) -> None:
    """Say that a consumer group's subscriptions cannot be read: none of its offsets expires or can be deleted while it has members."""
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.protocol is not None and group.subscribed_topics is None:
        step.log(
            f"Failed to parse Consumer Protocol {group.protocol_type}:{group.protocol} of group {group.group_id}. "
            "Consumer group coordinator is not aware of the subscribed topics."
        )


def joined_result(group: ClassicGroup, member: Member) -> JoinResult:
    """The answer to a member of the current generation; only the leader is told who the others are."""
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        members=group.join_members() if group.leader == member.member_id else (),
    )


def registration(group: ClassicGroup, members: tuple[MemberValue, ...], *, leader: str | None) -> GroupMetadataRecord:
    """The group's record at its current generation."""
    return GroupMetadataRecord(
        group_id=group.group_id,
        value=GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol,
            leader=leader,
            current_state_timestamp_ms=group.state_since_ms,
            members=members,
        ),
    )


def registered_member(member: Member, protocol: str | None, assignment: bytes) -> MemberValue:
    """A member as the group's record holds it."""
    return MemberValue(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def _drop_late_members(step: Step, group: ClassicGroup) -> None:
    late = [m for m in group.members.values() if m.awaiting_join is None and m.instance_id is None]
    if not late:
        return
    reason = f"Group {group.group_id} removed dynamic members who haven't joined: [{_ids(late)}]"
    step.log(reason)
    for member in late:
        evidence = silence_of(step, member)
        evidence["waited_ms"] = step.now_ms - group.state_since_ms
        tell_trigger(step, group, Trigger(cause=Cause.JOIN_TIMEOUT, reason=reason, member=member, evidence=evidence))
        let_go(step, group, member)


def _elect_joined_leader(step: Step, group: ClassicGroup) -> bool:
    """Whether the group has a leader that joined; one that did not is replaced by the first member that did."""
    assert group.leader is not None, f"{group.group_id} has members and no leader"
    leader = group.members[group.leader]
    if leader.awaiting_join is not None:
        return True
    for member in group.members.values():
        if member.awaiting_join is not None:
            group.leader = member.member_id
            step.log(
                f"Group leader [memberId: {leader.member_id}, groupInstanceId: {leader.instance_id or 'None'}] failed to "
                f"join before the rebalance timeout. Member {member.member_id} was elected as the new leader."
            )
            return True
    return False


def _form_generation(step: Step, group: ClassicGroup) -> None:
    prepared_at_ms = group.state_since_ms
    group.protocol = group.select_protocol()
    group.learn_subscribed_topics()
    tell_unknown_topics(step, group)
    group.transition(GroupState.COMPLETING_REBALANCE, step.now_ms)
    step.log(f"Stabilized group {group.group_id} generation {group.generation} with {len(group.members)} members.")
    for member in group.members.values():
        reply_to = group.unpark_join(member)
        if reply_to is not None:
            step.reply(reply_to, joined_result(group, member))
            member.last_seen_ms = step.timer_ms
        step.arm(member.session, member.session_timeout_ms)
        member.is_new = False
        group.pending_sync[member.member_id] = None
    step.arm(group.sync_timer, group.rebalance_timeout_ms)
    tell_change(
        step,
        group,
        "join_completed",
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        members=joined_members(group),
        evidence={"join_phase_ms": step.now_ms - prepared_at_ms},
    )


def _become_empty(step: Step, group: ClassicGroup) -> None:
    group.protocol = None
    group.learn_subscribed_topics()
    group.transition(GroupState.EMPTY, step.now_ms)
    step.log(f"Group {group.group_id} with generation {group.generation} is now empty.")
    step.records.append(registration(group, (), leader=None))
    tell_change(step, group, "emptied", GroupState.PREPARING_REBALANCE, GroupState.EMPTY)


def _next_generation(generation: int) -> int:
    """The next 32-bit number, as in Java: a log may say any, and the record of the next one must have room for it."""
    return generation + 1 if generation < GENERATION_MAX else -GENERATION_MAX - 1


def _ids(members: list[Member]) -> str:
    return ", ".join(member.member_id for member in members)
