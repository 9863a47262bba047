"""Judges the cleaner's health from plain numbers: one finding for each cleaner, topic and partition, in words, with what to do.

The same rules judge a running broker and the files of a data directory. Nothing is measured here, and no clock is read: ages are given. A
running cleaner's figures are one frozen snapshot, which any thread may read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from ottla.protocol.model import TopicPartition

OVERDUE_MS_MAX: Final = 15 * 60_000
"""If a partition could have been cleaned for longer, the cleaner does not reach it."""

STALLED_MS_MAX: Final = 5 * 60_000
"""A cleaner that neither cleans nor checks for work for longer hangs (if that is also more than ten of its back-offs)."""

FINDINGS_MAX: Final = 100
"""Of each kind; one more finding counts the rest."""

_HOUR_MS: Final = 3_600_000


class CleanerState(StrEnum):
    """UNKNOWN: judged by files, which do not say it."""

    RUNNING = "running"
    OFF = "off"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerFacts:
    """The cleaner. `idle_ms`: since it last checked for work, 0 while it cleans. `since_cleaned_ms`: None when it never cleaned."""

    state: CleanerState
    threads: int = 0
    dead_threads: int = 0
    backoff_ms: int = 0
    idle_ms: int = 0
    since_cleaned_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic, all its partitions together. Values about cleaning are 0 for one that is not compacted.

    dirty_bytes: behind the point up to which it is cleaned. cleanable_bytes: of those, what a cleaning could begin with now.
    dirty_ratio: the highest of its partitions (0 to 1). overdue_ms: for how long a partition could have been cleaned and was not.
    since_cleaned_ms: since anything of it was last cleaned; None when that is not known.
    grown_bytes, grown_over_ms: by how much it grew (or shrank) in that time; 0 and 0 when that is not known.
    """

    name: str
    partitions: int
    size_bytes: int
    dirty_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    is_compacted: bool = True
    overdue_ms: int = 0
    since_cleaned_ms: int | None = None
    grown_bytes: int = 0
    grown_over_ms: int = 0

    @property
    def growth_bytes_per_hour(self) -> int | None:
        """None when it has not been sampled for long enough."""
        return None if self.grown_over_ms <= 0 else self.grown_bytes * _HOUR_MS // self.grown_over_ms


class PartitionFault(NamedTuple):
    """A partition that is offline, or that cannot be cleaned: why, and since when (0: not known)."""

    topic: str
    partition: int
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`subject`: "cleaner", "topic NAME" or "partition NAME-N". `advice` is empty where nothing is to be done."""

    subject: str
    is_ill: bool
    sentence: str
    advice: str = ""


def findings(
    cleaner: CleanerFacts,
    topics: Sequence[TopicFacts],
    uncleanable: Sequence[PartitionFault] = (),
    offline: Sequence[PartitionFault] = (),
) -> tuple[Finding, ...]:
    """All findings, unhealthy ones first."""
    found = [_cleaner(cleaner, topics)]
    stuck = {each.topic for each in uncleanable}
    found += [_topic(cleaner, topic, topic.name in stuck) for topic in topics if topic.is_compacted]
    found += _faults(
        uncleanable,
        "cannot be cleaned",
        "The broker retries every hour. If the data is damaged, delete the topic or, with cleanup.policy=compact,delete for that time, "
        "the records up to the damage (DeleteRecords).",
    )
    found += _faults(
        offline,
        "is offline",
        "Fix the reported cause; after a failed sync or a lost file, restart the broker.",
    )
    return tuple(sorted(found, key=lambda each: not each.is_ill))


def _cleaner(cleaner: CleanerFacts, topics: Sequence[TopicFacts]) -> Finding:
    is_needed = any(topic.overdue_ms > OVERDUE_MS_MAX for topic in topics)
    if cleaner.state is CleanerState.UNKNOWN:
        words = "The files do not show whether a cleaner runs" + (", but a topic is overdue for cleaning." if is_needed else ".")
        return Finding(subject="cleaner", is_ill=False, sentence=words)
    if cleaner.state is CleanerState.OFF:
        return Finding(
            subject="cleaner",
            is_ill=is_needed,
            sentence="The cleaner is disabled: compacted topics grow without bound.",
            advice="Set log.cleaner.enable=true and restart the broker.",
        )
    if cleaner.state is CleanerState.DEAD or cleaner.dead_threads:
        return Finding(
            subject="cleaner",
            is_ill=True,
            sentence=f"{cleaner.dead_threads} of the cleaner's {cleaner.threads} threads died.",
            advice="See the broker's log for the cause, and restart the broker.",
        )
    if cleaner.idle_ms > max(STALLED_MS_MAX, 10 * cleaner.backoff_ms):
        return Finding(
            subject="cleaner",
            is_ill=True,
            sentence=f"The cleaner has not checked for work for {duration_text(cleaner.idle_ms)}.",
            advice="It hangs, or the broker is overloaded: check the broker's log and the disk, then restart the broker.",
        )
    since = "has not cleaned yet" if cleaner.since_cleaned_ms is None else f"last cleaned {duration_text(cleaner.since_cleaned_ms)} ago"
    return Finding(subject="cleaner", is_ill=False, sentence=f"The cleaner runs; it {since}.")


def _topic(cleaner: CleanerFacts, topic: TopicFacts, is_uncleanable: bool) -> Finding:
    is_ill = topic.overdue_ms > OVERDUE_MS_MAX
    grown = _growth_words(topic)
    if not is_ill:
        words = f"{topic.name} holds {size_text(topic.size_bytes)}, {size_text(topic.dirty_bytes)} of it not cleaned yet{grown}."
        return Finding(subject=f"topic {topic.name}", is_ill=False, sentence=words)
    idle = duration_text(max(topic.overdue_ms, topic.since_cleaned_ms or 0))
    cleanable = f"{size_text(topic.cleanable_bytes)} are cleanable"
    return Finding(
        subject=f"topic {topic.name}",
        is_ill=True,
        sentence=f"{topic.name} holds {size_text(topic.size_bytes)}{grown}, and was not cleaned for {idle}; {cleanable}.",
        advice=_advice(cleaner.state, is_uncleanable),
    )


def _growth_words(topic: TopicFacts) -> str:
    if topic.grown_over_ms <= 0:
        return ""
    verb = "has grown" if topic.grown_bytes >= 0 else "has shrunk"
    span = "hour" if abs(topic.grown_over_ms - _HOUR_MS) < _HOUR_MS // 10 else duration_text(topic.grown_over_ms)
    return f", {verb} by {size_text(abs(topic.grown_bytes))} in the last {span}"


def _advice(state: CleanerState, is_uncleanable: bool) -> str:
    if is_uncleanable:
        return "One of its partitions cannot be cleaned: see the finding of that partition."
    if state is CleanerState.OFF:
        return "Set log.cleaner.enable=true and restart the broker."
    if state is CleanerState.UNKNOWN:
        return "Check that the broker runs, that its log.cleaner.enable is true, and its log for messages of the cleaner."
    if state is CleanerState.DEAD:
        return "The cleaner died: restart the broker."
    return "The cleaner is too slow: raise log.cleaner.threads or log.cleaner.io.max.bytes.per.second."


def _faults(faults: Sequence[PartitionFault], what: str, advice: str) -> Iterator[Finding]:
    for fault in faults[:FINDINGS_MAX]:
        subject = f"partition {fault.topic}-{fault.partition}"
        yield Finding(subject=subject, is_ill=True, sentence=f"{fault.topic}-{fault.partition} {what}: {fault.reason}.", advice=advice)
    if len(faults) > FINDINGS_MAX:
        more = len(faults) - FINDINGS_MAX
        yield Finding(subject="partitions", is_ill=True, sentence=f"{more} more partitions: each one {what}.", advice=advice)


def size_text(size_bytes: int) -> str:
    """A size in words: 1.2 GB, 120 MB, 17 B."""
    size, sign = float(abs(size_bytes)), "-" if size_bytes < 0 else ""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{sign}{size:.3g} {unit}"
        size /= 1000
    return f"{sign}{size:,.1f} TB"


def duration_text(duration_ms: int) -> str:
    """A time in words, in the largest unit of which there are at least two: 90 s, 3 h, 2 days."""
    for unit_ms, unit in ((86_400_000, "days"), (_HOUR_MS, "h"), (60_000, "min")):
        if duration_ms >= 2 * unit_ms:
            return f"{duration_ms / unit_ms:.0f} {unit}"
    return f"{duration_ms / 1000:.0f} s"


class CleaningSnapshot(NamedTuple):
    """How dirty a compacted partition is. `due_since_ms`: since when it could be cleaned; None when it need not be.

    `cleaned_ms`: when this broker last cleaned it; None when it did not.
    """

    dirty_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    due_since_ms: int | None
    cleaned_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSnapshot:
    """The cleaner. Times in ms since 1970. `at_work`: the partitions that are being cleaned. Totals count since the broker's start.

    recopy_ratio: bytes written for each byte read in the last cleaning. buffer_ratio: how full the table of keys was in it.
    max_compaction_delay_ms: by how much the oldest dirty record is older than max.compaction.lag.ms, at most, at the last check.
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
    partitions: Mapping[TopicPartition, CleaningSnapshot] = field(default_factory=dict)

    @property
    def state(self) -> CleanerState:
        """Whether it is off, running or dead."""
        if not self.is_enabled:
            return CleanerState.OFF
        return CleanerState.DEAD if self.threads and self.dead_threads >= self.threads else CleanerState.RUNNING

    def facts(self, now_ms: int) -> CleanerFacts:
        """The facts from which findings are made."""
        is_idle = self.looked_ms is not None and not self.at_work
        return CleanerFacts(
            state=self.state,
            threads=self.threads,
            dead_threads=self.dead_threads,
            backoff_ms=self.backoff_ms,
            idle_ms=max(0, now_ms - self.looked_ms) if is_idle and self.looked_ms is not None else 0,
            since_cleaned_ms=None if self.cleaned_ms is None else max(0, now_ms - self.cleaned_ms),
        )
