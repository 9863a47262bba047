"""The consumer without I/O: membership, positions, fetching and commits as one state machine for all shells.

Two users share it, under a lock of theirs. The application's subscribes, polls, runs callbacks, takes records, and commits. The network's
sends what `next_sends` gives, and reports responses and failures. No call waits; times are milliseconds of a clock that never jumps. What
the application has to wait for shows in values (`Commit.is_done`), in `next_callback`, and in `has_news`.
"""

import re
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import singledispatchmethod
from typing import Any, Final

from ottla.client.engine.cluster import ClusterView
from ottla.client.engine.commits import Commits
from ottla.client.engine.fetching import Fetching
from ottla.client.engine.metrics import Metrics
from ottla.client.engine.positions import Positions, Validation
from ottla.client.engine.rebalances import Callback, ClassicRebalances, Rebalances, Reconciliations
from ottla.client.engine.record_buffer import MS_MAX, NO_RUN, ROWS_MIN, Decode, RecordBuffer, RecordRun, Slice, next_rows
from ottla.client.engine.subscriptions import Subscriptions
from ottla.client.engine.values import (
    LATEST,
    ConsumerSettings,
    CoordinatorResponse,
    Event,
    Fetch,
    ListOffsets,
    Metadata,
    MetadataResponse,
    OffsetAndMetadata,
    OffsetCommit,
    OffsetFetch,
    OffsetForLeaderEpoch,
    PollIntervalExceeded,
    Request,
    Route,
    Send,
    TopicUnavailable,
)
from ottla.client.fetch.leaders import Leaders, TopicMetadata
from ottla.client.membership.consumer_membership import ConsumerMembership
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.group_membership import GroupMembership
from ottla.client.membership.membership import Membership
from ottla.client.membership.values import (
    ConsumerGroupHeartbeat,
    FindCoordinator,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from ottla.client.reactions import METADATA, Reaction
from ottla.groups.assignors import Assignor
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

ANY_BROKER: Final = -1
CLOSE_COMMIT_MS: Final = 5_000
"""How long `close` tries to commit: a new coordinator is found and loads in that time, and a supervisor does not lose its patience."""
TAIL_BASE: Final = -2000
"""Offsets from here down count records before the end (librdkafka: `RD_KAFKA_OFFSET_TAIL_BASE`)."""


class Engine:
    """One consumer. `rng` gives numbers from 0 to 1; `time_of_day_ms` is for auto.offset.reset=by_duration alone.

    `run`: records that the application may take without the lock; it ends when the application has to poll for another reason.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        assignors: Sequence[Assignor],
        decode: Decode,
        *,
        now_ms: float,
        rng: Callable[[], float],
        time_of_day_ms: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.subscriptions = Subscriptions()
        self.evidence = Evidence(settings.group, now_ms=now_ms)
        self.metrics = Metrics(settings, self.subscriptions, self.evidence, now_ms=now_ms)
        self.membership: GroupMembership
        self.commits: Commits
        self.rebalances: Rebalances
        if settings.group.is_consumer_protocol:
            member = ConsumerMembership(settings.group, evidence=self.evidence, now_ms=now_ms, rng=rng)
            self.membership, self.commits = member, Commits(settings, member, self.subscriptions, now_ms=now_ms, rng=rng)
            self.rebalances = Reconciliations(settings, member, self.subscriptions, self.commits)
        else:
            classic = Membership(settings.group, assignors, evidence=self.evidence, now_ms=now_ms, rng=rng)
            self.membership, self.commits = classic, Commits(settings, classic, self.subscriptions, now_ms=now_ms, rng=rng)
            self.rebalances = ClassicRebalances(settings, classic, self.subscriptions, self.commits)
        self.leaders = Leaders()
        self.cluster = ClusterView(settings, self.leaders, rng=rng)
        self._positions = Positions(settings, self.membership, self.subscriptions, self.leaders, rng=rng, time_of_day_ms=time_of_day_ms)
        self._validation = Validation(settings, self.subscriptions, self.leaders, log=self.evidence.log_lines.append, rng=rng)
        self._fetching = Fetching(
            settings,
            self.subscriptions,
            leaders=self.leaders,
            cluster=self.cluster,
            positions=self._positions,
            validation=self._validation,
            buffer=RecordBuffer(decode, settings.prefetch_bytes_max),
            metrics=self.metrics,
            log=self.evidence.log_lines.append,
            rng=rng,
        )
        self._is_resolved = self._is_closing = False
        self.run = NO_RUN
        self._run_rows = ROWS_MIN
        self._events: list[Event] = []
        self._unavailable: set[str] = set()
        self._left: list[GroupRequest] = []

    def described(self) -> str:
        """The consumer in a few words, for people: what it reads may change while they read."""
        subscriptions = self.subscriptions
        patterns = [*(each.pattern for each in subscriptions.patterns), *filter(None, [subscriptions.regex])]
        names = sorted({*(subscriptions.topics or ()), *patterns})
        group = self.settings.group.group_id
        whose = f"of group {group!r}" if group else "without a group"
        return f"{whose} {names} {self.membership.state.value}, partitions: {len(subscriptions.partitions)}"

    # The application.

    def subscribe(self, topics: Iterable[str], patterns: Sequence[re.Pattern[str]], regex: str = "") -> None:
        """Replace the subscription; partitions change with the next rebalance. `regex`: a pattern for the coordinator."""
        self.subscriptions.subscribe(topics, patterns, regex)
        self._unavailable.clear()
        self._is_resolved = False
        if self.settings.group.group_id:
            self.membership.find_coordinator()
        self._resolve()

    def leave(self, reason: str, now_ms: float) -> None:
        """Begin to give up subscription and assignment: done when `rebalances.is_active` is over."""
        self.rebalances.leave(reason, now_ms, self.settings.api_timeout_ms)

    def close(self, reason: str, now_ms: float) -> None:
        """Begin to leave, and to close the fetch sessions: done when `is_leaving` is over, too."""
        self._is_closing = True
        self.rebalances.leave(reason, now_ms, min(self.settings.api_timeout_ms, CLOSE_COMMIT_MS))

    def assign(self, positions: Mapping[TopicPartition, OffsetAndMetadata | None], *, is_ready: bool = True) -> None:
        """Assign exactly these partitions, each with where to begin (None: at the committed offset)."""
        gone = self.subscriptions.partitions.keys() - positions.keys()
        self.subscriptions.remove(gone)
        self.incremental_assign(positions, is_ready=is_ready)
        self._fetching.follow_assignment()

    def incremental_assign(self, positions: Mapping[TopicPartition, OffsetAndMetadata | None], *, is_ready: bool = True) -> None:
        """Assign more partitions, or let assigned ones begin elsewhere."""
        partitions = self.subscriptions.partitions
        self.subscriptions.add([each for each in positions if each not in partitions], is_ready=is_ready)
        for partition, start in positions.items():
            if start is not None:
                self.seek(partition, start)
                partitions[partition].start = start.offset

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions away."""
        self.subscriptions.remove(list(partitions))
        self._fetching.follow_assignment()

    def seek(self, partition: TopicPartition, to: OffsetAndMetadata) -> None:
        """Continue an assigned partition at an offset, or at EARLIEST, LATEST or STORED; below -2000: so many records before the end."""
        state = self.subscriptions.partitions[partition]
        if to.offset >= 0:
            state.seek(to.offset, to.leader_epoch)
        elif to.offset <= TAIL_BASE:
            state.find(LATEST, TAIL_BASE - to.offset)
        else:
            state.find(to.offset)
        state.stored = None
        state.is_ready = True
        self.give_back(partition)

    def pause(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        """Hand out no records of these partitions for now, or go on."""
        for partition in partitions:
            self.subscriptions.partitions[partition].is_paused = is_paused

    def poll(self, now_ms: float, *, is_processed: bool = True) -> ErrorCode | Exception | None:
        """The application polls; the error that it has to get, if there is one. `is_processed`: it has processed all that it took."""
        self.settle()
        self.membership.poll(now_ms)
        self.evidence.polls.began(now_ms)
        if is_processed and not self.rebalances.is_active:
            self.commits.poll(now_ms)
        if self.membership.has_poll_expired:
            self.membership.has_poll_expired = False
            self._events.append(PollIntervalExceeded(self.settings.group.max_poll_interval_ms))
        return self.membership.take_failure()

    def next_callback(self, now_ms: float) -> Callback | None:
        """The listener's callback to run now. Records come when there is none left and no step is active."""
        if not self.rebalances.is_due:
            return None
        callback = self.rebalances.next_callback(now_ms)
        self._fetching.follow_assignment()
        return callback

    def take_events(self, count: int = sys.maxsize) -> list[Event]:
        """What happened that the application gets in the place of a record; at most `count`."""
        self._events += [*self._positions.failures, *self._validation.take_events(), *self._fetching.take_events()]
        self._positions.failures.clear()
        taken, self._events = self._events[:count], self._events[count:]
        return taken

    def take(self, count: int, *, enough: int | None = None, among: Container[TopicPartition] | None = None) -> list[Slice]:
        """At most `count` records, of the partitions `among` or of all; with `enough` no slice begins after so many.

        Positions move behind them, and fetches of what is used up are due. Raises UndecodableRecords.
        """
        self.settle()
        return [] if self.rebalances.is_active else self._fetching.take(count, enough=enough, among=among)

    def take_back(self, events: Sequence[Event], starts: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Undo what was taken last: the application did not get it. `starts`: of each partition the first record."""
        self._events[:0] = events
        for partition, start in starts.items():
            state = self.subscriptions.partitions.get(partition)
            if state is not None and state.position is not None:
                stored = start if self.settings.stores_offsets else state.stored
                self.seek(partition, start)
                state.stored = stored

    def start_run(self, now_ms: float) -> None:
        """Let the application take the next records without the lock, if there is nothing else that it has to poll for."""
        part = None if self._has_events() else self._fetching.peek(self._run_rows)
        if part is not None:
            commit_ms = self.commits.next_poll_ms()
            ends_ms = now_ms + MS_MAX if commit_ms is None else min(now_ms + MS_MAX, commit_ms)
            self.run = RecordRun(part.partition, part.columns, part.first, part.end, now_ms=now_ms, ends_ms=ends_ms)

    def settle(self) -> None:
        """End the run, and move positions behind what was taken of it. It comes before whatever needs or changes positions."""
        run, self.run = self.run, NO_RUN
        if run is not NO_RUN:
            count = run.end()
            self._run_rows = next_rows(count)
            self.membership.poll(run.polled_ms)
            if count:
                self._fetching.take(count, only=run.partition)

    def buffered_bytes(self, partition: TopicPartition) -> int:
        """Fetched bytes of a partition that the application has not got entirely."""
        return self._fetching.buffered_bytes(partition)

    def buffered_end(self, partition: TopicPartition) -> int | None:
        """The offset behind what was fetched of a partition and the application has not got, None where there is nothing."""
        return self._fetching.buffered_end(partition)

    def give_back(self, partition: TopicPartition) -> None:
        """Fetch a partition again from its position: records that were buffered could not be used."""
        self._fetching.give_back(partition)

    def has_news(self) -> bool:
        """Whether the application's poll has something to do or to return."""
        return self._has_events() or self.has_records()

    def _has_events(self) -> bool:
        membership = self.membership
        if self.rebalances.is_due or membership.failure is not None or membership.has_poll_expired:
            return True
        return bool(self._events or self._positions.failures or self._validation.events or self._fetching.events or self.commits.finished)

    def has_records(self, among: Container[TopicPartition] | None = None) -> bool:
        """Whether there may be records to take, of the partitions `among` or of any."""
        return not self.rebalances.is_active and self._fetching.has_records(among)

    def idle_ms(self, now_ms: float, *, has_records: bool = False) -> float:
        """How long a poll may wait: then a commit is due, unless the application has records in hand, or the poll has to be renewed."""
        wait_ms = self.settings.group.max_poll_interval_ms / 2
        commit_ms = None if has_records else self.commits.auto_commit_ms()
        return wait_ms if commit_ms is None else min(wait_ms, max(commit_ms - now_ms, 1.0))

    # The network.

    def next_sends(self, now_ms: float) -> list[Send]:
        """What to send now; each request once, and its outcome is reported."""
        sends: list[Send] = []
        if self.run is not NO_RUN:
            self.membership.poll(self.run.polled_ms)
            if self._has_events():
                self.settle()
        self._fetching.follow_assignment()
        timeout_ms = self.settings.request_timeout_ms
        commits = self.commits.next_requests(now_ms)
        for position_request, broker_id in (*self._positions.next_requests(now_ms), *self._validation.next_requests(now_ms)):
            if broker_id >= 0:
                sends.append(Send(position_request, Route.BROKER, broker_id, timeout_ms))
            else:
                sends.append(self._to_coordinator(position_request, timeout_ms))
        for commit in commits:
            send = self._to_coordinator(commit, timeout_ms)
            sends.append(send._replace(route=Route.BROKER) if self.commits.is_aside else send)
        for request in self.membership.next_requests(now_ms):
            sends.append(self._group_send(request))
        sends += self._fetching.next_sends(now_ms)
        if self._is_closing and not self.rebalances.is_active:
            sends += self._fetching.close_sessions()
        for unknown_leaders in (self._positions.unknown_leaders, self._validation.unknown_leaders):
            self.cluster.request_update(unknown_leaders)
            unknown_leaders.clear()
        self.cluster.request_topic_ids(self.membership.unknown_topic_ids)
        metadata = self.cluster.next_request(self._topics(), is_all=bool(self.subscriptions.patterns), now_ms=now_ms)
        if metadata is not None:
            sends.append(Send(metadata, Route.ANY, ANY_BROKER, timeout_ms))
        self.metrics.sent(sends, now_ms)
        return sends

    def next_ms(self, now_ms: float) -> float | None:
        """When `next_sends` may have something without any report; None when it waits for reports alone."""
        times = [
            self.membership.next_ms(),
            self.commits.next_ms(),
            self._positions.next_ms(now_ms),
            self._validation.next_ms(now_ms),
            self._fetching.next_ms(now_ms),
            self.cluster.next_ms(has_topics=bool(self._topics() or self.subscriptions.patterns)),
        ]
        return min((each for each in times if each is not None), default=None)

    def on_response(self, send: Send, response: Any, now_ms: float) -> None:
        """The response to a request, of the type that belongs to it. Raises PeerError when it makes no sense."""
        self.settle()
        self.metrics.answered(send.request, response, now_ms)
        if isinstance(send.request, Fetch):
            self._fetching.on_response(send.request, send.broker_id, response, now_ms)
        else:
            self._receive(send.request, response, now_ms)

    def on_no_response(self, send: Send, why: str, now_ms: float) -> None:
        """A request was not sent, or not answered: the broker cannot be reached, its connection broke, or it took too long."""
        self.settle()
        request = send.request
        self.metrics.unanswered(request, why, now_ms)
        if isinstance(request, Fetch):
            self._fetching.on_no_response(request, send.broker_id, why, now_ms)
        elif isinstance(request, Metadata):
            self.cluster.on_no_response(now_ms)
            self._fetching.on_no_metadata(why, now_ms)
        elif isinstance(request, OffsetFetch | ListOffsets):
            self._positions.on_no_response(request, now_ms)
        elif isinstance(request, OffsetForLeaderEpoch):
            self._validation.on_no_response(request, now_ms)
        elif isinstance(request, OffsetCommit):
            self.commits.on_no_response(request, now_ms)
        else:
            self.membership.on_no_response(request, now_ms)
            self._forget_leave(request)

    @property
    def has_fetches_due(self) -> bool:
        """Whether the application has taken so much that `next_sends` has a Fetch."""
        return self._fetching.is_due

    @property
    def is_leaving(self) -> bool:
        """Whether a LeaveGroup, or what closes a fetch session, is to be sent or on its way; it ends without a response, too."""
        return bool(self._left) or self.membership.is_leaving or (self._is_closing and self._fetching.has_sessions)

    # Responses, by the type of the request.

    @singledispatchmethod
    def _receive(self, request: Any, response: Any, now_ms: float) -> None:
        raise AssertionError(f"{request} has no response")

    @_receive.register
    def _(self, request: Metadata, response: MetadataResponse, now_ms: float) -> None:
        self.cluster.on_response(request, response, now_ms)
        self._fetching.on_metadata(response.topics, now_ms)
        self._report_unavailable(response.topics)
        self.membership.on_topic_ids({topic.topic_id: topic.name for topic in response.topics if topic.topic_id})
        if request.topics is None or self._topics() <= set(request.topics):
            self._is_resolved = True
        self._resolve()

    @_receive.register
    def _(self, request: FindCoordinator, response: CoordinatorResponse, now_ms: float) -> None:
        if response.error is ErrorCode.NONE:
            self.cluster.endpoints[response.broker_id] = response.endpoint
            self.membership.on_coordinator(response.broker_id, now_ms)
        else:
            self.membership.on_no_coordinator(response.error, now_ms)

    @_receive.register(JoinGroup | SyncGroup | Heartbeat)
    def _(self, request: Any, response: Any, now_ms: float) -> None:
        self.membership.on_response(request, response, now_ms)

    @_receive.register
    def _(self, request: ConsumerGroupHeartbeat, response: Any, now_ms: float) -> None:
        self._forget_leave(request)
        self.membership.on_response(request, response, now_ms)

    @_receive.register
    def _(self, request: LeaveGroup, response: ErrorCode, now_ms: float) -> None:
        self._forget_leave(request)

    @_receive.register
    def _(self, request: OffsetCommit, response: Any, now_ms: float) -> None:
        self.commits.on_response(request, response, now_ms)

    @_receive.register
    def _(self, request: OffsetFetch, response: Any, now_ms: float) -> None:
        self._positions.on_offsets(request, response, now_ms)

    @_receive.register
    def _(self, request: ListOffsets, response: Any, now_ms: float) -> None:
        self._positions.on_listed(request, response, now_ms)

    @_receive.register
    def _(self, request: OffsetForLeaderEpoch, response: Any, now_ms: float) -> None:
        self._validation.on_response(request, response, now_ms)

    # Decisions.

    def _topics(self) -> frozenset[str]:
        """The topics of interest."""
        assigned = {partition.topic for partition in self.subscriptions.partitions}
        return frozenset(assigned | (self.subscriptions.topics or frozenset()) | self.membership.group_topics)

    def _report_unavailable(self, topics: Iterable[TopicMetadata]) -> None:
        """Report once each topic that the subscription names and that cannot be read now."""
        named = self.subscriptions.topics or frozenset()
        for topic in topics:
            is_available = topic.error is ErrorCode.NONE or METADATA.of(topic.error) is not Reaction.TELL
            if is_available or topic.name not in named:
                self._unavailable.discard(topic.name)
            elif topic.name not in self._unavailable:
                self._unavailable.add(topic.name)
                self._events.append(TopicUnavailable(topic.name, topic.error))

    def _resolve(self) -> None:
        """Join with the topics of the subscription, once their metadata is known."""
        known = self.cluster.partitions.keys() - self.cluster.internal
        subscriptions = self.subscriptions
        if not subscriptions.is_by_group:
            return
        if not subscriptions.patterns and (subscriptions.topics or frozenset()) <= known:
            self._is_resolved = True
        if self._is_resolved and not self.settings.group.group_id:
            self._read_all(subscriptions.matching(known) & known)
        elif self.membership.sends_patterns:
            self.membership.subscribe(subscriptions.topics or frozenset(), subscriptions.regex)
        elif self._is_resolved:
            self.membership.on_metadata(dict(self.cluster.partitions), dict(self.cluster.racks))
            self.membership.subscribe(subscriptions.matching(known))

    def _read_all(self, topics: Iterable[str]) -> None:
        """Without a group, every partition of the subscription is read here."""
        partitions = self.subscriptions.partitions
        wanted = {TopicPartition(topic, number) for topic in topics for number in range(self.cluster.partitions[topic])}
        self.subscriptions.remove(partitions.keys() - wanted)
        self.subscriptions.add(sorted(wanted - partitions.keys()), is_ready=True)

    def _to_coordinator(self, request: Request, timeout_ms: float) -> Send:
        assert self.membership.coordinator is not None
        return Send(request, Route.COORDINATOR, self.membership.coordinator, timeout_ms)

    def _group_send(self, request: GroupRequest) -> Send:
        if isinstance(request, FindCoordinator):
            return Send(request, Route.ANY, ANY_BROKER, self.settings.request_timeout_ms)
        if isinstance(request, LeaveGroup) or (isinstance(request, ConsumerGroupHeartbeat) and request.is_leave):
            self._left.append(request)
        is_join = isinstance(request, JoinGroup)
        return self._to_coordinator(request, self.settings.group.join_timeout_ms if is_join else self.settings.request_timeout_ms)

    def _forget_leave(self, request: Request) -> None:
        self._left = [each for each in self._left if each is not request]
