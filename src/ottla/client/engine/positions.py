"""Positions of the assigned partitions: where they begin, seeks and resets, and validation when a leader changes.

They begin at committed offsets, or are reset to the start, the end or a time (Kafka: `OffsetFetcher` and its coordinator). A seek while a
request is on its way wins over its response.

A leader that was not in sync, elected all the same, has another log than the one before: offsets behind the point where they diverge hold
other records, or none. A position with the leader epoch of the record before it shows that: the new leader says where that epoch ends in
its log (KIP-320; Kafka: `SubscriptionState` (AWAIT_VALIDATION) and `OffsetsForLeaderEpochClient`).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.client.engine.subscriptions import PartitionState, Subscriptions
from ottla.client.engine.values import (
    LATEST,
    STORED,
    ConsumerSettings,
    EpochEnd,
    FetchedOffset,
    LeaderEpoch,
    ListedOffset,
    ListOffsets,
    LogTruncated,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetForLeaderEpoch,
    PartitionFailure,
    ResetByDuration,
)
from ottla.client.fetch.leaders import LeaderAndEpoch, Leaders
from ottla.client.membership.group_membership import GroupMembership
from ottla.client.reactions import EPOCH_END, LIST_OFFSETS, OFFSET_FETCH, Reaction, ReactionTable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

_NO_END: Final = EpochEnd(ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)


class _Validation(NamedTuple):
    """What a request asks about."""

    state: PartitionState
    position: int | None
    epoch: int
    leader: LeaderAndEpoch


class Validation:
    """Validates the positions of assigned partitions.

    `events`: what the application has to get; `unknown_leaders`: topics whose metadata is needed. `log` takes a line for each position that
    moves, in the words of Kafka's Java client.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        leaders: Leaders,
        *,
        log: Callable[[str], None],
        rng: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._leaders = leaders
        self._log = log
        self._rng = rng
        self._version = leaders.version
        self._asked: dict[OffsetForLeaderEpoch, dict[TopicPartition, _Validation]] = {}
        self.events: list[LogTruncated | PartitionFailure] = []
        self.unknown_leaders: set[str] = set()

    def take_events(self) -> list[LogTruncated | PartitionFailure]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def follow_leaders(self) -> None:
        """Validate the positions of partitions that have another leader, or a leader with another epoch, than when they were read."""
        if self._version == self._leaders.version:
            return
        self._version = self._leaders.version
        for partition, state in self._subscriptions.partitions.items():
            leader = self._leaders.leader(partition)
            if state.position is None or leader is None or leader == state.leader:
                continue
            if state.leader is not None and not state.awaits_validation:
                state.awaits_validation = state.epoch >= 0
            state.leader = leader

    def next_requests(self, now_ms: float) -> list[tuple[OffsetForLeaderEpoch, int]]:
        """Requests to send, each with its broker's id."""
        pending = {id(asked.state) for partitions in self._asked.values() for asked in partitions.values()}
        by_leader: dict[int, dict[TopicPartition, _Validation]] = {}
        for partition, state in self._subscriptions.partitions.items():
            if not state.awaits_validation or not state.is_ready or state.retry_at_ms > now_ms or id(state) in pending:
                continue
            leader = self._leaders.leader(partition)
            if leader is None:
                self.unknown_leaders.add(partition.topic)
            elif leader.epoch < 0:
                state.awaits_validation = False  # without its epoch, a leader cannot be asked
            else:
                asked = _Validation(state, state.position, state.epoch, leader)
                by_leader.setdefault(leader.broker_id, {})[partition] = asked
        requests = []
        for broker_id, partitions in by_leader.items():
            request = OffsetForLeaderEpoch({each: LeaderEpoch(asked.epoch, asked.leader.epoch) for each, asked in partitions.items()})
            self._asked[request] = partitions
            requests.append((request, broker_id))
        return requests

    def next_ms(self, now_ms: float) -> float | None:
        """When `next_requests` may have something without any report."""
        waits = [state.retry_at_ms for state in self._subscriptions.partitions.values() if state.awaits_validation]
        return min((each for each in waits if each > now_ms), default=None)

    def on_response(self, request: OffsetForLeaderEpoch, ends: Mapping[TopicPartition, EpochEnd], now_ms: float) -> None:
        """A response to OffsetForLeaderEpoch."""
        for partition, asked in self._asked.pop(request).items():
            if not self._is_current(partition, asked):
                continue
            end = ends.get(partition, _NO_END)
            if end.error is not ErrorCode.NONE and EPOCH_END.of(end.error) is Reaction.TELL:
                failure = PartitionFailure(partition, end.error, "the broker refuses to say whether its log holds the position")
                if failure not in self.events:
                    self.events.append(failure)
                asked.state.back_off(now_ms, self._settings, self._rng())
            elif end.error is not ErrorCode.NONE:
                self.unknown_leaders.add(partition.topic)
                asked.state.back_off(now_ms, self._settings, self._rng())
            else:
                self._on_end(partition, asked, end)

    def on_no_response(self, request: OffsetForLeaderEpoch, now_ms: float) -> None:
        """The request was lost with its connection, or not answered in time."""
        for partition, asked in self._asked.pop(request).items():
            self.unknown_leaders.add(partition.topic)
            asked.state.back_off(now_ms, self._settings, self._rng())

    def _is_current(self, partition: TopicPartition, asked: _Validation) -> bool:
        """Whether the answer is about the present position and leader; otherwise there is another request."""
        state = asked.state
        is_same = (state.position, state.epoch) == (asked.position, asked.epoch) and self._leaders.leader(partition) == asked.leader
        return is_same and state.awaits_validation and self._subscriptions.partitions.get(partition) is state

    def _on_end(self, partition: TopicPartition, asked: _Validation, end: EpochEnd) -> None:
        state = asked.state
        assert state.position is not None
        is_unknown = end.end_offset < 0 or end.leader_epoch < 0
        if not is_unknown and end.end_offset >= state.position:
            state.leader, state.awaits_validation = asked.leader, False
            return
        if self._settings.reset is None:
            diverging = None if is_unknown else OffsetAndMetadata(end.end_offset, end.leader_epoch)
            self.events.append(LogTruncated(partition, OffsetAndMetadata(state.position, state.epoch), diverging))
            state.retry_at_ms = float("inf")
            return
        detected = (
            f"Truncation detected for partition {partition.topic}-{partition.partition} at offset {state.position} (epoch {state.epoch})"
        )
        state.stored = None
        if is_unknown:
            self._log(f"{detected}, resetting offset")
            state.find(self._settings.reset)
        else:
            diverges = f"{end.end_offset} (epoch {end.leader_epoch})"
            self._log(f"{detected}, resetting offset to the first offset known to diverge {diverges}")
            state.seek(end.end_offset, end.leader_epoch, is_valid=True)
            state.leader = asked.leader


class _Lookup(NamedTuple):
    """A partition in a request, and what was asked for it."""

    state: PartitionState
    wants: int | ResetByDuration
    tail: int


def _asked(states: Mapping[TopicPartition, PartitionState]) -> dict[TopicPartition, _Lookup]:
    return {partition: _Lookup(state, state.wants, state.tail) for partition, state in states.items()}


class Positions:
    """Finds the positions of assigned partitions. `failures`: partitions that cannot be read."""

    def __init__(
        self,
        settings: ConsumerSettings,
        membership: GroupMembership,
        subscriptions: Subscriptions,
        leaders: Leaders,
        *,
        rng: Callable[[], float],
        time_of_day_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._subscriptions = subscriptions
        self._leaders = leaders
        self._rng = rng
        self._time_of_day_ms = time_of_day_ms
        self._asked: dict[OffsetFetch | ListOffsets, dict[TopicPartition, _Lookup]] = {}
        self.failures: list[PartitionFailure] = []
        self.unknown_leaders: set[str] = set()

    def next_requests(self, now_ms: float) -> list[tuple[OffsetFetch | ListOffsets, int]]:
        """Requests to send, each with its broker's id (-1: the coordinator)."""
        if not self._settings.group.group_id:
            self._reset_stored()
        pending = {id(asked.state) for states in self._asked.values() for asked in states.values()}
        missing = {
            partition: state
            for partition, state in self._subscriptions.partitions.items()
            if state.position is None and state.is_ready and state.retry_at_ms <= now_ms and id(state) not in pending
        }
        requests: list[tuple[OffsetFetch | ListOffsets, int]] = []
        stored = {partition: state for partition, state in missing.items() if state.wants == STORED}
        if stored and self._membership.coordinator is None:
            self._membership.find_coordinator()
        elif stored:
            request = OffsetFetch(self._settings.group.group_id, tuple(stored))
            self._asked[request] = _asked(stored)
            requests.append((request, -1))
        by_leader: dict[int, dict[TopicPartition, PartitionState]] = {}
        for partition, state in missing.items():
            if state.wants != STORED:
                leader = self._leaders.leader(partition)
                if leader is None:
                    self.unknown_leaders.add(partition.topic)
                else:
                    by_leader.setdefault(leader.broker_id, {})[partition] = state
        for broker_id, states in by_leader.items():
            timestamps = {partition: self._timestamp(state) for partition, state in states.items()}
            listing = ListOffsets(timestamps, self._settings.fetch.is_read_committed)
            self._asked[listing] = _asked(states)
            requests.append((listing, broker_id))
        return requests

    def next_ms(self, now_ms: float) -> float | None:
        """When `next_requests` may have something without any report."""
        waits = [state.retry_at_ms for state in self._subscriptions.partitions.values() if state.position is None]
        return min((each for each in waits if each > now_ms), default=None)

    def on_offsets(self, request: OffsetFetch, response: OffsetFetchResponse, now_ms: float) -> list[TopicPartition]:
        """A response to OffsetFetch: the partitions whose position is known now."""
        states = self._asked.pop(request)
        found = []
        for partition, state in self._still_wanted(states).items():
            fetched = response.offsets.get(partition, FetchedOffset(ErrorCode.UNKNOWN_SERVER_ERROR, OffsetAndMetadata(-1)))
            error = fetched.error if response.error is ErrorCode.NONE else response.error
            if error is not ErrorCode.NONE:
                self._on_error(partition, state, OFFSET_FETCH, error, now_ms)
            elif fetched.offset.offset >= 0:
                state.seek(fetched.offset.offset, fetched.offset.leader_epoch)
                state.committed = fetched.offset.offset
                found.append(partition)
            else:
                self.reset(partition)
        if response.error is not ErrorCode.NONE and OFFSET_FETCH.of(response.error) is Reaction.FIND_COORDINATOR:
            self._membership.coordinator_lost(now_ms)
        return found

    def on_listed(self, request: ListOffsets, offsets: Mapping[TopicPartition, ListedOffset], now_ms: float) -> list[TopicPartition]:
        """A response to ListOffsets: the partitions whose position is known now."""
        found = []
        for partition, state in self._still_wanted(self._asked.pop(request)).items():
            listed = offsets.get(partition, ListedOffset(ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1))
            if listed.error is not ErrorCode.NONE:
                self._on_error(partition, state, LIST_OFFSETS, listed.error, now_ms)
            elif listed.offset < 0 and (isinstance(state.wants, ResetByDuration) or state.wants >= 0):
                state.find(LATEST)  # no record is that young
            elif listed.offset < 0:
                self._on_error(partition, state, LIST_OFFSETS, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms)  # a log has a start and an end
            else:
                state.seek(max(listed.offset - state.tail, 0), listed.leader_epoch, is_valid=True)
                if self._settings.stores_resets:
                    state.stored = OffsetAndMetadata(state.position or 0, listed.leader_epoch)
                found.append(partition)
        return found

    def on_no_response(self, request: OffsetFetch | ListOffsets, now_ms: float) -> None:
        """The request was lost with its connection, or not answered in time."""
        states = self._asked.pop(request)
        if isinstance(request, OffsetFetch):
            self._membership.coordinator_lost(now_ms)
        for partition, asked in states.items():
            if isinstance(request, ListOffsets):
                self.unknown_leaders.add(partition.topic)
            asked.state.back_off(now_ms, self._settings, self._rng())

    def reset(self, partition: TopicPartition, why: str = "there is no committed offset", *, failed_ms: float | None = None) -> None:
        """The partition has no valid offset: begin where auto.offset.reset says. `failed_ms`: the log has refused the last one now.

        The first time it is looked up at once; then later and later, until a Fetch succeeds.
        """
        state = self._subscriptions.partitions.get(partition)
        if state is None:
            return
        if self._settings.reset is None:
            self._stop(partition, state, ErrorCode.OFFSET_OUT_OF_RANGE, f"{why}, and auto.offset.reset is none")
            return
        state.find(self._settings.reset)
        if failed_ms is not None:
            state.back_off(failed_ms, self._settings, self._rng(), at_once=1)

    def _reset_stored(self) -> None:
        """Without a group, nothing is committed."""
        for partition, state in self._subscriptions.partitions.items():
            if state.position is None and state.is_ready and state.wants == STORED:
                self.reset(partition)

    def _timestamp(self, state: PartitionState) -> int:
        if isinstance(state.wants, ResetByDuration):
            return max(self._time_of_day_ms() - state.wants.duration_ms, 0)
        return state.wants

    def _still_wanted(self, asked: Mapping[TopicPartition, "_Lookup"]) -> dict[TopicPartition, PartitionState]:
        """Those that are assigned as they were when the request was made, and were not sought meanwhile."""
        now = self._subscriptions.partitions
        return {
            partition: state
            for partition, (state, wants, tail) in asked.items()
            if now.get(partition) is state and state.position is None and (state.wants, state.tail) == (wants, tail)
        }

    def _on_error(self, partition: TopicPartition, state: PartitionState, table: ReactionTable, error: ErrorCode, now_ms: float) -> None:
        reaction = table.of(error)
        if reaction is Reaction.TELL:
            self._tell(PartitionFailure(partition, error, "the broker refuses to look up its offset"))
        if reaction is Reaction.REFRESH:
            self.unknown_leaders.add(partition.topic)
        state.back_off(now_ms, self._settings, self._rng())

    def _tell(self, failure: PartitionFailure) -> None:
        if failure not in self.failures:
            self.failures.append(failure)

    def _stop(self, partition: TopicPartition, state: PartitionState, error: ErrorCode, why: str) -> None:
        """Report an error. The application may seek; until then the partition is not read."""
        self._tell(PartitionFailure(partition, error, why))
        state.is_ready = False
        state.retry_at_ms = float("inf")
