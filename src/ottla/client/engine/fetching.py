"""Fetching of the assigned partitions: what is requested ahead of the application, and what it gets (Kafka: `Fetcher`, `AbstractFetch`).

It keeps the fetch machine, the sessions and the buffer in step with the assignment; positions move when the application takes records.
"""

from collections.abc import Callable, Container, Iterable
from typing import Final

from ottla.client.backoff import backoff_ms
from ottla.client.engine.cluster import ClusterView
from ottla.client.engine.metrics import Metrics
from ottla.client.engine.positions import Positions, Validation
from ottla.client.engine.record_buffer import RecordBuffer, Slice, UndecodableRecords
from ottla.client.engine.subscriptions import PartitionState, Subscriptions
from ottla.client.engine.values import (
    ConsumerSettings,
    Fetch,
    FetchResponse,
    OffsetAndMetadata,
    PartitionEnd,
    PartitionFailure,
    Route,
    Send,
)
from ottla.client.fetch.fetch_machine import FetchMachine
from ottla.client.fetch.fetch_sessions import FetchSessions
from ottla.client.fetch.fetch_values import (
    FINAL_EPOCH,
    Need,
    OffsetOutOfRange,
    PartitionRefused,
    PartitionResponse,
    Problem,
    SendFetch,
    TopicRecreated,
)
from ottla.client.fetch.leaders import Leaders, TopicMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

CLOSE_SESSION_MS: Final = 1_000


class Fetching:
    """The fetches of one consumer. `is_due`: the application has taken so much that `next_sends` has a Fetch; `events` are for it.

    `log` takes a line for each position that is out of range, in the words of Kafka's Java client.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        *,
        leaders: Leaders,
        cluster: ClusterView,
        positions: Positions,
        validation: Validation,
        buffer: RecordBuffer,
        metrics: Metrics,
        log: Callable[[str], None],
        rng: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._leaders = leaders
        self._cluster = cluster
        self._positions = positions
        self._validation = validation
        self._buffer = buffer
        self._metrics = metrics
        self._log = log
        self._rng = rng
        self._machine = FetchMachine((), policy=settings.fetch, leaders=leaders, rng=rng)
        self._sessions = FetchSessions()
        self._fetched: dict[TopicPartition, PartitionState] = {}
        # Partitions whose records could not be read or whose topic was re-created: how often since the last records, and when they are
        # fetched again (0.0: not decided yet).
        self._failures: dict[TopicPartition, int] = {}
        self._held: dict[TopicPartition, float] = {}
        self.is_due = False
        self.events: list[PartitionEnd | PartitionFailure] = []

    # The application.

    def take_events(self) -> list[PartitionEnd | PartitionFailure]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def follow_assignment(self) -> None:
        """Fetch what is assigned and has a position, and nothing else."""
        partitions = self._subscriptions.partitions
        for partition, state in list(self._fetched.items()):
            if partitions.get(partition) is not state or not state.has_valid_position:
                self.give_back(partition)
        for partition, state in partitions.items():
            is_new = partition not in self._fetched and partition not in self._held
            if is_new and state.position is not None and not state.awaits_validation and state.is_ready:
                self._fetched[partition] = state
                state.leader = state.leader or self._leaders.leader(partition)
                self._machine.add(partition, state.position)
            if partition in self._fetched:
                self._update_need(partition, state)

    def take(
        self,
        count: int,
        *,
        enough: int | None = None,
        only: TopicPartition | None = None,
        among: Container[TopicPartition] | None = None,
    ) -> list[Slice]:
        """At most `count` records, with `only` of one partition, readable or not, else of the partitions `among` or of all.

        With `enough` no slice begins after so many.

        Positions move behind them, and fetches of what is used up are due. Raises UndecodableRecords.
        """
        buffered_bytes = self._buffer.size_bytes
        try:
            slices = self._buffer.take(count, self._readable(among) if only is None else only.__eq__, enough=enough)
        except UndecodableRecords as error:
            self._hold(error.partition)
            raise
        is_used_up = self._buffer.size_bytes != buffered_bytes
        for part in slices:
            state = self._subscriptions.partitions[part.partition]
            state.position = part.next_offset
            state.taken += part.end - part.first
            self._failures.pop(part.partition, None)
            if part.epoch >= 0:
                state.epoch = part.epoch
            if self._settings.stores_offsets:
                state.stored = OffsetAndMetadata(part.next_offset, state.epoch)
            if is_used_up:
                self._update_need(part.partition, state)
        self._metrics.taken(sum(part.end - part.first for part in slices), buffered_bytes - self._buffer.size_bytes)
        return slices

    def peek(self, count: int) -> Slice | None:
        """The next records, at most `count`, which stay buffered; None when there are none."""
        return self._buffer.peek(count, self._is_readable)

    def has_records(self, among: Container[TopicPartition] | None = None) -> bool:
        """Whether there may be records to take, of the partitions `among` or of any."""
        return self._buffer.has_records(self._readable(among))

    def buffered_bytes(self, partition: TopicPartition) -> int:
        """Fetched bytes of a partition that were not taken entirely."""
        return self._buffer.partition_bytes(partition)

    def buffered_end(self, partition: TopicPartition) -> int | None:
        """The offset behind what was fetched of a partition and not taken, None where there is nothing."""
        return self._buffer.end(partition)

    def give_back(self, partition: TopicPartition) -> None:
        """Fetch a partition again from its position: records that were buffered could not be used."""
        self._machine.remove(partition)
        self._buffer.drop(partition)
        self._fetched.pop(partition, None)
        self._held.pop(partition, None)

    # The network.

    def next_sends(self, now_ms: float) -> list[Send]:
        """The fetches to send now."""
        sends, policy = [], self._settings.fetch
        self.is_due = False
        if self._held:
            self._release_held(now_ms)
        for action in self._machine.next_actions(now_ms):
            if isinstance(action, SendFetch):
                fetch = Fetch(action.fetches, policy, self._sessions.of(action.broker_id).request(action.fetches))
                sends.append(Send(fetch, Route.FETCH, action.broker_id, self._settings.request_timeout_ms + policy.max_wait_ms))
            else:
                self._cluster.request_update(action.topics)
        return sends

    def close_sessions(self) -> list[Send]:
        """What closes the sessions of brokers. A Fetch may wait for records on the connection for fetches, so it takes another one."""
        closing = self._sessions.close().items()
        return [Send(Fetch((), self._settings.fetch, each), Route.BROKER, broker_id, CLOSE_SESSION_MS) for broker_id, each in closing]

    @property
    def has_sessions(self) -> bool:
        """Whether a broker keeps a session, or the request that closes it is on its way."""
        return self._sessions.is_open

    def next_ms(self, now_ms: float) -> float | None:
        """When `next_sends` may have something without any report."""
        times = [self._machine.next_action_ms(now_ms), min(self._held.values(), default=None)]
        return min((each for each in times if each is not None), default=None)

    def on_metadata(self, topics: Iterable[TopicMetadata], now_ms: float) -> None:
        """New metadata, which the table of leaders has already."""
        self._machine.on_metadata(topics, now_ms)
        self._validation.follow_leaders()
        self._on_problems(now_ms)

    def on_no_metadata(self, why: str, now_ms: float) -> None:
        """No broker answered Metadata."""
        self._machine.on_metadata_failure(why, now_ms)
        self._on_problems(now_ms)

    def on_response(self, request: Fetch, broker_id: int, response: FetchResponse, now_ms: float) -> None:
        """A response to a Fetch. Raises PeerError when it makes no sense."""
        if request.session.epoch == FINAL_EPOCH:
            self._sessions.on_closed(broker_id)
            return
        self._cluster.endpoints.update(response.endpoints)
        offsets = {fetch.partition: fetch.offset for fetch in request.fetches}
        partitions = self._sessions.of(broker_id).on_response(response.error, response.session_id, response.partitions)
        if response.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
            self._cluster.request_update({each.topic for each in offsets})
        for fetched in self._machine.on_response(broker_id, partitions, now_ms):
            self._buffer.add(fetched)
        self._validation.follow_leaders()
        for each in partitions:
            state = self._fetched.get(each.partition)
            if state is not None and each.error is ErrorCode.NONE:
                state.failures = 0
                state.high_watermark, state.log_start_offset = each.high_watermark, each.log_start_offset
                state.last_stable_offset, state.fetched_ms = each.last_stable_offset, now_ms
                self._report_end(each, offsets[each.partition], state)
                self._update_need(each.partition, state)
        self._on_problems(now_ms)

    def on_no_response(self, request: Fetch, broker_id: int, why: str, now_ms: float) -> None:
        """A Fetch was not sent, or not answered."""
        if request.session.epoch == FINAL_EPOCH:
            self._sessions.on_closed(broker_id)
            return
        self._sessions.of(broker_id).on_no_response()
        self._machine.on_disconnect(broker_id, why, now_ms)

    # Decisions.

    def _hold(self, partition: TopicPartition) -> None:
        """Fetch a partition again from its position, after a back-off."""
        self.give_back(partition)
        self._failures[partition] = self._failures.get(partition, 0) + 1
        self._held[partition] = 0.0
        self.is_due = True

    def _release_held(self, now_ms: float) -> None:
        """Fetch partitions again that are held, each after its back-off."""
        for partition, at_ms in list(self._held.items()):
            if at_ms == 0.0:
                failures = self._failures.get(partition, 1)
                self._held[partition] = now_ms + backoff_ms(failures, *self._settings.group.retry_backoff_ms, self._rng())
            elif at_ms <= now_ms:
                del self._held[partition]
        self.follow_assignment()

    def _update_need(self, partition: TopicPartition, state: PartitionState) -> None:
        if self._machine.set_need(partition, self._need(partition, state)):
            self.is_due = True

    def _need(self, partition: TopicPartition, state: PartitionState) -> Need:
        """Fetch more when nothing is buffered, or when the log has more than what is and there is space for it.

        A partition whose log has no more is part of requests for others: while they wait for records, it would not be requested.
        """
        buffered = self._buffer.partition_bytes(partition)
        if state.is_paused:
            return Need.NOT
        if not buffered:
            return Need.NOW
        if self._buffer.size_bytes >= self._settings.prefetch_bytes_max or buffered >= self._settings.fetch.partition_max_bytes:
            return Need.NOT
        return Need.NOW if self._log_has_more(partition, state) else Need.WITH_OTHERS

    def _log_has_more(self, partition: TopicPartition, state: PartitionState) -> bool:
        return self._machine.position(partition) < state.end(is_read_committed=self._settings.fetch.is_read_committed)

    def _readable(self, among: Container[TopicPartition] | None) -> Callable[[TopicPartition], bool]:
        return self._is_readable if among is None else lambda partition: partition in among and self._is_readable(partition)

    def _is_readable(self, partition: TopicPartition) -> bool:
        state = self._fetched.get(partition)
        if state is None or not state.is_fetchable or not self._subscriptions.reads(partition.topic):
            return False
        return self._subscriptions.partitions.get(partition) is state

    def _report_end(self, response: PartitionResponse, offset: int, state: PartitionState) -> None:
        end = response.last_stable_offset if self._settings.fetch.is_read_committed else response.high_watermark
        if self._settings.reports_ends and not response.records and offset == state.position == end and state.end_reported != end:
            state.end_reported = end
            self.events.append(PartitionEnd(response.partition, end))

    def _on_problems(self, now_ms: float) -> None:
        for partition, problem in self._machine.take_problems():
            self._on_problem(partition, problem, now_ms)

    def _on_problem(self, partition: TopicPartition, problem: Problem, now_ms: float) -> None:
        state = self._fetched.get(partition)
        if state is None:
            return
        if isinstance(problem, OffsetOutOfRange):
            # Where records before that offset are buffered, they are fetched again, and the error comes again behind them.
            is_at_position = state.position == problem.position
            self.give_back(partition)
            if is_at_position:
                name = f"{partition.topic}-{partition.partition}"
                does = "" if self._settings.reset is None else ", resetting offset"
                self._log(f"Fetch position {problem.position} is out of range for partition {name}{does}")
                self._positions.reset(partition, f"the log has no offset {problem.position}", failed_ms=now_ms)
        elif isinstance(problem, PartitionRefused):
            failure = PartitionFailure(partition, problem.error, "the broker refuses to read it")
            if failure not in self.events:
                self.events.append(failure)
        else:
            assert isinstance(problem, TopicRecreated), f"open ranges are retried after {problem}"
            self._hold(partition)
