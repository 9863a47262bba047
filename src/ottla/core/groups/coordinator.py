"""The group coordinator of one partition of the offsets topic: read this file first, every way into the machine is here.

It decides and never does: a command and the time give `Effects`. The shell appends their records, gives each to `replay`, and only
then sends the replies and publishes the events; if the append fails, the effects come back as `AppendFailed`. Effects of several
commands may share an append, as long as no command comes that would read what is undecided (`must_settle_before`).
Only `replay` changes what is durable, so a restart is the same code: replay the log, then `FinishLoading`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.commands import (
    AppendFailed,
    Command,
    DeleteGroup,
    DescribeGroup,
    ExpireOffsets,
    FinishLoading,
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
from ottla.core.groups.committed import CommittedOffsets
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
from ottla.core.groups.states import ANSWERS
from ottla.core.groups.static_members import take_staged_place
from ottla.core.groups.step import Registry, Step
from ottla.core.groups.sync import expire_sync, settle, sync_group
from ottla.core.groups.timers import JOIN, SYNC, Timer
from ottla.core.groups.undecided import Undecided
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

    The shell is one loop per coordinator. Effects are settled (replayed, or failed) in the order in which they were handed out, and all
    of them before a command that `must_settle_before` names, or a timer. That is asserted.
    """

    __slots__ = ("_undecided", "node_id", "partition", "registry", "status")

    def __init__(self, settings: GroupSettings, *, partition: int = 0, node_id: int = 1) -> None:
        self.partition = partition
        self.node_id = node_id
        self.status = CoordinatorStatus.LOADING
        self.registry = Registry(settings)
        self._undecided = Undecided()

    @property
    def log_prefix(self) -> str:
        """What Kafka puts before each of this coordinator's log lines."""
        return f"[GroupCoordinator id={self.node_id} topic=__consumer_offsets partition={self.partition}] "

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> Effects:
        """Decide about one command. Raises PeerError, with nothing changed, for strings that no record could hold.

        `now_ms` is the time of day, for records and events; `timer_ms` the time of a clock that never jumps, by which timers run,
        None where one clock is both.
        """
        assert not self._undecided.holds_up(command), f"{command} came before what it reads was replayed or failed"
        step = Step(self.registry, now_ms, now_ms if timer_ms is None else timer_ms)
        answer = REQUESTS.get(type(command))
        if answer is None:
            self._take_notice(step, command)  # type: ignore[arg-type]
        else:
            self._answer(step, command, answer)  # type: ignore[arg-type]
        return self._decided(step)

    def must_settle_before(self, command: Command) -> bool:
        """Whether everything that was handed out must be replayed, or have failed, before this command may come."""
        return self._undecided.holds_up(command)

    def beat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, *, timer_ms: int) -> ErrorCode | None:
        """The answer to a Heartbeat that does no more than start a session anew, which is then done: the same as `handle`'s, at less cost.

        None, and nothing is done, when a whole step must decide, or something must be settled before.
        """
        group = self.registry.groups.get(group_id)
        if group is None or self.status is not CoordinatorStatus.ACTIVE or self._undecided.holds_up_beats(group_id):
            return None
        member = group.members.get(member_id)
        if member is None or generation != group.generation or not group_id:
            return None
        if instance_id is not None and group.static_members.get(instance_id) != member_id:
            return None
        member.last_seen_ms = timer_ms
        self.registry.timers.arm(member.session, timer_ms + member.session_timeout_ms)
        return ANSWERS[group.state].heartbeat

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
            self._undecided.remove(1)
            self._take_effect(record)

    def replay_all(self, records: Sequence[GroupRecord]) -> None:
        """As `replay` with each of the records of one step."""
        if not isinstance(records, CommittedOffsets):
            for record in records:
                self.replay(record)
            return
        self.registry.durable.apply_all(records)
        self._undecided.remove(len(records))
        self._make_simple_group(records.group_id, records.commit_timestamp_ms)

    def next_deadline_ms(self) -> int | None:
        """When `fire_timers` has something to do, by the clock of the timers; None if nothing is due ever."""
        return self.registry.timers.next_deadline_ms()

    def fire_timers(self, *, now_ms: int, timer_ms: int | None = None) -> Effects:
        """Fire the earliest timer that is due, and only that one; empty effects if none is."""
        assert self._undecided.count == 0, "a timer came before the last step was replayed or failed"
        step = Step(self.registry, now_ms, now_ms if timer_ms is None else timer_ms)
        timer = self.registry.timers.pop_due(step.timer_ms)
        if timer is not None:
            self._fire(step, timer)
        return self._decided(step)

    def view(self) -> GroupsView:
        """A frozen picture of all groups."""
        return view_groups(self.registry, partition=self.partition, node_id=self.node_id, status=self.status.value)

    def _answer(self, step: Step, command: Request, answer: Callable[[Step, Any], None]) -> None:
        if self.status is not CoordinatorStatus.ACTIVE or (not isinstance(command, ListGroups) and not command.group_id):
            result = refusal(command, self.status, self.registry.settings)
            if result is not None:
                step.reply(command.reply_to, result)
                return
        answer(step, command)

    def _take_notice(self, step: Step, command: Notice) -> None:
        if isinstance(command, AppendFailed):
            self._undecided.remove(len(command.effects.records))
            # What cannot be stored now is tried again at the next pass, not at once.
            self.registry.expiry = None
            append_failed(step, command)
            assert not step.records, "nothing can be stored where storing just failed"
            return
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
        effects = step.effects()
        if effects.records:
            self._undecided.add(effects.records, self.registry.groups)
        return effects

    def _take_effect(self, record: GroupRecord) -> None:
        """What a new record changes in the groups as they are now."""
        group = self.registry.groups.get(record.group_id)
        if not isinstance(record, GroupMetadataRecord):
            if record.value is not None:
                self._make_simple_group(record.group_id, record.value.commit_timestamp_ms)
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

    def _make_simple_group(self, group_id: str, now_ms: int) -> None:
        """Offsets of a consumer that is no member of any group make one without members."""
        if group_id not in self.registry.groups:
            self.registry.groups[group_id] = ClassicGroup(group_id, now_ms=now_ms)

    def _fire(self, step: Step, timer: Timer) -> None:
        group = self.registry.groups.get(timer.group_id)
        assert group is not None, f"{timer.key} outlived its group"
        if timer.kind == JOIN:
            expire_join(step, group)
        elif timer.kind == SYNC:
            expire_sync(step, group)
        else:
            expire_session(step, group, timer.member_id)
