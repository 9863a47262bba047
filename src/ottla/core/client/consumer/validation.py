"""Detects truncated logs: asks a new leader whether its log holds the positions (KIP-320).

A leader that was not in sync, elected all the same, has another log than the one before: offsets behind the point where they diverge hold
other records, or none. A position with the leader epoch of the record before it shows that: the new leader says where that epoch ends in
its log. Source: Kafka's `SubscriptionState` (AWAIT_VALIDATION) and `OffsetsForLeaderEpochClient`.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.core.client.backoff import backoff_ms
from ottla.core.client.consumer.events import LogTruncated, PartitionFailure
from ottla.core.client.consumer.subscriptions import PartitionState, Subscriptions
from ottla.core.client.consumer.values import ConsumerSettings, EpochEnd, LeaderEpoch, OffsetAndMetadata, OffsetForLeaderEpoch
from ottla.core.client.leaders import LeaderAndEpoch, Leaders
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

_NO_END: Final = EpochEnd(ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)


class _Asked(NamedTuple):
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
        self._asked: dict[OffsetForLeaderEpoch, dict[TopicPartition, _Asked]] = {}
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
        by_leader: dict[int, dict[TopicPartition, _Asked]] = {}
        for partition, state in self._subscriptions.partitions.items():
            if not state.awaits_validation or not state.is_ready or state.retry_at_ms > now_ms or id(state) in pending:
                continue
            leader = self._leaders.leader(partition)
            if leader is None:
                self.unknown_leaders.add(partition.topic)
            elif leader.epoch < 0:
                state.awaits_validation = False  # without its epoch, a leader cannot be asked
            else:
                asked = _Asked(state, state.position, state.epoch, leader)
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
            if end.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self.events.append(PartitionFailure(partition, end.error, "the broker refuses to say whether its log holds the position"))
                asked.state.retry_at_ms = float("inf")
            elif end.error is not ErrorCode.NONE:
                self.unknown_leaders.add(partition.topic)
                self._retry(asked.state, now_ms)
            else:
                self._on_end(partition, asked, end)

    def on_no_response(self, request: OffsetForLeaderEpoch, now_ms: float) -> None:
        """The request was lost with its connection, or not answered in time."""
        for partition, asked in self._asked.pop(request).items():
            self.unknown_leaders.add(partition.topic)
            self._retry(asked.state, now_ms)

    def _is_current(self, partition: TopicPartition, asked: _Asked) -> bool:
        """Whether the answer is about the present position and leader; otherwise there is another request."""
        state = asked.state
        is_same = (state.position, state.epoch) == (asked.position, asked.epoch) and self._leaders.leader(partition) == asked.leader
        return is_same and state.awaits_validation and self._subscriptions.partitions.get(partition) is state

    def _on_end(self, partition: TopicPartition, asked: _Asked, end: EpochEnd) -> None:
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

    def _retry(self, state: PartitionState, now_ms: float) -> None:
        state.retry_at_ms = now_ms + backoff_ms(1, *self._settings.group.retry_backoff_ms, self._rng())
