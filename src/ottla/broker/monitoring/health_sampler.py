"""Samples the broker's health on its loop, a few partitions an iteration, and logs what became unhealthy or healthy again.

Other threads read `snapshot`. log/cleaner/health.py decides what is unhealthy.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.broker.clock import Sampler
from ottla.broker.monitoring.health import HealthSnapshot, PartitionSnapshot, health_snapshot
from ottla.broker.monitoring.topic_growth import PartitionSize, TopicGrowth
from ottla.broker.partitions.log_cleaner import LogCleaner
from ottla.broker.partitions.partitions import Partitions
from ottla.log.cleaner.health import Finding, PartitionFault
from ottla.log.cleaner.snapshot import CleanerSnapshot
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import CLUSTER_METADATA
from ottla.protocol.model import TopicPartition

log = logging.getLogger(__name__)

INTERVAL_S: Final = 5
_PER_ITERATION: Final = 64


class HealthSampler(Sampler):
    """Any thread may read `snapshot`. `log_directory`: the name of the data directory in it; `metadata_log`: the broker's own log."""

    subject = "the health"

    def __init__(
        self, partitions: Partitions, metadata_log: PartitionLog, cleaner: LogCleaner, log_directory: str, clock: Callable[[], int]
    ) -> None:
        super().__init__()
        self._metadata_log = metadata_log
        self._partitions = partitions
        self._cleaner = cleaner
        self._log_directory = log_directory
        self._clock = clock
        self._growth = TopicGrowth()
        self._offline_since_ms: dict[TopicPartition, int] = {}
        self._unhealthy: dict[str, Finding] = {}
        self.snapshot: HealthSnapshot = self._snapshot(cleaner.snapshot(), [], {})

    def pause_s(self) -> float:
        """The same after each sample."""
        return INTERVAL_S

    async def sample(self) -> None:
        """Replace the snapshot."""
        cleaner = await self._cleaner.up_to_date_snapshot()
        seen = []
        for count, partition in enumerate(self._partitions.opened()):
            if count % _PER_ITERATION == _PER_ITERATION - 1:
                await asyncio.sleep(0)
            if not partition.deleted:
                own = partition.log
                is_compacted = own.settings.is_compacted
                seen.append(PartitionSnapshot(partition.name, is_compacted, own.size_bytes, own.log_start_offset, own.log_end_offset))
        offline = self._partitions.offline()
        if self._metadata_log.failure is not None:
            offline[TopicPartition(CLUSTER_METADATA, 0)] = self._metadata_log.failure
        self.snapshot = await asyncio.get_running_loop().run_in_executor(None, self._snapshot, cleaner, seen, offline)
        self._log_changes()

    def _snapshot(self, cleaner: CleanerSnapshot, seen: list[PartitionSnapshot], offline: dict[TopicPartition, str]) -> HealthSnapshot:
        """Build the snapshot. Any thread, since only one `sample` runs at a time."""
        now_ms = self._clock()
        # Compacted topics first: growth is known of so many topics only.
        seen.sort(key=lambda each: not each.is_compacted)
        self._growth.add((PartitionSize(each.name, each.size_bytes) for each in seen), now_ms)
        self._offline_since_ms = {name: self._offline_since_ms.get(name, now_ms) for name in offline}
        return health_snapshot(
            cleaner=cleaner,
            partitions=seen,
            offline=[PartitionFault(*name, reason, self._offline_since_ms[name]) for name, reason in sorted(offline.items())],
            growth=lambda topic: self._growth.of(topic, now_ms),
            log_directory=self._log_directory,
            now_ms=now_ms,
        )

    def _log_changes(self) -> None:
        # Failures of a single partition are logged where they happen.
        unhealthy = {each.subject: each for each in self.snapshot.findings if each.is_ill and not each.subject.startswith("partition")}
        for subject, finding in unhealthy.items():
            if subject not in self._unhealthy:
                log.warning("%s %s", finding.sentence, finding.advice)
        for subject in self._unhealthy.keys() - unhealthy.keys():
            log.warning("%s is healthy again", subject)
        self._unhealthy = unhealthy
