"""Draws the health picture again and again, on the broker's loop, a few partitions a turn; says in the log what became ill or well.

Everybody else reads `view`, from any thread. What is ill is not decided here.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.broker.growth import Growth, PartitionSize
from ottla.broker.health import CleanerView, HealthView, PartitionView, picture
from ottla.broker.log_cleaner import LogCleaner
from ottla.broker.partitions import Partitions
from ottla.broker.watch import Watch
from ottla.core.catalogue.catalogue import CLUSTER_METADATA
from ottla.core.cleaning.health import Finding, PartitionFault
from ottla.core.model import TopicPartition
from ottla.storage.partition_log import PartitionLog

log = logging.getLogger("ottla.broker.health")

INTERVAL_S: Final = 5
_PER_TURN: Final = 64


class HealthWatch(Watch):
    """`view` from any thread. `log_directory`: what the picture calls the data; `metadata_log`: the broker's own log."""

    what = "the health picture"

    def __init__(
        self, partitions: Partitions, metadata_log: PartitionLog, cleaner: LogCleaner, log_directory: str, clock: Callable[[], int]
    ) -> None:
        super().__init__()
        self._metadata_log = metadata_log
        self._partitions = partitions
        self._cleaner = cleaner
        self._log_directory = log_directory
        self._clock = clock
        self._growth = Growth()
        self._offline_since_ms: dict[TopicPartition, int] = {}
        self._ill: dict[str, Finding] = {}
        self.view: HealthView = self._drawn(cleaner.view(), [], {})

    def pause_s(self) -> float:
        """The same after each look."""
        return INTERVAL_S

    async def look(self) -> None:
        """Draws the picture anew."""
        cleaner = await self._cleaner.up_to_date_view()
        seen = []
        for count, partition in enumerate(self._partitions.opened()):
            if count % _PER_TURN == _PER_TURN - 1:
                await asyncio.sleep(0)
            if not partition.deleted:
                own = partition.log
                is_compacted = own.settings.is_compacted
                seen.append(PartitionView(partition.name, is_compacted, own.size_bytes, own.log_start_offset, own.log_end_offset))
        offline = self._partitions.offline()
        if self._metadata_log.failure is not None:
            offline[TopicPartition(CLUSTER_METADATA, 0)] = self._metadata_log.failure
        self.view = await asyncio.get_running_loop().run_in_executor(None, self._drawn, cleaner, seen, offline)
        self._say_what_changed()

    def _drawn(self, cleaner: CleanerView, seen: list[PartitionView], offline: dict[TopicPartition, str]) -> HealthView:
        """The picture of what was seen; any thread, since only one `look` runs at a time."""
        now_ms = self._clock()
        # Compacted topics first: they are watched even where there are more topics than are watched.
        seen.sort(key=lambda each: not each.is_compacted)
        self._growth.note((PartitionSize(each.name, each.size_bytes) for each in seen), now_ms)
        self._offline_since_ms = {name: self._offline_since_ms.get(name, now_ms) for name in offline}
        return picture(
            cleaner=cleaner,
            partitions=seen,
            offline=[PartitionFault(*name, reason, self._offline_since_ms[name]) for name, reason in sorted(offline.items())],
            grown=lambda topic: self._growth.of(topic, now_ms),
            log_directory=self._log_directory,
            now_ms=now_ms,
        )

    def _say_what_changed(self) -> None:
        # What befalls a single partition is said where it happens.
        ill = {each.subject: each for each in self.view.findings if each.is_ill and not each.subject.startswith("partition")}
        for subject, finding in ill.items():
            if subject not in self._ill:
                log.warning("%s %s", finding.sentence, finding.advice)
        for subject in self._ill.keys() - ill.keys():
            log.warning("%s is well again", subject)
        self._ill = ill
