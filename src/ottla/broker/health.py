"""The broker's health as one frozen picture: the cleaner, the topics, the partitions that are offline, and what to do about each.

Whoever wants to know (metrics, /health, `ottla doctor`, the log) reads such a picture and nothing else, from any thread. Nothing is
measured here, and no clock asked; which figures are ill is decided in core/cleaning/health.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from ottla.broker.growth import Grown
from ottla.core.cleaning.health import CleanerFacts, CleanerState, Finding, PartitionFault, TopicFacts, duration_text, findings
from ottla.core.model import TopicPartition

TOPICS_MAX: Final = 200
"""Topics that the picture tells of one by one: compacted ones first, then the largest."""

JSON_FAULTS_MAX: Final = 100

STALE_MS_MAX: Final = 60_000
"""The picture is drawn every few seconds: one that is older says that the broker's loop stands still."""


class PartitionView(NamedTuple):
    """One partition that is in use."""

    name: TopicPartition
    is_compacted: bool
    size_bytes: int
    log_start_offset: int
    log_end_offset: int


class CleaningView(NamedTuple):
    """How dirty a compacted partition is. `due_since_ms`: since when it could be cleaned; None when it need not be.

    `cleaned_ms`: when this broker last cleaned it; None when it did not.
    """

    dirty_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    due_since_ms: int | None
    cleaned_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerView:
    """The cleaner. Times in ms since 1970. `at_work`: the partitions that are being cleaned. Totals count since the broker's start.

    recopy_ratio: bytes written for each byte read in the last cleaning. buffer_ratio: how full the table of keys was in it.
    max_compaction_delay_ms: by how much the oldest dirty record is older than max.compaction.lag.ms, at most, at the last look.
    """

    is_enabled: bool
    threads: int = 0
    dead_threads: int = 0
    backoff_ms: int = 0
    at_work: tuple[TopicPartition, ...] = ()
    looked_ms: int | None = None
    cleaned_ms: int | None = None
    cleanings: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    recopy_ratio: float = 0.0
    buffer_ratio: float = 0.0
    last_clean_ms: int = 0
    max_compaction_delay_ms: int = 0
    max_dirty_ratio: float = 0.0
    uncleanable: tuple[PartitionFault, ...] = ()
    uncleanable_bytes: int = 0
    partitions: Mapping[TopicPartition, CleaningView] = field(default_factory=dict)

    @property
    def state(self) -> CleanerState:
        """In one word."""
        if not self.is_enabled:
            return CleanerState.OFF
        return CleanerState.DEAD if self.threads and self.dead_threads >= self.threads else CleanerState.RUNNING

    def facts(self, now_ms: int) -> CleanerFacts:
        """What is judged."""
        is_idle = self.looked_ms is not None and not self.at_work
        return CleanerFacts(
            state=self.state,
            threads=self.threads,
            dead_threads=self.dead_threads,
            backoff_ms=self.backoff_ms,
            idle_ms=max(0, now_ms - self.looked_ms) if is_idle and self.looked_ms is not None else 0,
            since_cleaned_ms=None if self.cleaned_ms is None else max(0, now_ms - self.cleaned_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """The picture as of `at_ms`. `findings`: ill things first. `topics` and `partitions` hold the largest only when there are very many."""

    at_ms: int
    log_directory: str
    cleaner: CleanerView
    topics: tuple[TopicFacts, ...]
    topics_left_out: int
    partitions: tuple[PartitionView, ...]
    offline: tuple[PartitionFault, ...]
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        return not any(finding.is_ill for finding in self.findings)

    def seen_at(self, now_ms: int) -> "HealthView":
        """The picture as somebody sees it who looks at `now_ms`: that it is old is a finding too."""
        age_ms = now_ms - self.at_ms
        if age_ms <= STALE_MS_MAX:
            return self
        stale = Finding(
            subject="broker",
            is_ill=True,
            sentence=f"The broker has not looked at itself for {duration_text(age_ms)}: its loop stands still.",
            advice="It is overloaded, or its disk does not answer: look at both; what is said here is that old.",
        )
        return replace(self, findings=(stale, *self.findings))

    def to_json(self) -> dict[str, Any]:
        """The picture as plain values, without the partitions one by one."""
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


def picture(
    *,
    cleaner: CleanerView,
    partitions: Sequence[PartitionView],
    offline: Sequence[PartitionFault],
    grown: Callable[[str], Grown],
    log_directory: str,
    now_ms: int,
) -> HealthView:
    """Puts the picture together. `grown` tells by how much a topic grew, and over what time."""
    by_topic: dict[str, list[PartitionView]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.name.topic, []).append(partition)
    topics = [_topic(name, own, cleaner.partitions, grown(name), now_ms) for name, own in by_topic.items()]
    topics.sort(key=lambda topic: (not topic.is_compacted, -topic.overdue_ms, -topic.size_bytes, topic.name))
    return HealthView(
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
    name: str, own: Sequence[PartitionView], cleanings: Mapping[TopicPartition, CleaningView], grown: Grown, now_ms: int
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
        grown_bytes=grown.by_bytes,
        grown_over_ms=grown.over_ms,
    )
