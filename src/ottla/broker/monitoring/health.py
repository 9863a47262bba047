"""The broker's health as one frozen snapshot: the cleaner, the topics, the partitions that are offline, and what to do about each.

Metrics, /health, `ottla doctor` and the log read such snapshots only, from any thread. The sampler makes them on the broker's loop, a few
partitions an iteration, and logs what became unhealthy or healthy again; log/cleaner/health.py decides which values are unhealthy. How
fast topics grow is known from their sizes over the last hour, a few points a topic, in bounded memory.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from ottla.broker.clock import Sampler
from ottla.broker.partitions.log_cleaner import LogCleaner
from ottla.broker.partitions.partitions import Partitions
from ottla.log.cleaner.health import CleanerSnapshot, CleaningSnapshot, Finding, PartitionFault, TopicFacts, duration_text, findings
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import CLUSTER_METADATA
from ottla.protocol.model import TopicPartition

WINDOW_MS: Final = 3_600_000
POINTS: Final = 12
"""Points of a topic in the window; one is kept every WINDOW_MS / POINTS."""
GROWING_TOPICS_MAX: Final = 1_000
"""Topics whose growth is known; of others it is 0."""
SPAN_MS_MIN: Final = 60_000
"""Growth over less time is noise."""

TOPICS_MAX: Final = 200
"""Topics that a snapshot lists: compacted ones first, then the largest."""

JSON_FAULTS_MAX: Final = 100

STALE_MS_MAX: Final = 60_000
"""A snapshot is taken every few seconds: with an older one, the broker's loop is blocked."""

log = logging.getLogger(__name__)

INTERVAL_S: Final = 5
_PER_ITERATION: Final = 64


class PartitionSize(NamedTuple):
    """One measurement."""

    name: TopicPartition
    size_bytes: int


class Growth(NamedTuple):
    """Bytes gained (or lost) over a time in ms; both 0 while the topic has not been sampled for long enough."""

    by_bytes: int
    over_ms: int


class _Point(NamedTuple):
    at_ms: int
    grown_bytes: int


class TopicGrowth:
    """The sum of what each topic's partitions gained and lost since each was first seen.

    A partition that is seen for the first time does not count as growth: it may be old.
    """

    def __init__(self) -> None:
        self._sizes: dict[TopicPartition, int] = {}
        self._grown: dict[str, int] = {}
        self._points: dict[str, deque[_Point]] = {}

    def add(self, sizes: Iterable[PartitionSize], now_ms: int) -> None:
        """Take the sizes of all partitions; topics that are not among them are forgotten."""
        before, self._sizes = self._sizes, {}
        topics: set[str] = set()
        for name, size_bytes in sizes:
            self._sizes[name] = size_bytes
            topic = name.topic
            if topic in topics or len(topics) < GROWING_TOPICS_MAX:
                topics.add(topic)
                self._grown[topic] = self._grown.get(topic, 0) + size_bytes - before.get(name, size_bytes)
        for topic in self._grown.keys() - topics:
            del self._grown[topic]
            self._points.pop(topic, None)
        for topic in topics:
            points = self._points.setdefault(topic, deque())
            if not points or now_ms - points[-1].at_ms >= WINDOW_MS // POINTS:
                points.append(_Point(now_ms, self._grown[topic]))
            while len(points) > 1 and (points[1].at_ms <= now_ms - WINDOW_MS or len(points) > POINTS + 1):
                points.popleft()

    def of(self, topic: str, now_ms: int) -> Growth:
        """The growth over the last hour, or since the topic was first seen."""
        points = self._points.get(topic)
        if not points or now_ms - points[0].at_ms < SPAN_MS_MIN:
            return Growth(0, 0)
        return Growth(self._grown[topic] - points[0].grown_bytes, now_ms - points[0].at_ms)


class PartitionSnapshot(NamedTuple):
    """One partition that is in use."""

    name: TopicPartition
    is_compacted: bool
    size_bytes: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSnapshot:
    """The health as of `at_ms`. `findings`: unhealthy ones first. Of very many `topics` and `partitions` the largest."""

    at_ms: int
    log_directory: str
    cleaner: CleanerSnapshot
    topics: tuple[TopicFacts, ...]
    topics_left_out: int
    partitions: tuple[PartitionSnapshot, ...]
    offline: tuple[PartitionFault, ...]
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        return not any(finding.is_ill for finding in self.findings)

    def as_of(self, now_ms: int) -> "HealthSnapshot":
        """The snapshot as it is read at `now_ms`: with a finding if it is too old."""
        age_ms = now_ms - self.at_ms
        if age_ms <= STALE_MS_MAX:
            return self
        stale = Finding(
            subject="broker",
            is_ill=True,
            sentence=f"The broker has not checked its health for {duration_text(age_ms)}: its event loop is blocked.",
            advice="Check the load of the machine and whether its disk responds; the other findings are as old.",
        )
        return replace(self, findings=(stale, *self.findings))

    def to_json(self) -> dict[str, Any]:
        """The snapshot as plain values, without the list of partitions."""
        cleaner = asdict(self.cleaner)
        for name in ("partitions", "uncleanable", "at_work"):
            del cleaner[name]
        return {
            "healthy": self.is_healthy,
            "at_ms": self.at_ms,
            "log_directory": self.log_directory,
            "findings": [asdict(finding) for finding in self.findings],
            "cleaner": cleaner
            | {
                "state": self.cleaner.state.value,
                "at_work": [f"{name.topic}-{name.partition}" for name in self.cleaner.at_work],
                "uncleanable_partitions": len(self.cleaner.uncleanable),
                "uncleanable": [fault._asdict() for fault in self.cleaner.uncleanable[:JSON_FAULTS_MAX]],
            },
            "offline_partitions": len(self.offline),
            "offline": [fault._asdict() for fault in self.offline[:JSON_FAULTS_MAX]],
            "topics": [asdict(topic) | {"growth_bytes_per_hour": topic.growth_bytes_per_hour} for topic in self.topics],
            "topics_left_out": self.topics_left_out,
        }


def health_snapshot(
    *,
    cleaner: CleanerSnapshot,
    partitions: Sequence[PartitionSnapshot],
    offline: Sequence[PartitionFault],
    growth: Callable[[str], Growth],
    log_directory: str,
    now_ms: int,
) -> HealthSnapshot:
    """Build a snapshot. `growth` gives a topic's growth."""
    by_topic: dict[str, list[PartitionSnapshot]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.name.topic, []).append(partition)
    topics = [_topic(name, own, cleaner.partitions, growth(name), now_ms) for name, own in by_topic.items()]
    topics.sort(key=lambda topic: (not topic.is_compacted, -topic.overdue_ms, -topic.size_bytes, topic.name))
    return HealthSnapshot(
        at_ms=now_ms,
        log_directory=log_directory,
        cleaner=cleaner,
        topics=tuple(topics[:TOPICS_MAX]),
        topics_left_out=max(0, len(topics) - TOPICS_MAX),
        partitions=tuple(partitions),
        offline=tuple(offline),
        findings=findings(cleaner.facts(now_ms), topics[:TOPICS_MAX], cleaner.uncleanable, offline),
    )


def _topic(
    name: str, own: Sequence[PartitionSnapshot], cleanings: Mapping[TopicPartition, CleaningSnapshot], growth: Growth, now_ms: int
) -> TopicFacts:
    seen = [cleanings[partition.name] for partition in own if partition.name in cleanings]
    due = [each.due_since_ms for each in seen if each.due_since_ms is not None]
    cleaned = [each.cleaned_ms for each in seen if each.cleaned_ms is not None]
    return TopicFacts(
        name=name,
        partitions=len(own),
        is_compacted=any(partition.is_compacted for partition in own),
        size_bytes=sum(partition.size_bytes for partition in own),
        dirty_bytes=sum(each.dirty_bytes for each in seen),
        cleanable_bytes=sum(each.cleanable_bytes for each in seen),
        dirty_ratio=max((each.dirty_ratio for each in seen), default=0.0),
        overdue_ms=max(0, now_ms - min(due)) if due else 0,
        since_cleaned_ms=max(0, now_ms - max(cleaned)) if cleaned else None,
        grown_bytes=growth.by_bytes,
        grown_over_ms=growth.over_ms,
    )


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
