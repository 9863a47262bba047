"""The broker's health as one frozen snapshot: the cleaner, the topics, the partitions that are offline, and what to do about each.

Metrics, /health, `ottla doctor` and the log read such snapshots only, from any thread. Nothing is measured here, and no clock is read;
log/cleaner/health.py decides which values are unhealthy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from ottla.broker.monitoring.topic_growth import Growth
from ottla.log.cleaner.health import Finding, PartitionFault, TopicFacts, duration_text, findings
from ottla.log.cleaner.snapshot import CleanerSnapshot, CleaningSnapshot
from ottla.protocol.model import TopicPartition

TOPICS_MAX: Final = 200
"""Topics that a snapshot lists: compacted ones first, then the largest."""

JSON_FAULTS_MAX: Final = 100

STALE_MS_MAX: Final = 60_000
"""A snapshot is taken every few seconds: with an older one, the broker's loop is blocked."""


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
