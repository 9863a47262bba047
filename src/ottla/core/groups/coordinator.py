"""The group coordinator of one partition of the offsets topic: read this file first, every way into the machine is here.

It decides and never does: a command and the time give `Effects`. The shell appends their records as one batch, gives each to
`replay`, and only then sends the replies and publishes the events; if the append fails, the effects come back as `AppendFailed`.
Only `replay` changes what is durable, so a restart is the same code: replay the log, then `FinishLoading`.
"""

from collections.abc import Callable
from typing import Any

from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.commands import (
    AppendFailed,
    Command,
    DeleteGroup,
    DescribeGroup,
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
from ottla.core.groups.durable import DurableState
from ottla.core.groups.effects import Effects
from ottla.core.groups.expiry import expire_offsets
from ottla.core.groups.failures import append_failed
from ottla.core.groups.gate import CoordinatorStatus, refusal
from ottla.core.groups.join import join_group
from ottla.core.groups.listing import delete_group, describe_group, list_groups
from ottla.core.groups.loading import finish_loading, resign
from ottla.core.groups.membership import expire_session, heartbeat, leave_group
from ottla.core.groups.offsets import commit_offsets, delete_offsets, fetch_offsets, forget_topics
from ottla.core.groups.rebalance import expire_join
from ottla.core.groups.records import GroupMetadataRecord, GroupRecord
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.static_members import take_staged_place
from ottla.core.groups.step import Registry, Step
from ottla.core.groups.sync import expire_sync, settle, sync_group
from ottla.core.groups.timers import JOIN, SYNC, Timer
from ottla.core.groups.views import GroupsView, view_groups

REQUESTS: dict[type, Callable[[Step, Any], None]] = {
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


class Coordinator:
    """Coordinates the groups whose names hash to `partition`.

    Between effects that have records and their outcome (their replay, or `AppendFailed`) no other command may come: the shell is
    one loop per coordinator. That is asserted.
    """

    __slots__ = ("_undecided", "node_id", "partition", "registry", "status")

    def __init__(self, settings: GroupSettings, *, partition: int = 0, node_id: int = 1) -> None:
        self.partition = partition
        self.node_id = node_id
        self.status = CoordinatorStatus.LOADING
        self.registry = Registry(settings)
        self._undecided = 0
        """Records that were handed out and have neither been replayed nor failed."""

    @property
    def log_prefix(self) -> str:
        """What Kafka puts before each of this coordinator's log lines."""
        return f"[GroupCoordinator id={self.node_id} topic=__consumer_offsets partition={self.partition}] "

    def handle(self, command: Command, *, now_ms: int) -> Effects:
        """Decide about one command. Raises PeerError, with nothing changed, for strings that no record could hold."""
        step = Step(self.registry, now_ms)
        if isinstance(command, (AppendFailed, ExpireOffsets, FinishLoading, ForgetTopics, Resign)):
            self._take_notice(step, command)
        else:
            assert self._undecided == 0, f"{command} came before the last step was replayed or failed"
            self._answer(step, command)
        return self._decided(step)

    @property
    def is_expiring(self) -> bool:
        """Whether a pass over old offsets is under way, which the next `ExpireOffsets` carries on."""
        return self.registry.expiry is not None

    def begin(self, durable: DurableState) -> None:
        """While loading, instead of replaying each record of the log: know what all of them come to (`log_fold`)."""
        assert self.status is CoordinatorStatus.LOADING, f"a coordinator that is {self.status} knows what it knows"
        self.registry.durable = durable

    def replay(self, record: GroupRecord) -> None:
        """Let a record that is in the log take effect: while loading every one, later those of the last step."""
        self.registry.durable.apply(record)
        if self.status is CoordinatorStatus.ACTIVE:
            assert self._undecided > 0, f"{record} was not asked for"
            self._undecided -= 1
            self._take_effect(record)

    def next_deadline_ms(self) -> int | None:
        """When `fire_timers` has something to do, None if nothing is due ever."""
        return self.registry.timers.next_deadline_ms()

    def fire_timers(self, *, now_ms: int) -> Effects:
        """Fire the earliest timer that is due, and only that one; empty effects if none is."""
        assert self._undecided == 0, "a timer came before the last step was replayed or failed"
        step = Step(self.registry, now_ms)
        timer = self.registry.timers.pop_due(now_ms)
        if timer is not None:
            self._fire(step, timer)
        return self._decided(step)

    def view(self) -> GroupsView:
        """A frozen picture of all groups."""
        return view_groups(self.registry, partition=self.partition, node_id=self.node_id, status=self.status.value)

    def _answer(self, step: Step, command: Request) -> None:
        if self.status is not CoordinatorStatus.ACTIVE or (not isinstance(command, ListGroups) and not command.group_id):
            result = refusal(command, self.status, self.registry.settings)
            if result is not None:
                step.reply(command.reply_to, result)
                return
        REQUESTS[type(command)](step, command)

    def _take_notice(self, step: Step, command: Notice) -> None:
        if isinstance(command, AppendFailed):
            self._undecided = 0
            # What cannot be stored now is tried again at the next pass, not at once.
            self.registry.expiry = None
            append_failed(step, command)
            assert not step.records, "nothing can be stored where storing just failed"
            return
        assert self._undecided == 0, f"{command} came before the last step was replayed or failed"
        if isinstance(command, FinishLoading):
            assert self.status is CoordinatorStatus.LOADING, f"loading ends once; this coordinator is {self.status}"
            self.status = CoordinatorStatus.ACTIVE
            finish_loading(step)
        elif isinstance(command, Resign):
            self.status = CoordinatorStatus.RESIGNED
            resign(step)
        elif self.status is CoordinatorStatus.ACTIVE:
            if isinstance(command, ExpireOffsets):
                expire_offsets(step, command)
            else:
                forget_topics(step, command)

    def _decided(self, step: Step) -> Effects:
        self._undecided = len(step.records)
        return step.effects()

    def _take_effect(self, record: GroupRecord) -> None:
        """What a new record changes in the groups as they are now."""
        groups = self.registry.groups
        group = groups.get(record.group_id)
        if not isinstance(record, GroupMetadataRecord):
            if group is None and record.value is not None:
                # Offsets of a consumer that is no member: a simple group.
                groups[record.group_id] = ClassicGroup(record.group_id, now_ms=record.value.commit_timestamp_ms)
        elif group is None:
            return
        elif record.value is None:
            self.registry.drop(group)
        elif group.staged is not None:
            staged, group.staged = group.staged, None
            if staged.member is None:
                settle(group, staged, record.value)
            else:
                self.registry.timers.cancel(take_staged_place(group, staged).session)

    def _fire(self, step: Step, timer: Timer) -> None:
        group = self.registry.groups.get(timer.group_id)
        assert group is not None, f"{timer.key} outlived its group"
        if timer.kind == JOIN:
            expire_join(step, group)
        elif timer.kind == SYNC:
            expire_sync(step, group)
        else:
            expire_session(step, group, timer.member_id)
