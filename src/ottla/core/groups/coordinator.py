"""The group coordinator of one partition of the offsets topic. Start reading here: every command and timer enters through this class.

A command and the time give `Effects`; nothing durable changes yet. The shell appends their records, passes each to `replay`, and only
then sends the replies and publishes the events. If the append fails, the effects come back as `AppendFailed`. Effects of several
commands may share an append, unless a command reads what a pending record changes (`depends_on_pending`).
Only `replay` changes durable state, so a restart runs the same code: replay the log, then `FinishLoading`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ottla.core.errors import ErrorCode
from ottla.core.groups.administration import delete_group, list_groups
from ottla.core.groups.classic.append_failures import append_failed
from ottla.core.groups.classic.describe import describe_group
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.group_records import replay_group_record
from ottla.core.groups.classic.heartbeat import heartbeat
from ottla.core.groups.classic.join import join_group
from ottla.core.groups.classic.leave import evict_member, leave_group
from ottla.core.groups.classic.loading import create_groups, unload_groups
from ottla.core.groups.classic.rebalance import expire_join
from ottla.core.groups.classic.session_expiry import expire_member, expire_session
from ottla.core.groups.classic.states import ANSWERS
from ottla.core.groups.classic.sync import expire_sync, sync_group
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import (
    AppendFailed,
    Command,
    DeleteGroup,
    DescribeGroup,
    EvictMember,
    ExpireMember,
    ExpireOffsets,
    FinishLoading,
    ForgetTopics,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    Notice,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    Resign,
    SyncGroup,
)
from ottla.core.groups.coordinator_state import CoordinatorState
from ottla.core.groups.effects import Effects
from ottla.core.groups.log.committed_offsets import CommittedOffsets
from ottla.core.groups.log.records import GroupMetadataRecord, GroupRecord
from ottla.core.groups.log.replayed_state import ReplayedState
from ottla.core.groups.offsets.commit import commit_offsets
from ottla.core.groups.offsets.deletion import delete_offsets, forget_topics
from ottla.core.groups.offsets.expiry import expire_offsets
from ottla.core.groups.offsets.fetch import fetch_offsets
from ottla.core.groups.pending_records import PendingRecords
from ottla.core.groups.request_checks import CoordinatorStatus, refusal
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.snapshots import CoordinatorSnapshot, snapshot_groups
from ottla.core.groups.timers import JOIN, SYNC, Timer

REQUESTS: dict[type, Callable[[CommandContext, Any], None]] = {
    JoinGroup: join_group,
    SyncGroup: sync_group,
    Heartbeat: heartbeat,
    LeaveGroup: leave_group,
    OffsetCommit: commit_offsets,
    OffsetFetch: fetch_offsets,
    OffsetDelete: delete_offsets,
    DescribeGroup: describe_group,
    ListGroups: list_groups,
    DeleteGroup: delete_group,
}

ACTIVE_NOTICES: dict[type, Callable[[CommandContext, Any], None]] = {
    EvictMember: evict_member,
    ExpireMember: expire_member,
    ExpireOffsets: expire_offsets,
    ForgetTopics: forget_topics,
}
"""The broker's own commands that only an active coordinator carries out."""


class Coordinator:
    """Coordinates the groups that belong to `partition`, for one shell at a time.

    Effects are replayed, or fail, in the order in which they were returned, and all of them before a timer or a command that
    `depends_on_pending`. That is asserted.
    """

    __slots__ = ("_pending", "node_id", "partition", "state", "status")

    def __init__(self, settings: GroupSettings, *, partition: int = 0, node_id: int = 1) -> None:
        self.partition = partition
        self.node_id = node_id
        self.status = CoordinatorStatus.LOADING
        self.state = CoordinatorState(settings)
        self._pending = PendingRecords()

    @property
    def log_prefix(self) -> str:
        """The prefix of Kafka's log lines for this coordinator."""
        return f"[GroupCoordinator id={self.node_id} topic=__consumer_offsets partition={self.partition}] "

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> Effects:
        """Handle one command. Raises PeerError, with nothing changed, for strings that no record can hold.

        `now_ms` is the time of day, for records and events. `timer_ms` is the time of a clock that never jumps, by which timers run;
        None if one clock serves as both.
        """
        assert not self._pending.depends_on_pending(command), f"{command} came before what it reads was replayed or failed"
        context = CommandContext(self.state, now_ms, now_ms if timer_ms is None else timer_ms)
        handler = REQUESTS.get(type(command))
        if handler is None:
            self._handle_notice(context, command)  # type: ignore[arg-type]
        else:
            self._handle_request(context, command, handler)  # type: ignore[arg-type]
        return self._finish(context)

    def depends_on_pending(self, command: Command) -> bool:
        """Whether all effects returned so far must be replayed, or have failed, before this command."""
        return self._pending.depends_on_pending(command)

    def has_pending(self, group_id: str) -> bool:
        """Whether an earlier request of the group is answered only when its records are in the log."""
        return self._pending.has(group_id)

    def fast_heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, *, timer_ms: int) -> ErrorCode | None:
        """Handle a valid Heartbeat as `handle` does, at less cost: restart the session and return the response's error code.

        None, with nothing changed, if `handle` must decide, or a pending record concerns the group.
        """
        group = self.state.groups.get(group_id)
        if (
            not isinstance(group, ClassicGroup)
            or self.status is not CoordinatorStatus.ACTIVE
            or self._pending.heartbeat_depends_on_pending(group_id)
        ):
            return None
        member = group.members.get(member_id)
        if member is None or generation != group.generation or not group_id:
            return None
        if instance_id is not None and group.static_members.get(instance_id) != member_id:
            return None
        member.last_seen_ms = timer_ms
        self.state.timers.arm(member.session, timer_ms + member.session_timeout_ms)
        return ANSWERS[group.state].heartbeat

    @property
    def is_expiring(self) -> bool:
        """Whether an expiry pass is in progress, which the next `ExpireOffsets` continues."""
        return self.state.expiry is not None

    def restore(self, replayed: ReplayedState) -> None:
        """While loading: set the state that all records of the log replay to, instead of replaying each (`log.reducer`)."""
        assert self.status is CoordinatorStatus.LOADING, f"a coordinator that is {self.status} has its state already"
        self.state.replayed = replayed

    def replay(self, record: GroupRecord) -> None:
        """Apply a record of the log: every one while loading, later those of the latest effects."""
        self.state.replayed.apply(record)
        if self.status is CoordinatorStatus.ACTIVE:
            self._pending.remove(1)
            self._replay_to_groups(record)

    def replay_all(self, records: Sequence[GroupRecord]) -> None:
        """Apply all records of the same effects."""
        if not isinstance(records, CommittedOffsets):
            for record in records:
                self.replay(record)
            return
        self.state.replayed.apply_all(records)
        self._pending.remove(len(records))
        self._create_simple_group(records.group_id, records.commit_timestamp_ms)

    def next_deadline_ms(self) -> int | None:
        """When the next timer is due, by the timers' clock; None if none is armed."""
        return self.state.timers.next_deadline_ms()

    def fire_timers(self, *, now_ms: int, timer_ms: int | None = None) -> Effects:
        """Fire the earliest timer that is due, and only that one; empty effects if none is due."""
        assert self._pending.count == 0, "a timer came before the last effects were replayed or failed"
        context = CommandContext(self.state, now_ms, now_ms if timer_ms is None else timer_ms)
        timer = self.state.timers.pop_due(context.timer_ms)
        if timer is not None:
            self._fire(context, timer)
        return self._finish(context)

    def snapshot(self) -> CoordinatorSnapshot:
        """A snapshot of all groups."""
        return snapshot_groups(self.state, partition=self.partition, node_id=self.node_id, status=self.status.value)

    def _handle_request(self, context: CommandContext, command: Request, handler: Callable[[CommandContext, Any], None]) -> None:
        if self.status is not CoordinatorStatus.ACTIVE or (not isinstance(command, ListGroups) and not command.group_id):
            result = refusal(command, self.status, self.state.settings)
            if result is not None:
                context.reply(command.reply_to, result)
                return
        handler(context, command)

    def _handle_notice(self, context: CommandContext, command: Notice) -> None:
        if isinstance(command, AppendFailed):
            self._pending.remove(len(command.effects.records))
            # What cannot be stored now waits for the next expiry pass.
            self.state.expiry = None
            append_failed(context, command)
            assert not context.records, "a failed append must not append again"
        elif isinstance(command, FinishLoading):
            assert self.status is CoordinatorStatus.LOADING, f"loading ends once; this coordinator is {self.status}"
            self.status = CoordinatorStatus.ACTIVE
            create_groups(context)
        elif isinstance(command, Resign):
            self.status = CoordinatorStatus.RESIGNED
            unload_groups(context)
            self.state.expiry = None
            self.state.replayed.clear()
        elif self.status is CoordinatorStatus.ACTIVE:
            ACTIVE_NOTICES[type(command)](context, command)

    def _finish(self, context: CommandContext) -> Effects:
        effects = context.effects()
        if effects.records:
            self._pending.add(effects.records, self.state.groups)
        return effects

    def _replay_to_groups(self, record: GroupRecord) -> None:
        if isinstance(record, GroupMetadataRecord):
            group = self.state.groups.get(record.group_id)
            if isinstance(group, ClassicGroup):
                replay_group_record(self.state, group, record)
        elif record.value is not None:
            self._create_simple_group(record.group_id, record.value.commit_timestamp_ms)

    def _create_simple_group(self, group_id: str, now_ms: int) -> None:
        """Offsets of a consumer that is not a member create a group without members."""
        if group_id not in self.state.groups:
            self.state.groups[group_id] = ClassicGroup(group_id, now_ms=now_ms)

    def _fire(self, context: CommandContext, timer: Timer) -> None:
        group = self.state.groups.get(timer.group_id)
        assert isinstance(group, ClassicGroup), f"{timer.key} is armed, and its group was removed"
        if timer.kind == JOIN:
            expire_join(context, group)
        elif timer.kind == SYNC:
            expire_sync(context, group)
        else:
            expire_session(context, group, timer.member_id)
