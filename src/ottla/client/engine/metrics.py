"""The metrics of one consumer, counted as requests are sent and answered and records are handed out, with the Java client's names.

Sources: Kafka's ConsumerCoordinator, AbstractCoordinator, FetchMetricsRegistry and KafkaConsumerMetrics. Times are milliseconds, as there.
"""

from collections.abc import Iterable
from math import nan
from typing import Any, Final

from ottla.client.engine.subscriptions import Subscriptions
from ottla.client.engine.values import ConsumerSettings, Fetch, OffsetCommit, Request, Send
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.values import ConsumerGroupHeartbeat, Heartbeat, JoinGroup, SyncGroup
from ottla.client.sensors import Sensor
from ottla.groups.reason_evidence import MemberCause
from ottla.protocol.errors import ErrorCode

_NO_FAILURES: Final = frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED})
"""The second is the first half of each join of a new member."""
_STALL_NAMES: Final = {
    MemberCause.GARBAGE_COLLECTION: "stall-gc-time-total",
    MemberCause.GIL_HELD: "stall-gil-time-total",
    MemberCause.STOPPED: "stall-stopped-time-total",
    MemberCause.THREAD_LATE: "stall-thread-time-total",
    MemberCause.LOOP_BLOCKED: "stall-loop-time-total",
}


class Metrics:
    """Counts one consumer's requests and records; `values` gives everything by name."""

    def __init__(self, settings: ConsumerSettings, subscriptions: Subscriptions, evidence: Evidence, *, now_ms: float) -> None:
        self._is_read_committed = settings.fetch.is_read_committed
        self._heartbeat = ConsumerGroupHeartbeat if settings.group.is_consumer_protocol else Heartbeat
        self._evidence = evidence
        self._subscriptions = subscriptions
        self._sent_ms: dict[Request, float] = {}
        kinds = (self._heartbeat, JoinGroup, SyncGroup, OffsetCommit, Fetch)
        self._latencies: dict[type, Sensor] = {kind: Sensor(now_ms) for kind in kinds}
        self._fetch_sizes = Sensor(now_ms)
        self._records = Sensor(now_ms)
        self._bytes = Sensor(now_ms)
        self._rebalances = Sensor(now_ms)
        self._failed = Sensor(now_ms)
        self._rebalance_began_ms: float | None = None
        self._rebalanced_ms: float | None = None

    # What happens.

    def sent(self, sends: Iterable[Send], now_ms: float) -> None:
        """These requests are on their way."""
        for send in sends:
            if type(send.request) in self._latencies:
                self._sent_ms[send.request] = now_ms
                has_begun = self._rebalance_began_ms is not None
                if isinstance(send.request, JoinGroup) and not has_begun:
                    self._rebalance_began_ms = now_ms
                elif isinstance(send.request, ConsumerGroupHeartbeat) and send.request.owned is not None and has_begun:
                    self._rebalanced(now_ms)  # the assignment is taken over

    def answered(self, request: Request, response: Any, now_ms: float) -> None:
        """The response to a request."""
        self._evidence.responded(now_ms)
        sent_ms = self._sent_ms.pop(request, None)
        if sent_ms is None:
            return
        self._latencies[type(request)].record(now_ms - sent_ms, now_ms)
        if isinstance(request, Fetch):
            self._fetch_sizes.record(sum(len(each.records) for each in response.partitions), now_ms)
        elif isinstance(request, ConsumerGroupHeartbeat):
            if response.assignment is not None and self._rebalance_began_ms is None:
                self._rebalance_began_ms = now_ms
        elif isinstance(request, JoinGroup | SyncGroup):
            self._joined(request, response.error, now_ms)

    def unanswered(self, request: Request, why: str, now_ms: float) -> None:
        """A request has no response."""
        self._evidence.failure = why
        if self._sent_ms.pop(request, None) is not None and isinstance(request, JoinGroup | SyncGroup):
            self._failed.record(1, now_ms)

    def taken(self, records: int, size_bytes: int) -> None:
        """The application gets records from a poll; `size_bytes` of fetches that are used up by that."""
        self._evidence.polls.took(records)
        now_ms = self._evidence.polls.began_ms or 0.0
        self._records.record(records, now_ms)
        self._bytes.record(size_bytes, now_ms)

    def _joined(self, request: JoinGroup | SyncGroup, error: ErrorCode, now_ms: float) -> None:
        if error not in _NO_FAILURES:
            self._failed.record(1, now_ms)
        elif isinstance(request, SyncGroup):
            self._rebalanced(now_ms)

    def _rebalanced(self, now_ms: float) -> None:
        """The rebalance is complete."""
        if self._rebalance_began_ms is not None:
            self._rebalances.record(now_ms - self._rebalance_began_ms, now_ms)
        self._rebalance_began_ms, self._rebalanced_ms = None, now_ms

    # What it comes to.

    def values(self, now_ms: float) -> dict[str, float]:
        """Every metric; NaN where there is no value yet, and -1 for a time that something is ago that never was."""
        return self._of_polls(now_ms) | self._of_membership(now_ms) | self._of_fetching(now_ms) | self._of_stalls(now_ms)

    def _of_polls(self, now_ms: float) -> dict[str, float]:
        polls = self._evidence.polls
        record_ms = polls.record_ms(now_ms)
        return {
            "last-poll-seconds-ago": _seconds_ago(polls.began_ms, now_ms),
            "poll-idle-ratio-avg": polls.idle_ratio(now_ms),
            "time-between-poll-avg": polls.intervals.average(now_ms),
            "time-between-poll-max": polls.intervals.maximum(now_ms),
            "processing-time-per-record-avg": nan if record_ms is None else record_ms,
        }

    def _of_membership(self, now_ms: float) -> dict[str, float]:
        heartbeats, joins, syncs, commits = (self._latencies[kind] for kind in (self._heartbeat, JoinGroup, SyncGroup, OffsetCommit))
        delays, rebalances, failed = self._evidence.heartbeat_delays, self._rebalances, self._failed
        return {
            "assigned-partitions": len(self._subscriptions.partitions),
            "heartbeat-rate": delays.count_rate(now_ms),
            "heartbeat-total": delays.count,
            "heartbeat-response-time-max": heartbeats.maximum(now_ms),
            "heartbeat-delay-avg": delays.average(now_ms),
            "heartbeat-delay-max": delays.maximum(now_ms),
            "last-heartbeat-seconds-ago": _seconds_ago(self._evidence.heartbeat_sent_ms, now_ms),
            **_latency("commit-latency", commits, now_ms),
            "commit-rate": commits.count_rate(now_ms),
            "commit-total": commits.count,
            **_latency("join-time", joins, now_ms),
            "join-rate": joins.count_rate(now_ms),
            "join-total": joins.count,
            **_latency("sync-time", syncs, now_ms),
            "sync-rate": syncs.count_rate(now_ms),
            "sync-total": syncs.count,
            **_latency("rebalance-latency", rebalances, now_ms),
            "rebalance-latency-total": rebalances.total,
            "rebalance-rate-per-hour": 3_600 * rebalances.count_rate(now_ms),
            "rebalance-total": rebalances.count,
            "failed-rebalance-rate-per-hour": 3_600 * failed.count_rate(now_ms),
            "failed-rebalance-total": failed.count,
            "last-rebalance-seconds-ago": _seconds_ago(self._rebalanced_ms, now_ms),
        }

    def _of_fetching(self, now_ms: float) -> dict[str, float]:
        fetches, sizes = self._latencies[Fetch], self._fetch_sizes
        return {
            "records-lag-max": self._lag_max(),
            "records-consumed-rate": self._records.sum_rate(now_ms),
            "records-consumed-total": self._records.total,
            "bytes-consumed-rate": self._bytes.sum_rate(now_ms),
            "bytes-consumed-total": self._bytes.total,
            **_latency("fetch-latency", fetches, now_ms),
            "fetch-rate": fetches.count_rate(now_ms),
            "fetch-total": fetches.count,
            "fetch-size-avg": sizes.average(now_ms),
            "fetch-size-max": sizes.maximum(now_ms),
        }

    def _lag_max(self) -> float:
        """Of the partitions whose position and end are known."""
        lags = [state.lag(is_read_committed=self._is_read_committed) for state in self._subscriptions.partitions.values()]
        return max((lag for lag in lags if lag is not None), default=nan)

    def _of_stalls(self, now_ms: float) -> dict[str, float]:
        times, by_cause = self._evidence.stall_times, self._evidence.stalls.total_ms
        return {
            "stall-time-max": times.maximum(now_ms),
            "stall-time-total": times.total,
            "stall-total": times.count,
            **{name: by_cause.get(cause, 0.0) for cause, name in _STALL_NAMES.items()},
        }


def _latency(name: str, sensor: Sensor, now_ms: float) -> dict[str, float]:
    return {f"{name}-avg": sensor.average(now_ms), f"{name}-max": sensor.maximum(now_ms)}


def _seconds_ago(at_ms: float | None, now_ms: float) -> float:
    return -1.0 if at_ms is None else (now_ms - at_ms) / 1000
