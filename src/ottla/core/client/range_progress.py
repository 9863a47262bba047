"""Progress of one range of offsets: what to fetch next and where, failures in a row, and when to retry or give up.

Sources: KIP-580 (back-off), KIP-392 (preferred replicas).
"""

from typing import Final, NamedTuple

from ottla.core.client.backoff import backoff_ms
from ottla.core.client.fetch_values import OPEN_END, FetchPolicy, FetchRange, Need, Problem
from ottla.core.client.leaders import LeaderAndEpoch

ATTEMPTS_MIN: Final = 4
"""Attempts before giving up, however much time the reader itself took in between."""
SHORT_MS: Final = 1_000
"""How long a log may seem truncated, or a topic missing: a new leader, or a broker that lags behind, may not know better yet."""


class PreferredReplica(NamedTuple):
    """A follower to read from, named by a leader; it holds for this leader, up to a time."""

    broker_id: int
    leader: LeaderAndEpoch
    until_ms: float


class RangeProgress:
    """A range that is being read.

    `fetch_offset`: what the next request asks for. It is `position`, unless the range may hold no more records (see `fetch_machine`).
    `need`: whether it is requested for now. `replica`: the follower to read from, None for the leader. `needs_metadata`: the leader has to
    be looked up. `is_topic_doubted`: the topic may have been deleted or re-created. `failures` in a row began at `failing_since_ms`; the
    `kind_` fields count those of the last kind of problem.
    """

    __slots__ = (
        "empty_responses",
        "end",
        "failing_since_ms",
        "failures",
        "fetch_offset",
        "is_topic_doubted",
        "kind",
        "kind_failures",
        "kind_since_ms",
        "need",
        "needs_metadata",
        "partition",
        "position",
        "replica",
        "retry_at_ms",
        "topic_id",
    )

    def __init__(self, each: FetchRange) -> None:
        self.partition = each.partition
        self.position = self.fetch_offset = each.start
        self.end = each.end
        self.topic_id = each.topic_id
        self.need = Need.NOW
        self.replica: PreferredReplica | None = None
        self.needs_metadata = False
        self.is_topic_doubted = False
        self.retry_at_ms = 0.0
        self.failures = self.kind_failures = self.empty_responses = 0
        self.failing_since_ms = self.kind_since_ms = 0.0
        self.kind: type[Problem] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the range has no end."""
        return self.end == OPEN_END

    def broker_id(self, leader: LeaderAndEpoch, now_ms: float) -> int:
        """The broker to read from: the leader, or the follower that it has named."""
        if self.replica is not None and (self.replica.leader != leader or now_ms > self.replica.until_ms):
            self.replica = None
        return leader.broker_id if self.replica is None else self.replica.broker_id

    def may_retry_at_once(self, now_ms: float) -> bool:
        """Count a failure after which the next attempt is expected to succeed: whether that still is so."""
        self.failures += 1
        if self.failures >= ATTEMPTS_MIN:
            return False
        self.failing_since_ms = now_ms
        return True

    def advance(self, next_offset: int) -> None:
        """Move behind records that were received; earlier failures do not count any more."""
        self.position = self.fetch_offset = next_offset
        self.failures = self.empty_responses = 0
        self.kind = None
        self.is_topic_doubted = False

    def record_failure(
        self, problem: Problem, now_ms: float, *, policy: FetchPolicy, rng: float, is_short: bool, is_connecting: bool
    ) -> bool:
        """Count a failure and schedule a retry. False to give up: it failed for too long (`is_short`: for SHORT_MS in this way). An open
        range is retried without end.

        `rng` is a number from 0 to 1; `is_connecting` takes the back-off of connection attempts.
        """
        if self.failures == 0:
            self.failing_since_ms = now_ms
        if type(problem) is not self.kind:
            self.kind, self.kind_failures, self.kind_since_ms = type(problem), 0, now_ms
        self.failures += 1
        self.kind_failures += 1
        if not self.is_open and self.failures >= ATTEMPTS_MIN and now_ms - self.failing_since_ms >= policy.api_timeout_ms:
            return False
        if not self.is_open and is_short and self.kind_failures >= ATTEMPTS_MIN and now_ms - self.kind_since_ms >= SHORT_MS:
            return False
        waits = policy.reconnect_backoff_ms if is_connecting else policy.retry_backoff_ms
        self.retry_at_ms = now_ms + backoff_ms(self.failures, *waits, rng)
        return True
