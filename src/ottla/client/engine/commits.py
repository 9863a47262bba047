"""Commits: what is sent when, what a refusal means, and when a commit is tried again (Kafka: `ConsumerCoordinator`, its commit half).

A commit of a member carries the generation that it has when the request is sent.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.client.backoff import backoff_ms
from ottla.client.engine.subscriptions import Subscriptions
from ottla.client.engine.values import ConsumerSettings, OffsetAndMetadata, OffsetCommit
from ottla.client.membership.membership import Membership
from ottla.client.membership.values import MemberState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

_COORDINATOR_GONE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT})
_RETRIABLE: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
NOT_A_MEMBER: Final = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)
"""The coordinator knows no such member, or the group rebalances: a commit of before is refused."""
_UNKNOWN_TOPIC_FAILURES_MAX: Final = 3
"""A broker may learn of a new topic a moment later than the client; one that is unknown after so many attempts was deleted."""


class Commit:
    """One commit. When `is_done`, `errors` has the error of each partition, NONE for committed ones.

    `retry_until_ms`: None: it is tried once. `is_reported`: the application's callback gets the result.
    """

    def __init__(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        retry_until_ms: float | None = None,
        is_reported: bool = False,
    ) -> None:
        self.offsets = offsets
        self.retry_until_ms = retry_until_ms
        self.is_reported = is_reported
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.is_done = not offsets
        self.failures = 0
        self.retry_at_ms = 0.0

    @property
    def error(self) -> ErrorCode:
        """The first error, NONE when all offsets are committed."""
        return next((error for error in self.errors.values() if error is not ErrorCode.NONE), ErrorCode.NONE)


class Commits:
    """The commits of one consumer, in their order. `finished`: those whose results the application has not got yet."""

    def __init__(
        self, settings: ConsumerSettings, membership: Membership, subscriptions: Subscriptions, *, now_ms: float, rng: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._subscriptions = subscriptions
        self._rng = rng
        self._waiting: list[Commit] = []
        self._in_flight: dict[OffsetCommit, Commit] = {}
        self._automatic: Commit | None = None
        self._auto_at_ms = now_ms + settings.auto_commit_interval_ms
        self._auto_failures = 0
        self.finished: list[Commit] = []

    def commit(self, commit: Commit) -> Commit:
        """Send a commit as soon as the coordinator is known."""
        if not commit.is_done:
            self._waiting.append(commit)
        return commit

    def commit_stored(self, retry_until_ms: float) -> Commit:
        """Commit all stored offsets, with retries."""
        return self.commit(Commit(self._subscriptions.uncommitted(), retry_until_ms=retry_until_ms, is_reported=True))

    def poll(self, now_ms: float) -> None:
        """The application polls, so it has processed all records that it got: commit them if it is time."""
        if not self._settings.is_auto_commit or now_ms < self._auto_at_ms or self._automatic is not None:
            return
        self._auto_at_ms = now_ms + self._settings.auto_commit_interval_ms
        offsets = self._subscriptions.uncommitted()
        if offsets:
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
        if membership.is_subscribed and membership.state is not MemberState.STABLE:
            for commit in due:
                self._waiting.remove(commit)
                is_rebalancing = membership.state is not MemberState.UNJOINED
                self._fail(commit, ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.UNKNOWN_MEMBER_ID, now_ms)
            return []
        if membership.coordinator is None:
            membership.find_coordinator()
            for commit in [each for each in due if each.retry_until_ms is not None and each.retry_until_ms <= now_ms]:
                self._waiting.remove(commit)
                self._fail(commit, ErrorCode.REQUEST_TIMED_OUT, now_ms)
            return []
        requests = []
        for commit in due:
            self._waiting.remove(commit)
            request = OffsetCommit(
                group_id=self._settings.group.group_id,
                generation=membership.generation,
                member_id=membership.member_id,
                instance_id=self._settings.group.instance_id if membership.member_id else None,
                offsets=commit.offsets,
            )
            self._in_flight[request] = commit
            requests.append(request)
        return requests

    def next_ms(self) -> float | None:
        """When `next_requests` may have something without any report."""
        times = [commit.retry_at_ms for commit in self._waiting]
        if self._membership.coordinator is None:
            times = [commit.retry_until_ms for commit in self._waiting if commit.retry_until_ms is not None]
        return min(times, default=None)

    def on_response(self, request: OffsetCommit, errors: Mapping[TopicPartition, ErrorCode], now_ms: float) -> None:
        """A response to OffsetCommit."""
        commit = self._in_flight.pop(request)
        commit.errors = {partition: errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in commit.offsets}
        for partition, error in commit.errors.items():
            state = self._subscriptions.partitions.get(partition)
            if state is not None and error is ErrorCode.NONE:
                state.committed = commit.offsets[partition].offset
        found = set(errors.values())
        gone, not_a_member = found & _COORDINATOR_GONE, found & NOT_A_MEMBER
        retriable = found & _RETRIABLE
        if commit.failures >= _UNKNOWN_TOPIC_FAILURES_MAX:
            retriable -= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        if not_a_member:
            error = min(not_a_member)
            is_rebalancing = self._membership.commit_refused(error, request.generation, request.member_id, now_ms)
            self._fail(commit, ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else error, now_ms)
        elif gone:
            self._membership.coordinator_lost(now_ms)
            self._retry(commit, now_ms)
        elif retriable:
            self._retry(commit, now_ms)
        else:
            self._finish(commit, now_ms)

    def on_no_response(self, request: OffsetCommit, now_ms: float) -> None:
        """The request was lost with its connection, or not answered in time."""
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

    def _fail(self, commit: Commit, error: ErrorCode, now_ms: float) -> None:
        commit.errors = dict.fromkeys(commit.offsets, error)
        self._finish(commit, now_ms)

    def _finish(self, commit: Commit, now_ms: float) -> None:
        commit.is_done = True
        if commit.is_reported:
            self.finished.append(commit)
        if commit is self._automatic:
            self._automatic = None
            if commit.error not in _COORDINATOR_GONE | _RETRIABLE:
                self._auto_failures = 0
                return
            self._auto_failures += 1
            if commit.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or self._auto_failures <= _UNKNOWN_TOPIC_FAILURES_MAX:
                # Sooner than the interval, as long as that may help: a coordinator loads, or another one is looked for.
                self._auto_at_ms = min(self._auto_at_ms, now_ms + self._backoff_ms(self._auto_failures))
