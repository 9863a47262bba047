"""The rebalance of a classic group: how it starts, how long it waits for members, and how its join phase completes.

Requests and timers that change the membership call it. The assignment that follows is stored in sync.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.groups.classic.group import ClassicGroup, find_group
from ottla.groups.classic.member import Member, joined_members
from ottla.groups.classic.states import GroupState, can_rebalance
from ottla.groups.commands import JoinResult, SyncResult
from ottla.groups.events import GroupEvent, TriggerCode
from ottla.groups.group import CommandContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE

GENERATION_MAX = 2**31 - 1
REJOIN_RETRY_MS_MIN = 100
"""The shortest join phase after one that no member joined: a rebalance timeout of 0 would repeat it without end."""


class TriggeringMember(Protocol):
    """The member that is the reason of a rebalance, perhaps of a group of another type until then."""

    @property
    def member_id(self) -> str:
        """Its id."""
        ...

    @property
    def instance_id(self) -> str | None:
        """Its instance id, of a static member."""
        ...

    @property
    def client_id(self) -> str:
        """Its client's id."""
        ...

    @property
    def client_host(self) -> str:
        """Where it comes from."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A reason to rebalance. `reason` is Kafka's text, `client_reason` the client's own (KIP-800).

    `member_id` is set where there is no `member`: an id that was handed out and never joined.
    """

    code: TriggerCode
    reason: str
    member: TriggeringMember | None = None
    member_id: str | None = None
    client_reason: str | None = None
    evidence: Mapping[str, int] | None = None


def emit_trigger(context: CommandContext, group: ClassicGroup, trigger: Trigger, *, coalesced: bool | None = None) -> None:
    """Publish a trigger; by default it is coalesced when a rebalance is already in progress."""
    if coalesced is None:
        coalesced = not can_rebalance(group.state)
    # A coalesced trigger belongs to a rebalance that has started, or that an earlier trigger of the same request starts.
    state_from = GroupState.PREPARING_REBALANCE if coalesced else group.state
    member = trigger.member
    context.events.append(
        GroupEvent(
            at_ms=context.now_ms,
            group=group.group_id,
            kind="trigger",
            generation=group.generation,
            state_from=state_from.value,
            state_to=GroupState.PREPARING_REBALANCE.value,
            trigger=trigger.code.value,
            coalesced=coalesced,
            reason=trigger.reason,
            member_id=trigger.member_id if member is None else member.member_id,
            instance_id=None if member is None else member.instance_id,
            client_id=None if member is None else member.client_id,
            client_host=None if member is None else member.client_host,
            client_reason=trigger.client_reason,
            protocol=group.protocol,
            leader=group.leader,
            evidence=trigger.evidence or {},
        )
    )


def trigger_rebalance(context: CommandContext, group: ClassicGroup, trigger: Trigger) -> None:
    """Publish the trigger and start a rebalance, or complete the join phase of the one in progress if no member is missing."""
    emit_trigger(context, group, trigger)
    start_or_complete(context, group, trigger.reason)


def start_or_complete(context: CommandContext, group: ClassicGroup, reason: str) -> None:
    """The same as `trigger_rebalance` for a trigger that was already published."""
    if can_rebalance(group.state):
        prepare_rebalance(context, group, reason)
    else:
        complete_if_all_joined(context, group)


def prepare_rebalance(context: CommandContext, group: ClassicGroup, reason: str) -> None:
    """Start a rebalance: members join again. The first one of an empty group waits for more members (initial rebalance delay)."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        release_syncs(context, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    context.cancel(group.sync_timer)
    is_initial = group.state is GroupState.EMPTY
    group.transition(GroupState.PREPARING_REBALANCE, context.now_ms)
    context.log(
        f"Preparing to rebalance group {group.group_id} in state {group.state.value} "
        f"with old generation {group.generation} (reason: {reason})."
    )
    if is_initial:
        delay_ms = context.settings.group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        context.arm(group.join_timer, delay_ms)
    elif group.all_joined:
        complete_join(context, group)
    else:
        context.arm(group.join_timer, group.rebalance_timeout_ms)


def complete_if_all_joined(context: CommandContext, group: ClassicGroup) -> None:
    """Complete the join phase if no member is missing. Only its timer ends an initial rebalance delay."""
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is not GroupState.EMPTY and group.all_joined:
        complete_join(context, group)


def complete_after_expiry(context: CommandContext, group: ClassicGroup) -> None:
    """The same as `complete_if_all_joined`, and also in an initial rebalance delay (Kafka: `removeMemberAndUpdateClassicGroup`)."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        complete_join(context, group)


def expire_join(context: CommandContext, group_id: str) -> None:
    """Handle the join timer: extend the initial rebalance delay if members joined meanwhile, otherwise complete the join phase."""
    group = find_group(context.state, group_id)
    assert group is not None, f"the join timer of {group_id} is armed, and the group was removed"
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.initial_remaining_ms and group.new_member_added:
        group.new_member_added = False
        delay_ms = min(context.settings.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms -= delay_ms
        context.arm(group.join_timer, delay_ms)
    else:
        complete_join(context, group)


def complete_join(context: CommandContext, group: ClassicGroup) -> None:
    """Complete the join phase: a new generation of the members that joined, and of all static members."""
    context.cancel(group.join_timer)
    group.initial_remaining_ms = None
    _remove_late_members(context, group)
    if group.members and not _elect_joined_leader(context, group):
        context.log(f"Group {group.group_id} could not complete rebalance because no members rejoined.")
        context.arm(group.join_timer, max(group.rebalance_timeout_ms, REJOIN_RETRY_MS_MIN))
        return
    group.generation = _next_generation(group.generation)
    group.pending_sync.clear()
    if group.members:
        _form_generation(context, group)
    else:
        _become_empty(context, group)


def release_syncs(context: CommandContext, group: ClassicGroup, error: ErrorCode) -> None:
    """Clear the assignments and answer parked SyncGroups with `error`."""
    for member in group.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            context.reply(member.awaiting_sync, SyncResult(error=error))
            member.awaiting_sync = None
            member.restart_session(context)


def remove_member(context: CommandContext, group: ClassicGroup, member: Member) -> None:
    """Remove a member; its parked request is answered UNKNOWN_MEMBER_ID, so that a live client joins again without its id."""
    join_reply_to = group.unpark_join(member)
    if join_reply_to is not None:
        context.reply(join_reply_to, JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=""))
    if member.awaiting_sync is not None:
        context.reply(member.awaiting_sync, SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
        member.awaiting_sync = None
    context.cancel(member.session)
    group.remove(member.member_id)


def log_unreadable_subscriptions(context: CommandContext, group: ClassicGroup) -> None:
    """Log that a consumer group's subscriptions cannot be decoded: its offsets neither expire nor can be deleted while it has members."""
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.protocol is not None and group.subscribed_topics is None:
        context.log(
            f"Failed to parse Consumer Protocol {group.protocol_type}:{group.protocol} of group {group.group_id}. "
            "Consumer group coordinator is not aware of the subscribed topics."
        )


def joined_result(group: ClassicGroup, member: Member) -> JoinResult:
    """The response to a member of the current generation; only the leader's lists the members."""
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        members=group.join_members() if group.leader == member.member_id else (),
    )


def _remove_late_members(context: CommandContext, group: ClassicGroup) -> None:
    late = [m for m in group.members.values() if m.awaiting_join is None and m.instance_id is None]
    if not late:
        return
    reason = f"Group {group.group_id} removed dynamic members who haven't joined: [{', '.join(member.member_id for member in late)}]"
    context.log(reason)
    for member in late:
        evidence = member.liveness(context.timer_ms)
        evidence["waited_ms"] = context.now_ms - group.state_since_ms
        emit_trigger(context, group, Trigger(code=TriggerCode.JOIN_TIMEOUT, reason=reason, member=member, evidence=evidence))
        remove_member(context, group, member)


def _elect_joined_leader(context: CommandContext, group: ClassicGroup) -> bool:
    """Whether a member joined that can lead: the leader if it joined, otherwise the first one that did becomes the leader."""
    assert group.leader is not None, f"{group.group_id} has members and no leader"
    leader = group.members[group.leader]
    if leader.awaiting_join is not None:
        return True
    for member in group.members.values():
        if member.awaiting_join is not None:
            group.leader = member.member_id
            context.log(
                f"Group leader [memberId: {leader.member_id}, groupInstanceId: {leader.instance_id or 'None'}] failed to "
                f"join before the rebalance timeout. Member {member.member_id} was elected as the new leader."
            )
            return True
    return False


def _form_generation(context: CommandContext, group: ClassicGroup) -> None:
    prepared_at_ms = group.state_since_ms
    group.protocol = group.select_protocol()
    group.update_subscribed_topics()
    log_unreadable_subscriptions(context, group)
    group.transition(GroupState.COMPLETING_REBALANCE, context.now_ms)
    context.log(f"Stabilized group {group.group_id} generation {group.generation} with {len(group.members)} members.")
    for member in group.members.values():
        reply_to = group.unpark_join(member)
        if reply_to is not None:
            context.reply(reply_to, joined_result(group, member))
            member.last_seen_ms = context.timer_ms
        context.arm(member.session, member.session_timeout_ms)
        member.is_new = False
        group.pending_sync[member.member_id] = None
    context.arm(group.sync_timer, group.rebalance_timeout_ms)
    context.emit_change(
        group,
        "join_completed",
        GroupState.PREPARING_REBALANCE.value,
        GroupState.COMPLETING_REBALANCE.value,
        members=joined_members(group.members.values()),
        evidence={"join_phase_ms": context.now_ms - prepared_at_ms},
    )


def _become_empty(context: CommandContext, group: ClassicGroup) -> None:
    group.protocol = None
    group.update_subscribed_topics()
    group.transition(GroupState.EMPTY, context.now_ms)
    context.log(f"Group {group.group_id} with generation {group.generation} is now empty.")
    context.records.append(group.record((), leader=None))
    context.emit_change(group, "emptied", GroupState.PREPARING_REBALANCE.value, GroupState.EMPTY.value)


def _next_generation(generation: int) -> int:
    """The next 32-bit number, which overflows as in Java: a log may contain any generation."""
    return generation + 1 if generation < GENERATION_MAX else -GENERATION_MAX - 1
