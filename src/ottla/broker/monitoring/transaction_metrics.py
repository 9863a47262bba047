"""Transaction coordinators and the partitions' transactions as Prometheus metrics: by the names of Kafka's JMX exporters, and `ottla_*`.

The sampler makes a frozen snapshot on the broker's loop every few seconds, a few partitions an iteration. No walk through the ids: their
coordinators count them.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily

from ottla.broker.clock import Sampler
from ottla.broker.coordination.coordinators import BrokerCoordinators, ClusterCoordinators, LoadTimes
from ottla.broker.coordination.transactions import TransactionalIds, TransactionMarkers
from ottla.broker.partitions.partitions import Partitions
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.states import State

INTERVAL_S: Final = 1
LATE_MS: Final = 5 * 60_000
"""So long after `transaction.max.timeout.ms` a transaction of a partition counts as late (Kafka: LATE_TRANSACTION_BUFFER_MS)."""
_PER_ITERATION: Final = 64


@dataclass(frozen=True, slots=True)
class BrokerTransactions:
    """The coordinators of one broker. `oldest_start_ms`: of their open transactions; None when none is open."""

    ids: dict[State, int]
    oldest_start_ms: int | None
    loads: LoadTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsSnapshot:
    """The transactions of a process as of `at_ms`. Producers and late transactions are those of all partitions in use."""

    at_ms: int
    brokers: dict[int, BrokerTransactions] = field(default_factory=dict)
    producers: int = 0
    late_partitions: int = 0
    markers_waiting: int = 0
    ends_waiting: int = 0
    committed: int = 0
    aborted: int = 0
    verifications: int = 0
    unverified: int = 0


class TransactionSampler(Sampler):
    """Any thread may read `snapshot`."""

    subject = "the transactions"

    def __init__(
        self,
        *,
        coordinators: ClusterCoordinators[TransactionCoordinator],
        transactional_ids: TransactionalIds,
        markers: TransactionMarkers,
        partitions: Partitions,
        max_timeout_ms: int,
        clock: Callable[[], int],
    ) -> None:
        super().__init__()
        self._coordinators = coordinators
        self._transactional_ids = transactional_ids
        self._markers = markers
        self._partitions = partitions
        self._clock = clock
        self._late_ms = max_timeout_ms + LATE_MS
        self.snapshot = TransactionsSnapshot(at_ms=clock())

    def pause_s(self) -> float:
        """The same after each sample."""
        return INTERVAL_S

    async def sample(self) -> None:
        """Replace the snapshot."""
        producers = late = 0
        for count, partition in enumerate(self._partitions.opened(), 1):
            if count % _PER_ITERATION == 0:
                await asyncio.sleep(0)
            if not partition.deleted:
                known = partition.log.producers
                producers += len(known)
                last_ms = known.oldest_open_timestamp_ms
                late += last_ms is not None and self._clock() - last_ms > self._late_ms
        self.snapshot = TransactionsSnapshot(
            at_ms=self._clock(),
            brokers={broker_id: _of_broker(loops) for broker_id, loops in self._coordinators.by_broker.items()},
            producers=producers,
            late_partitions=late,
            markers_waiting=self._markers.markers_waiting,
            ends_waiting=self._markers.ends_waiting,
            committed=self._markers.committed,
            aborted=self._markers.aborted,
            verifications=self._transactional_ids.verifications,
            unverified=self._transactional_ids.unverified,
        )


def _of_broker(loops: BrokerCoordinators[TransactionCoordinator]) -> BrokerTransactions:
    ids = dict.fromkeys(State, 0)
    oldest: list[int] = []
    for loop in loops.all():
        state = loop.coordinator.state
        for name, count in state.counts.items():
            ids[name] += count
        if state.opened.oldest_start_ms is not None:
            oldest.append(state.opened.oldest_start_ms)
    return BrokerTransactions(ids, min(oldest, default=None), loops.load_times)


def transaction_metrics(snapshot: TransactionsSnapshot, now_ms: int) -> Iterator[Metric]:
    """The metrics of one snapshot."""
    ids = GaugeMetricFamily("ottla_transactional_ids", "Transactional ids by the state of their transaction.", labels=["broker", "state"])
    oldest = GaugeMetricFamily(
        "ottla_transaction_oldest_seconds", "For how long the oldest open transaction has been open; 0 without one.", labels=["broker"]
    )
    metrics = "kafka_server_transaction_coordinator_metrics_partition_load_time"
    longest = GaugeMetricFamily(f"{metrics}_max", "The longest load of a partition of __transaction_state, in ms.", labels=["broker"])
    average = GaugeMetricFamily(f"{metrics}_avg", "How long the load of such a partition took on average, in ms.", labels=["broker"])
    for broker_id, broker in sorted(snapshot.brokers.items()):
        name = str(broker_id)
        for state, count in broker.ids.items():
            ids.add_metric([name, state.shown], count)
        oldest.add_metric([name], 0 if broker.oldest_start_ms is None else max(0, now_ms - broker.oldest_start_ms) / 1000)
        longest.add_metric([name], broker.loads.max_ms)
        average.add_metric([name], broker.loads.average_ms)
    yield from (ids, oldest)
    ended = CounterMetricFamily("ottla_transactions_ended", "Transactions that ended, with all their markers written.", labels=["outcome"])
    ended.add_metric(["committed"], snapshot.committed)
    ended.add_metric(["aborted"], snapshot.aborted)
    yield ended
    yield from _by_kafkas_names(snapshot)
    yield from (longest, average)


def _by_kafkas_names(snapshot: TransactionsSnapshot) -> Iterator[Metric]:
    manager, log = "kafka_coordinator_transaction_transactionmarkerchannelmanager", "kafka_server_replicamanager"
    for name, documentation, value in (
        (f"{manager}_unknowndestinationqueuesize", "Markers whose partition has not taken them yet.", snapshot.markers_waiting),
        (f"{manager}_logappendretryqueuesize", "Ended transactions whose last record is not written yet.", snapshot.ends_waiting),
        (f"{log}_partitionswithlatetransactionscount", "Partitions with a late transaction.", snapshot.late_partitions),
        (f"{log}_produceridcount", "Producers that partitions know.", snapshot.producers),
    ):
        yield GaugeMetricFamily(name, documentation, value=value)
    added = "kafka_server_addpartitionstotxnmanager"
    verified = "Questions whether a partition is in a transaction, or may be added to it."
    yield UnknownMetricFamily(f"{added}_verificationtimems_count", verified, value=snapshot.verifications)
    yield UnknownMetricFamily(f"{added}_verificationfailurerate_count", "Partitions that were not.", value=snapshot.unverified)
