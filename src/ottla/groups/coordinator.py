"""The group coordinator of one partition of the offsets topic. Start reading here: every command and timer enters through this module.

How a command's effects become durable is the same for every kind of coordinator (`coordinator/coordinator.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ottla.coordinator.coordinator import AppendFailed, Coordinator, CoordinatorStatus
from ottla.coordinator.effects import NO_EFFECTS, Effects, LazySequence, Producer, Reply
from ottla.coordinator.loading import Reducer, ReducerFactory, UncommittedBatch, skipped_record
from ottla.coordinator.loop import CoordinatorService
from ottla.coordinator.timers import Timer
from ottla.groups.classic.group import CLASSIC, JOIN, SYNC, ClassicGroup, describe_group
from ottla.groups.classic.join import join_group
from ottla.groups.classic.leave import evict_member, expire_member, expire_session, leave_group
from ottla.groups.classic.member import SESSION
from ottla.groups.classic.rebalance import expire_join
from ottla.groups.classic.records import append_failed, create_groups, replay_group_record
from ottla.groups.classic.sync import expire_sync, heartbeat, sync_group
from ottla.groups.commands import (
    Command,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    DeleteResult,
    DescribeGroup,
    EvictMember,
    ExpireMember,
    ExpireOffsets,
    ForgetTopics,
    GroupEffects,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListedGroup,
    ListGroups,
    ListResult,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    Result,
    SyncGroup,
    TxnOffsetCommit,
    error_result,
    refusal,
)
from ottla.groups.consumer import classic_members, departures
from ottla.groups.consumer.describing import describe_as_classic, describe_consumer_group
from ottla.groups.consumer.group import CLASSIC_JOIN, CLASSIC_SYNC, CONSUMER, CONSUMER_SESSION, RESOLUTION, REVOCATION
from ottla.groups.consumer.heartbeat import consumer_heartbeat
from ottla.groups.consumer.records import consumer_append_failed, create_consumer_groups, replay_consumer_record
from ottla.groups.consumer.regexes import resolve_regexes
from ottla.groups.consumer.upgrade import heartbeat_at_classic_group
from ottla.groups.events import GroupEvent
from ottla.groups.group import DEAD_STATE, CommandContext, CoordinatorState, Group
from ottla.groups.log.committed_offsets import CommittedOffsets, frame_records
from ottla.groups.log.records import ConsumerGroupRecord, GroupMetadataRecord, GroupRecord, OffsetRecord, decode
from ottla.groups.log.replayed_state import ReplayedState
from ottla.groups.offsets import (
    commit_offsets,
    commit_transactional_offsets,
    delete_all_offsets,
    delete_offsets,
    expire_offsets,
    fetch_offsets,
    forget_topics,
)
from ottla.groups.settings import GroupConfigs, GroupSettings
from ottla.groups.snapshots import CoordinatorSnapshot, GroupSummary, MemberAssignment
from ottla.groups.topics import ClusterTopics
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import ErrorCode, PeerError


class ListedGroups(LazySequence[ListedGroup]):
    """Listed groups in one of `states` (lower case; empty: in any), created one by one while the response is encoded.

    The groups are those of the time of the request; the state of each is read when its item is created.
    """

    __slots__ = ("_groups", "_states")

    def __init__(self, groups: Sequence[Group], states: frozenset[str]) -> None:
        self._groups = groups
        self._states = states

    def __len__(self) -> int:
        return len(self._make())

    def __iter__(self) -> Iterator[ListedGroup]:
        for group in self._groups:
            if not self._states or group.state_name.lower() in self._states:
                yield ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    state=group.state_name,
                    group_type=group.group_type,
                )

    def _make(self) -> tuple[ListedGroup, ...]:
        return tuple(iter(self))


def list_groups(context: CommandContext, command: ListGroups) -> None:
    """List the groups of the requested states and types; an empty filter matches all, case is ignored."""
    states = frozenset(state.strip().lower() for state in command.states)
    types = {group_type.lower() for group_type in command.types}  # as in Kafka, blanks around a type count
    groups = tuple(context.state.groups.values())
    if types:
        groups = tuple(group for group in groups if group.group_type in types)
    context.reply(command.reply_to, ListResult(error=ErrorCode.NONE, groups=ListedGroups(groups, states)))


def delete_group(context: CommandContext, command: DeleteGroup) -> None:
    """Write tombstones for a group without members: first for its offsets, then for the group."""
    group = context.state.groups.get(command.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.delete_group_error
    if group is not None and error is ErrorCode.NONE:
        delete_all_offsets(context, group.group_id)
        count = len(context.records)
        context.records.extend(group.tombstones())
        context.log(f"The following groups were deleted: {group.group_id}. A total of {count} offsets were removed.")
        evidence = {"offset_count": count}
        context.emit_change(group, "deleted", group.state_name, DEAD_STATE, evidence=evidence, reason="by DeleteGroups")
    context.reply(command.reply_to, DeleteResult(error=error))


HANDLERS: dict[type, Callable[[CommandContext, Any], None]] = {
    JoinGroup: join_group,
    SyncGroup: sync_group,
    Heartbeat: heartbeat,
    LeaveGroup: leave_group,
    OffsetCommit: commit_offsets,
    TxnOffsetCommit: commit_transactional_offsets,
    OffsetFetch: fetch_offsets,
    OffsetDelete: delete_offsets,
    DescribeGroup: describe_group,
    ListGroups: list_groups,
    DeleteGroup: delete_group,
    EvictMember: evict_member,
    ExpireMember: expire_member,
    ExpireOffsets: expire_offsets,
    ForgetTopics: forget_topics,
    ConsumerGroupHeartbeat: consumer_heartbeat,
    ConsumerGroupDescribe: describe_consumer_group,
}
"""The handlers of requests about all groups, about a group that does not exist, and of classic groups."""

HANDLERS_BY_TYPE: dict[str, dict[type, Callable[[CommandContext, Any], None]]] = {
    CLASSIC: {ConsumerGroupHeartbeat: heartbeat_at_classic_group},
    CONSUMER: {
        JoinGroup: classic_members.join_group,
        SyncGroup: classic_members.sync_group,
        Heartbeat: classic_members.heartbeat,
        LeaveGroup: departures.leave_group,
        DescribeGroup: describe_as_classic,
        EvictMember: departures.evict_member,
        ExpireMember: departures.expire_member,
    },
}
"""What a group of a type does instead."""

TIMERS: dict[str, Callable[..., None]] = {
    JOIN: expire_join,
    SYNC: expire_sync,
    SESSION: expire_session,
    CONSUMER_SESSION: departures.expire_session,
    REVOCATION: departures.expire_revocation,
    CLASSIC_JOIN: departures.expire_classic_join,
    CLASSIC_SYNC: departures.expire_classic_sync,
    RESOLUTION: resolve_regexes,
}
"""What a timer of each kind does; it gets the context and the timer's names."""


class GroupCoordinator(Coordinator[Command, GroupRecord, Result, GroupEvent, ReplayedState]):
    """Coordinates the groups that belong to `partition`."""

    kind = "group"
    topic = "__consumer_offsets"
    key_name = "group_id"
    partial_readers = frozenset({OffsetCommit, TxnOffsetCommit, Heartbeat, JoinGroup, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat})
    """They read a group's members and never its committed offsets."""
    periodic_command = ExpireOffsets()

    encode = staticmethod(frame_records)

    __slots__ = ("state",)

    def __init__(
        self,
        settings: GroupSettings,
        *,
        partition: int = 0,
        node_id: int = 1,
        topics: ClusterTopics | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        self.state = CoordinatorState(settings, topics, configs)
        super().__init__(self.state.timers, partition=partition, node_id=node_id)

    def fast_heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, *, timer_ms: int) -> ErrorCode | None:
        """Handle a valid Heartbeat as `handle` does, at less cost: restart the session and return the response's error code.

        None, with nothing changed, if `handle` must decide, or a pending record concerns the group's members.
        """
        group = self.state.groups.get(group_id)
        if (
            group is None
            or not group_id
            or self.status is not CoordinatorStatus.ACTIVE
            or (self._pending_count and self._pending_keys.get(group_id))
        ):
            return None
        return group.fast_heartbeat(generation, member_id, instance_id, timer_ms, self.timers)

    def fast_consumer_heartbeat(
        self, group_id: str, member_id: str, epoch: int, instance_id: str | None, client_id: str, client_host: str, *, timer_ms: int
    ) -> int | None:
        """As `fast_heartbeat`, for a ConsumerGroupHeartbeat that names nothing but the member: the heartbeat interval in ms."""
        group = self.state.groups.get(group_id)
        if group is None or self.status is not CoordinatorStatus.ACTIVE or (self._pending_count and self._pending_keys.get(group_id)):
            return None
        return group.fast_consumer_heartbeat(self.state, member_id, epoch, instance_id, client_id, client_host, timer_ms)

    @property
    def is_expiring(self) -> bool:
        """Whether an expiry pass is in progress, which the next `ExpireOffsets` continues."""
        return self.state.expiry is not None

    def restore(self, loaded: ReplayedState) -> None:
        assert self.status is CoordinatorStatus.LOADING, f"a coordinator that is {self.status} has its state already"
        self.state.replayed = loaded

    def replay_all(self, records: Sequence[GroupRecord]) -> None:
        if not isinstance(records, CommittedOffsets):
            super().replay_all(records)
            return
        self._remove_pending(len(records))
        self.state.replayed.apply_all(records)
        if self.state.pending_offsets:
            for record in records:
                self.state.pending_offsets.replace(record.group_id, record.topic, record.partition)
        self._create_simple_group(records.group_id, records.commit_timestamp_ms)

    def may_exceed_batch(self, records: Sequence[GroupRecord]) -> bool:
        # Many tombstones go into one batch of any size: no request waits that could be answered with the error.
        return len(records) > 1 and not isinstance(records, CommittedOffsets)

    def periodic_delay_ms(self) -> int:
        # A pass that has not ended continues in the next iteration of the event loop: requests are served in between.
        return 0 if self.is_expiring else self.state.settings.offsets_retention_check_interval_ms

    def parked_requests(self) -> Iterator[int]:
        for group in self.state.groups.values():
            yield from group.parked_requests()

    # What metrics, oracles and tools read

    def snapshot(self) -> CoordinatorSnapshot:
        """A snapshot of all groups."""
        replayed = self.state.replayed
        groups = tuple(
            group.snapshot(metadata=replayed.group_metadata.get(group_id), offsets=replayed.offsets.get(group_id, {}))
            for group_id, group in self.state.groups.items()
        )
        return CoordinatorSnapshot(partition=self.partition, node_id=self.node_id, status=self.status.value, groups=groups)

    def summary(self, group_id: str) -> GroupSummary | None:
        """The summary of one group; None if it does not exist."""
        group = self.state.groups.get(group_id)
        return None if group is None else group.summary(self.state.commit_counts.get(group_id, 0))

    def assignments(self, group_id: str) -> tuple[MemberAssignment, ...] | None:
        """The assignments of all members; None unless the group is Stable. Decodes every assignment, so it costs more than a summary."""
        group = self.state.groups.get(group_id)
        return None if group is None else group.assignments()

    def committed_offsets(self, group_id: str) -> list[tuple[str, list[int], list[OffsetValue]]]:
        """Committed offsets by topic: the partitions, and the value of each. Two lists, not pairs, since there may be many."""
        by_topic = self.state.replayed.offsets.get(group_id, {})
        return [(topic, list(by_partition), list(by_partition.values())) for topic, by_partition in by_topic.items()]

    # The hooks of the runtime

    def _decide(self, command: Command, now_ms: int, timer_ms: int) -> GroupEffects:
        context = CommandContext(self.state, now_ms, timer_ms)
        if not getattr(command, "group_id", True) and isinstance(command, Request):
            result = refusal(command, self.status, self.state.settings)
            if result is not None:
                context.reply(command.reply_to, result)
                return context.effects()
        kind = type(command)
        group = self.state.groups.get(getattr(command, "group_id", ""))
        handler = None if group is None else HANDLERS_BY_TYPE[group.group_type].get(kind)
        (handler or HANDLERS[kind])(context, command)
        return context.effects()

    def _refuse(self, command: Command) -> GroupEffects:
        if not isinstance(command, Request):
            return NO_EFFECTS
        result = refusal(command, self.status, self.state.settings)
        assert result is not None, "groups decide only while ACTIVE"
        return Effects(replies=(Reply(to=command.reply_to, result=result),))

    def _changed_keys(self, records: Sequence[GroupRecord]) -> Iterable[tuple[str, bool]]:
        if isinstance(records, CommittedOffsets):
            # The first offset of a group creates the group.
            return ((records.group_id, records.group_id not in self.state.groups),)
        return [(record.group_id, True) for record in records]

    def _replay(self, record: GroupRecord) -> None:
        self.state.replayed.apply(record)
        if self.status is not CoordinatorStatus.ACTIVE:
            return
        if isinstance(record, GroupMetadataRecord):
            replay_group_record(self.state, record)
        elif isinstance(record, ConsumerGroupRecord):
            replay_consumer_record(self.state, record)
        elif record.value is not None:
            self.state.pending_offsets.replace(record.group_id, record.topic, record.partition)
            self._create_simple_group(record.group_id, record.value.commit_timestamp_ms)
        else:
            self.state.pending_offsets.remove(record.group_id, record.topic, record.partition)

    def replay_transactional(self, records: Sequence[GroupRecord], producer: Producer) -> None:
        assert isinstance(records, CommittedOffsets), "nothing else is written in transactions"
        self._remove_pending(len(records))
        self.state.pending_offsets.add(producer.id, records)
        self._create_simple_group(records.group_id, records.commit_timestamp_ms)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        for record in self.state.pending_offsets.end(producer_id):
            if commits:
                self.state.replayed.apply(record)
                assert record.value is not None
                self._create_simple_group(record.group_id, record.value.commit_timestamp_ms)

    def restore_open(self, transactions: Sequence[UncommittedBatch]) -> Sequence[str]:
        pending, replayed = self.state.pending_offsets, self.state.replayed
        problems = []
        for transaction in transactions:
            offsets = []
            for framed in transaction.records:
                try:
                    record = decode(framed.key, framed.value)
                except PeerError as error:
                    problems.append(skipped_record(framed.offset, error))
                    continue
                if isinstance(record, OffsetRecord) and record.value is not None:
                    offsets.append(record)
            pending.add(transaction.producer_id, offsets)
            for record in offsets:
                committed = replayed.committed(record.group_id, record.topic, record.partition)
                assert record.value is not None
                if committed is not None and committed.commit_timestamp_ms > record.value.commit_timestamp_ms:
                    pending.replace(record.group_id, record.topic, record.partition)
        return problems

    def _create_simple_group(self, group_id: str, now_ms: int) -> None:
        """Offsets of a consumer that is not a member create a group without members."""
        if group_id not in self.state.groups:
            self.state.groups[group_id] = ClassicGroup(group_id, now_ms=now_ms)

    def _fire(self, timer: Timer, now_ms: int, timer_ms: int) -> GroupEffects:
        context = CommandContext(self.state, now_ms, timer_ms)
        TIMERS[timer.kind](context, *timer.names)
        return context.effects()

    def _finish_loading(self, now_ms: int, timer_ms: int) -> GroupEffects:
        context = CommandContext(self.state, now_ms, timer_ms)
        create_consumer_groups(context)
        create_groups(context)
        return context.effects()

    def _resign(self, now_ms: int, timer_ms: int) -> GroupEffects:
        context = CommandContext(self.state, now_ms, timer_ms)
        for group in list(self.state.groups.values()):
            group.unload(context)
            self.state.remove_group(group)
        self.state.expiry = None
        self.state.replayed.clear()
        self.state.pending_offsets.clear()
        return context.effects()

    def _append_failed(self, failed: AppendFailed, now_ms: int, timer_ms: int) -> GroupEffects:
        # What cannot be stored now waits for the next expiry pass.
        self.state.expiry = None
        context = CommandContext(self.state, now_ms, timer_ms)
        append_failed(context, failed)
        consumer_append_failed(context, failed)
        return context.effects()


class GroupService(CoordinatorService[GroupCoordinator]):
    """The groups of one broker. `choose_reducer` gets how many bytes are to be loaded."""

    coordinator_type = GroupCoordinator

    def __init__(
        self,
        settings: GroupSettings,
        choose_reducer: Callable[[int], ReducerFactory[ReplayedState]],
        topics: ClusterTopics | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        self.settings = settings
        self._topics = topics
        self._configs = configs
        self.codec = settings.offsets_topic_codec
        self._choose_reducer = choose_reducer

    def create(self, *, partition: int, node_id: int, leader_epoch: int) -> GroupCoordinator:
        return GroupCoordinator(self.settings, partition=partition, node_id=node_id, topics=self._topics, configs=self._configs)

    def reducer(self, log_bytes: int) -> Reducer[ReplayedState]:
        return self._choose_reducer(log_bytes)()

    def refusal(self, command: Request, status: CoordinatorStatus) -> Result | None:
        return refusal(command, status, self.settings)

    def error_result(self, command: Request, error: ErrorCode) -> Result:
        return error_result(command, error)
