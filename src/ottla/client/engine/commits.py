"""Commits: what is sent when, what a refusal means, and when a commit is tried again (Kafka: `ConsumerCoordinator`, its commit half).

A commit of a member carries the generation that it has when the request is sent. Commits go on during a rebalance: the coordinator takes
them until all members have joined, but not on the connection where JoinGroup waits for its response (`is_aside`).
"""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.client.backoff import backoff_ms
from ottla.client.engine.subscriptions import Subscriptions
from ottla.client.engine.values import ConsumerSettings, OffsetAndMetadata, OffsetCommit
from ottla.client.membership.group_membership import GroupMembership
from ottla.client.membership.values import MemberState
from ottla.client.reactions import COMMIT, Reaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

NOT_A_MEMBER: Final = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)
"""The coordinator knows no such member, or the group rebalances: a commit of before is refused."""
_LATE: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
_UNKNOWN_TOPIC_FAILURES_MAX: Final = 3
"""A broker may learn of a new topic a moment later than the client; one that is unknown after so many attempts was deleted."""


class Commit:
    """One commit. When `is_done`, `errors` has the error of each partition, NONE for committed ones.

    `retry_until_ms`: None: it is tried once. `outlasts_rebalances`: also after a rebalance that it met, if the member keeps its partitions.
    `is_reported`: the application's callback gets the result.
    """

    def __init__(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        retry_until_ms: float | None = None,
        outlasts_rebalances: bool = False,
        is_reported: bool = False,
    ) -> None:
        self.offsets = offsets
        self.retry_until_ms = retry_until_ms
        self.outlasts_rebalances = outlasts_rebalances
        self.is_reported = is_reported
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.is_done = not offsets
        self.failures = 0
        self.retry_at_ms = 0.0
        self.claim = -1
        """The member's when the application committed."""

    @property
    def error(self) -> ErrorCode:
        """The first error, NONE when all offsets are committed."""
        return next((error for error in self.errors.values() if error is not ErrorCode.NONE), ErrorCode.NONE)


class Commits:
    """The commits of one consumer, in their order. `finished`: those whose results the application has not got yet.

    `is_aside`: requests take the connection to the coordinator's broker, not that of the group, where JoinGroup waits.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        membership: GroupMembership,
        subscriptions: Subscriptions,
        *,
        now_ms: float,
        rng: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._subscriptions = subscriptions
        self._rng = rng
        self._waiting: list[Commit] = []
        self._in_flight: dict[OffsetCommit, Commit] = {}
        self.is_aside = False
        self._automatic: Commit | None = None
        self._auto_at_ms = now_ms + settings.auto_commit_interval_ms
        self._auto_failures = 0
        self.finished: list[Commit] = []

    def commit(self, commit: Commit) -> Commit:
        """Send a commit as soon as the coordinator is known."""
        if not commit.is_done:
            commit.claim = self._membership.claim
            self._waiting.append(commit)
        return commit

    def commit_stored(self, retry_until_ms: float) -> Commit:
        """Commit all stored offsets, with retries."""
        return self.commit(Commit(self._subscriptions.uncommitted(), retry_until_ms=retry_until_ms, is_reported=True))

    def poll(self, now_ms: float) -> None:
        """The application polls, so it has processed all records that it got: commit them if it is time."""
        automatic = self._automatic
        is_on_its_way = automatic is not None and automatic not in self._waiting
        if not self._settings.is_auto_commit or now_ms < self._auto_at_ms or is_on_its_way:
            return
        self._auto_at_ms = now_ms + self._settings.auto_commit_interval_ms
        offsets = self._subscriptions.uncommitted()
        if offsets and automatic is not None:  # it waits for its coordinator, and takes what was processed meanwhile
            automatic.offsets = offsets
        elif offsets:
            self._automatic = self.commit(Commit(offsets, is_reported=True))

    def auto_commit_ms(self) -> float | None:
        """When the application has to poll for the next automatic commit; None when there is nothing to commit."""
        return self.next_poll_ms() if self._subscriptions.uncommitted() else None

    def next_poll_ms(self) -> float | None:
        """When `poll` has something to do, if the application takes more records; None when that is no matter of time."""
        return self._auto_at_ms if self._settings.is_auto_commit and self._automatic is None else None

    def next_requests(self, now_ms: float) -> list[OffsetCommit]:
        """The requests to send to the coordinator now."""
        due = [commit for commit in self._waiting if commit.retry_at_ms <= now_ms]
        if not due:
            return []
        membership = self._membership
        if membership.is_subscribed and membership.has_lost_partitions:
            is_joining = membership.state is not MemberState.UNJOINED
            for commit in due:
                self._give_up(commit, ErrorCode.REBALANCE_IN_PROGRESS if is_joining else ErrorCode.UNKNOWN_MEMBER_ID, now_ms)
            return []
        if self._is_held:
            if membership.coordinator is None:
                membership.find_coordinator()
            error = ErrorCode.REQUEST_TIMED_OUT if membership.coordinator is None else ErrorCode.REBALANCE_IN_PROGRESS
            # After SyncGroup, what the member does not keep may be committed by its next owner.
            is_completing, owned = membership.state is MemberState.COMPLETING_REBALANCE, self._subscriptions.partitions.keys()
            for commit in due:
                is_late = commit.retry_until_ms is not None and commit.retry_until_ms <= now_ms
                if is_late or (is_completing and not commit.offsets.keys() <= owned):
                    self._give_up(commit, error, now_ms)
            return []
        self.is_aside = membership.state is MemberState.PREPARING_REBALANCE
        requests = []
        for commit in due:
            self._waiting.remove(commit)
            if commit.claim != membership.claim and not commit.offsets.keys() <= self._subscriptions.partitions.keys():
                # Partitions were given up while it waited: their new owner's commits must not be overwritten.
                self._fail(commit, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
                continue
            generation, member_id = membership.identity
            request = OffsetCommit(
                group_id=self._settings.group.group_id,
                generation=generation,
                member_id=member_id,
                instance_id=self._settings.group.instance_id if member_id else None,
                offsets=commit.offsets,
                has_epoch=self._settings.group.is_consumer_protocol and bool(member_id),
            )
            self._in_flight[request] = commit
            requests.append(request)
        return requests

    def next_ms(self) -> float | None:
        """When `next_requests` may have something without any report."""
        times = [commit.retry_at_ms for commit in self._waiting]
        if self._is_held:
            times = [commit.retry_until_ms for commit in self._waiting if commit.retry_until_ms is not None]
        return min(times, default=None)

    @property
    def _is_held(self) -> bool:
        """Whether commits wait for a coordinator, for the response to SyncGroup, or for those that another connection might overtake."""
        membership = self._membership
        if membership.coordinator is None or membership.state is MemberState.COMPLETING_REBALANCE:
            return True
        return bool(self._in_flight) and self.is_aside is not (membership.state is MemberState.PREPARING_REBALANCE)

    def on_response(self, request: OffsetCommit, errors: Mapping[TopicPartition, ErrorCode], now_ms: float) -> None:
        """A response to OffsetCommit."""
        commit = self._in_flight.pop(request)
        commit.errors = {partition: errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in commit.offsets}
        for partition, error in commit.errors.items():
            state = self._subscriptions.partitions.get(partition)
            if state is not None and error is ErrorCode.NONE:
                state.committed = commit.offsets[partition].offset
        found = set(errors.values())
        if commit.failures >= _UNKNOWN_TOPIC_FAILURES_MAX:
            found.discard(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        reactions = {COMMIT.of(error) for error in found}
        if not_a_member := found & NOT_A_MEMBER:
            error = min(not_a_member)
            is_rebalancing = self._membership.commit_refused(error, request.generation, request.member_id, now_ms)
            # It arrived when all members had joined, or later: the next generation takes it.
            is_joining = self._membership.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
            is_late = error in _LATE and (is_joining or request.generation < self._membership.generation)
            if is_late and commit.outlasts_rebalances and commit.offsets.keys() <= self._subscriptions.partitions.keys():
                self._retry(commit, now_ms)
            else:
                self._fail(commit, ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else error, now_ms)
        elif request.has_epoch and ErrorCode.STALE_MEMBER_EPOCH in found:
            # The next heartbeat brings the epoch with which it succeeds, if the member keeps its partitions.
            self._membership.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, request.generation, request.member_id, now_ms)
            self._retry(commit, now_ms)
        elif Reaction.FIND_COORDINATOR in reactions:
            self._membership.coordinator_lost(now_ms)
            self._retry(commit, now_ms)
        elif Reaction.RETRY in reactions:
            self._retry(commit, now_ms)
        else:
            self._finish(commit, now_ms)

    def on_no_response(self, request: OffsetCommit, now_ms: float) -> None:
        """The request was lost with its connection, or not answered in time."""
        if not self.is_aside:
            self._membership.coordinator_lost(now_ms)
        commit = self._in_flight.pop(request)
        commit.errors = dict.fromkeys(commit.offsets, ErrorCode.REQUEST_TIMED_OUT)
        self._retry(commit, now_ms)

    def _retry(self, commit: Commit, now_ms: float) -> None:
        """Later, or never if that is too late: `errors` has what went wrong."""
        commit.failures += 1
        wait_ms = self._backoff_ms(commit.failures)
        if commit.retry_until_ms is None or now_ms + wait_ms >= commit.retry_until_ms:
            self._finish(commit, now_ms)
            return
        commit.retry_at_ms = now_ms + wait_ms
        self._waiting.append(commit)

    def _backoff_ms(self, failures: int) -> float:
        return backoff_ms(failures, *self._settings.group.retry_backoff_ms, self._rng())

    def _give_up(self, commit: Commit, error: ErrorCode, now_ms: float) -> None:
        self._waiting.remove(commit)
        self._fail(commit, error, now_ms)

    def _fail(self, commit: Commit, error: ErrorCode, now_ms: float) -> None:
        commit.errors = dict.fromkeys(commit.offsets, error)
        self._finish(commit, now_ms)

    def _finish(self, commit: Commit, now_ms: float) -> None:
        commit.is_done = True
        if commit.is_reported:
            self.finished.append(commit)
        if commit is self._automatic:
            self._automatic = None
            if COMMIT.of(commit.error) not in (Reaction.FIND_COORDINATOR, Reaction.RETRY):
                self._auto_failures = 0
                return
            self._auto_failures += 1
            if commit.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or self._auto_failures <= _UNKNOWN_TOPIC_FAILURES_MAX:
                # While that may help, as when a coordinator loads: sooner than a long interval, later than a short one.
                self._auto_at_ms = now_ms + self._backoff_ms(self._auto_failures)
