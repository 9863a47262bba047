"""A data directory on the disk, ours or Apache Kafka's: which partitions, how large, how dirty, how fast they grow, what is wrong.

It only reads, needs no broker, and may run while one works on the directory: what vanishes in between is skipped. It judges nothing
about the cleaner (core/diagnosis/cleaner_health.py does); the times are those of the records, since files do not say when they grew.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from ottla.core.diagnosis.cleaner_health import FINDINGS_MAX, Finding, TopicFacts, size_text
from ottla.core.errors import StorageError
from ottla.core.model import TopicPartition
from ottla.storage.checkpoints import CLEANER_FILE, META_PROPERTIES, decode_offsets
from ottla.storage.dump.topic_settings import TopicSettings, read_topic_settings
from ottla.storage.log.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name
from ottla.storage.log.segment import NO_TIMESTAMP
from ottla.storage.log.segment_facts import Readable, SegmentFacts, segment_facts

GROWTH_MS: Final = 3_600_000
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex)")
_LEFT_OVER: Final = re.compile(r"\.[0-9a-f]{32}-(delete|stray|future)$")
METADATA_TOPIC: Final = "__cluster_metadata"
_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition's files. `cleaned_to`: the offset up to which the log is cleaned, None where no checkpoint has it."""

    name: TopicPartition
    segments: tuple[SegmentFacts, ...]
    cleaned_to: int | None

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def dirty(self) -> tuple[SegmentFacts, ...]:
        """The segments that reach beyond what is cleaned, the active one too."""
        cleaned_to = self.cleaned_to or 0
        after = [*(segment.base_offset for segment in self.segments[1:]), None]
        return tuple(segment for segment, end in zip(self.segments, after) if end is None or end > cleaned_to)

    @property
    def dirty_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.dirty)

    @property
    def cleanable_bytes(self) -> int:
        """Of the dirty bytes, those that no record is appended to any more."""
        return sum(segment.size_bytes for segment in self.dirty[:-1])

    @property
    def dirty_ratio(self) -> float:
        """Kafka's: cleanable bytes of all but those of the active segment."""
        whole = self.size_bytes - (self.segments[-1].size_bytes if self.segments else 0)
        return self.cleanable_bytes / whole if whole else 0.0

    def cleanable_since_ms(self, settings: TopicSettings) -> int | None:
        """When the log became dirty enough for a cleaning, by the records' times; None when no cleaning is due."""
        clean_bytes = self.size_bytes - self.dirty_bytes
        closing = self.dirty
        for number, dirty_bytes in enumerate(accumulate(segment.size_bytes for segment in closing[:-1])):
            if dirty_bytes > settings.min_cleanable_dirty_ratio * (clean_bytes + dirty_bytes):
                closed_ms = max(closing[number].last_timestamp_ms, closing[number + 1].first_timestamp_ms)
                return closed_ms + settings.min_compaction_lag_ms
        return None

    def bytes_at(self, at_ms: int) -> int:
        """How many of its bytes were there by then: those of a segment are taken as written evenly from its first record to its last."""
        total = 0.0
        for segment in self.segments:
            if segment.last_timestamp_ms <= at_ms:
                total += segment.size_bytes
            elif segment.first_timestamp_ms < at_ms:
                spread_ms = segment.last_timestamp_ms - segment.first_timestamp_ms
                total += segment.size_bytes * (at_ms - segment.first_timestamp_ms) / spread_ms
        return round(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """`at_ms`: the time of the newest record, by which ages are computed. `findings`: what is wrong with the files."""

    at_ms: int
    is_data_directory: bool
    topics: tuple[TopicFacts, ...]
    partitions: tuple[PartitionFacts, ...]
    findings: tuple[Finding, ...]


def inspect_directory(files: Readable, now_ms: int) -> Inspection:
    """Read the whole directory. Raises StorageError when not even its names can be read."""
    names = files.list("")
    findings: list[Finding] = []
    cleaned_to = _checkpoint(files, names, findings)
    partitions: list[PartitionFacts] = []
    strange: list[str] = []
    for name in names:
        matched = _PARTITION.fullmatch(name)
        if matched is None:
            findings += _odd_directory(files, name, strange)
            continue
        tp = TopicPartition(matched[1], int(matched[2]))
        try:
            partitions.append(_partition(files, name, tp, cleaned_to.get(tp), findings))
        except StorageError as error:
            findings.append(
                Finding(subject=f"partition {name}", is_ill=True, sentence=f"{name}: {error}.", advice="See that it can be read.")
            )
    findings += _strange(strange)
    newest_ms = max((s.last_timestamp_ms for partition in partitions for s in partition.segments), default=NO_TIMESTAMP)
    at_ms = now_ms if newest_ms == NO_TIMESTAMP else min(now_ms, newest_ms)
    settings = read_topic_settings(files, METADATA_TOPIC, findings)
    return Inspection(
        at_ms=at_ms,
        is_data_directory=META_PROPERTIES in names or any(partition.segments for partition in partitions),
        topics=tuple(_topics(partitions, settings, {tp.topic for tp in cleaned_to}, at_ms)),
        partitions=tuple(partitions),
        findings=tuple(_bounded(findings)),
    )


def _bounded(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Unhealthy ones first; of very many the rest is only counted."""
    ordered = sorted(findings, key=lambda finding: not finding.is_ill)
    yield from ordered[:FINDINGS_MAX]
    if rest := ordered[FINDINGS_MAX:]:
        yield Finding(subject="directory", is_ill=rest[0].is_ill, sentence=f"{len(rest)} more things were found.")


def _checkpoint(files: Readable, names: Iterable[str], findings: list[Finding]) -> dict[TopicPartition, int]:
    if CLEANER_FILE not in names:
        return {}
    offsets = decode_offsets(files.read_all(CLEANER_FILE))
    if offsets is None:
        sentence = f"{CLEANER_FILE} is damaged: everything counts as dirty."
        findings.append(Finding(subject=CLEANER_FILE, is_ill=True, sentence=sentence, advice="The next cleaning rewrites it."))
    return offsets or {}


def _odd_directory(files: Readable, name: str, strange: list[str]) -> Iterator[Finding]:
    """The kind of a directory that is no partition's, by its name; unknown ones are added to `strange`. None for a file."""
    try:
        inside = files.list(name)
    except StorageError:
        return  # a file
    matched = _LEFT_OVER.search(name)
    if matched is None:
        strange += [name] if inside else []
        return
    size = size_text(sum(files.size(f"{name}/{each}") for each in inside if files.exists(f"{name}/{each}")))
    sentence, advice = {
        "delete": (f"{name} is deleted and holds {size}.", "A running broker removes it after file.delete.delay.ms."),
        "stray": (f"{name} is of a topic that the cluster did not know, and holds {size}.", "Remove it if it is not needed."),
        "future": (f"{name} is a copy on its way between two directories, and holds {size}.", ""),
    }[matched[1]]
    yield Finding(subject=name, is_ill=False, sentence=sentence, advice=advice)


def _strange(names: Sequence[str]) -> Iterator[Finding]:
    if names:
        some = ", ".join(names[:_NAMED_MAX]) + (", ..." if len(names) > _NAMED_MAX else "")
        sentence = f"{len(names)} directories are no partition's: {some}."
        yield Finding(subject="directories", is_ill=False, sentence=sentence, advice="Brokers leave them alone.")


def _partition(files: Readable, directory: str, tp: TopicPartition, cleaned_to: int | None, findings: list[Finding]) -> PartitionFacts:
    names = files.list(directory)
    found: dict[str, list[int]] = {LOG_SUFFIX: [], INDEX_SUFFIX: [], TIME_INDEX_SUFFIX: []}
    for name in names:
        matched = _SEGMENT_FILE.fullmatch(name)
        if matched is not None:
            found[matched[2]].append(int(matched[1]))
    bases = sorted(found[LOG_SUFFIX])
    findings += _odd_files(directory, names, found, is_metadata=directory.startswith(f"{METADATA_TOPIC}-"))
    segments = []
    for base_offset in bases:
        try:
            segments.append(segment_facts(files, directory, base_offset, is_active=base_offset == bases[-1]))
        except StorageError:
            if files.exists(f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"):
                raise
            # It was removed meanwhile, by a cleaner or by retention.
    return PartitionFacts(name=tp, segments=tuple(segments), cleaned_to=cleaned_to)


def _odd_files(directory: str, names: Sequence[str], found: Mapping[str, Sequence[int]], *, is_metadata: bool) -> Iterator[Finding]:
    subject = f"partition {directory}"
    logs = set(found[LOG_SUFFIX])
    orphans = sorted({*found[INDEX_SUFFIX], *found[TIME_INDEX_SUFFIX]} - logs)
    if orphans:
        sentence = f"{directory}/{file_name(orphans[0], LOG_SUFFIX)} is gone, while its index is there ({len(orphans)} such)."
        yield Finding(
            subject=subject, is_ill=True, sentence=sentence, advice="Records are missing: restore the file, with the broker stopped."
        )
    if names and not logs and not is_metadata:
        yield Finding(subject=subject, is_ill=False, sentence=f"{directory} holds no segment.", advice="")
    bare = sorted(logs - (set(found[INDEX_SUFFIX]) & set(found[TIME_INDEX_SUFFIX])))
    if bare:
        sentence = f"{directory}: {len(bare)} segments lack an index, the first at offset {bare[0]}."
        yield Finding(subject=subject, is_ill=False, sentence=sentence, advice="The broker rebuilds it from the log.")
    for suffix, sentence, advice in (
        (".cleaned", "a cleaning is at work or was cut off", "A broker that starts removes what was cut off."),
        (".swap", "a cleaning was cut off when its result was put in place", "A broker that starts finishes it."),
    ):
        left = [name for name in names if name.endswith(suffix)]
        if left:
            yield Finding(subject=subject, is_ill=False, sentence=f"{directory}: {sentence} ({len(left)} {suffix} files).", advice=advice)


def _topics(
    partitions: Iterable[PartitionFacts], settings: Mapping[str, TopicSettings], cleaned: set[str], at_ms: int
) -> Iterator[TopicFacts]:
    by_topic: dict[str, list[PartitionFacts]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.name.topic, []).append(partition)
    for name, own in sorted(by_topic.items()):
        chosen = settings.get(name, TopicSettings())
        is_compacted = chosen.is_compacted if chosen.is_compacted is not None else name in cleaned
        size_bytes = sum(partition.size_bytes for partition in own)
        since = [since_ms for partition in own if (since_ms := partition.cleanable_since_ms(chosen)) is not None]
        yield TopicFacts(
            name=name,
            partitions=len(own),
            is_compacted=is_compacted,
            size_bytes=size_bytes,
            dirty_bytes=sum(partition.dirty_bytes for partition in own) if is_compacted else 0,
            cleanable_bytes=sum(partition.cleanable_bytes for partition in own) if is_compacted else 0,
            dirty_ratio=max(partition.dirty_ratio for partition in own) if is_compacted else 0.0,
            overdue_ms=max(0, at_ms - min(since)) if since and is_compacted else 0,
            grown_bytes=size_bytes - sum(partition.bytes_at(at_ms - GROWTH_MS) for partition in own),
            grown_over_ms=GROWTH_MS,
        )
