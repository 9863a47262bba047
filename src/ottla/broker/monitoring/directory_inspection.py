"""A data directory on the disk, ours or Apache Kafka's: which partitions, how large, how dirty, how fast they grow, what is wrong.

It only reads, needs no broker, and may run while one works on the directory: what vanishes in between is skipped. It judges nothing about
the cleaner (log/cleaner/health.py does); the times are those of the records, since files do not say when they grew.

The topics' settings are those that the cluster's own metadata log in the directory has, as far as they decide whether and when a topic is
cleaned; the options of a started broker are in no data directory, so Kafka's defaults replace them. The log is read leniently: it may be
Apache Kafka's, of a later version, and just being written to; what cannot be read ends that file's part, and the caller gets the reason.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from ottla.config import BROKER_SETTINGS, ConfigSource
from ottla.log.checkpoints import (
    CLEANER_FILE,
    INDEX_SUFFIX,
    LOG_START_FILE,
    LOG_SUFFIX,
    META_PROPERTIES,
    TIME_INDEX_SUFFIX,
    decode_offsets,
    file_name,
)
from ottla.log.cleaner.candidates import Candidate, assess
from ottla.log.cleaner.health import FINDINGS_MAX, Finding, TopicFacts, size_text
from ottla.log.segment import NO_TIMESTAMP
from ottla.log.segment_facts import Readable, SegmentFacts, segment_facts
from ottla.metadata.adoption import snapshot_ids
from ottla.metadata.cluster_metadata import ClusterMetadata, MetadataReplay
from ottla.metadata.records import (
    AbortTransaction,
    BeginTransaction,
    ConfigRecord,
    EndTransaction,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
    TransactionMark,
    decode,
)
from ottla.metadata.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, Topic
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.model import TopicPartition
from ottla.protocol.records.batch import decode_batch, split_batches

METADATA_BYTES_MAX: Final = 64 << 20
"""A file of the metadata log beyond this is not read: looking shall be cheap."""
COMPACTED_BY_KAFKA: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
_NODE_ID: Final = re.compile(rb"^node\.id=(\d{1,10})\s*$", re.MULTILINE)
_META_PROPERTIES_BYTES_MAX: Final = 4096
_OF_INTEREST: Final = (TopicRecord, RemoveTopicRecord, ConfigRecord, BeginTransaction, EndTransaction, AbortTransaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Kafka's defaults where nothing was set; `is_compacted` None: no cleanup.policy was set, for the topic or for all."""

    is_compacted: bool | None = None
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1


def read_topic_settings(files: Readable, metadata_topic: str, findings: list[Finding]) -> dict[str, TopicSettings]:
    """The settings in force, by topic. What could not be read is added to `findings`."""
    cluster_metadata = ClusterMetadata((_node_id(files),), lambda name: BROKER_SETTINGS[name].default)
    replay = MetadataReplay(cluster_metadata)
    directory = f"{metadata_topic}-0"
    names = files.list(directory)
    snapshots = snapshot_ids(names)[-1:]
    covered = max((snapshot.end_offset for snapshot in snapshots), default=0)
    sources = [(snapshot.file_name, 0) for snapshot in snapshots]
    sources += [(name, covered) for name in names if name.endswith(".log")]
    for name, from_offset in sources:
        path = f"{directory}/{name}"
        try:
            if files.size(path) > METADATA_BYTES_MAX:
                raise PeerError("it is too large to be read in passing")
            for record in _records(files.read_all(path), from_offset):
                replay.replay(record)
        except (PeerError, LookupError) as error:
            what = error if isinstance(error, PeerError) else "it speaks of a topic that there is not"
            sentence = f"The topics' settings in {path} could not all be read: {what}."
            findings.append(Finding(subject=path, is_ill=False, sentence=sentence, advice="Some topics may be judged by Kafka's defaults."))
    settings = {name: TopicSettings(is_compacted=True) for name in COMPACTED_BY_KAFKA}
    for topic in cluster_metadata.topics.values():
        settings[topic.name] = _in_force(cluster_metadata, topic)
    for refused in cluster_metadata.configs.unusable():
        sentence = f"A setting of {refused.owner} is invalid: {refused.problem}."
        findings.append(Finding(subject=refused.owner, is_ill=False, sentence=sentence, advice="Its default is in force."))
    return settings


def _node_id(files: Readable) -> int:
    """Whose broker settings count; -1, whose there are none, when the directory does not say."""
    if not files.exists(META_PROPERTIES):
        return -1
    found = _NODE_ID.search(files.read_range(META_PROPERTIES, 0, _META_PROPERTIES_BYTES_MAX))
    return int(found[1]) if found else -1


def _records(data: bytes, from_offset: int) -> Iterator[MetadataRecord | TransactionMark]:
    """The records of topics and settings after those that a snapshot covers."""
    for position, header in split_batches(data):
        if not header.is_control and header.last_offset >= from_offset:
            for record in decode_batch(data, position):
                decoded = decode(record.value or b"")
                if record.offset >= from_offset and isinstance(decoded, _OF_INTEREST):
                    yield decoded


def _in_force(cluster_metadata: ClusterMetadata, topic: Topic) -> TopicSettings:
    policy, source = cluster_metadata.value_in_force(topic, "cleanup.policy")
    is_compacted = "compact" in policy if source is not ConfigSource.DEFAULT else True if topic.name in COMPACTED_BY_KAFKA else None
    ratio = cluster_metadata.parsed_value(topic, "min.cleanable.dirty.ratio")
    assert isinstance(ratio, float)
    return TopicSettings(
        is_compacted=is_compacted,
        min_cleanable_dirty_ratio=ratio,
        min_compaction_lag_ms=cluster_metadata.number_in_force(topic, "min.compaction.lag.ms"),
        max_compaction_lag_ms=cluster_metadata.number_in_force(topic, "max.compaction.lag.ms"),
    )


GROWTH_MS: Final = 3_600_000
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex)")
_LEFT_OVER: Final = re.compile(r"\.[0-9a-f]{32}-(delete|stray|future)$")
METADATA_TOPIC: Final = "__cluster_metadata"
_NAMED_MAX: Final = 5
KAFKAS_DEFAULTS: Final = TopicSettings()
_DAMAGED: Final = {
    CLEANER_FILE: ("everything counts as dirty", "The next cleaning rewrites it."),
    LOG_START_FILE: ("records that clients deleted may be readable again", "The broker rewrites it every minute, and when it stops."),
}
NOT_READ: Final = 2**63 - 1
"""Stands for offsets that only reading all batches would show: the log's end and the last stable offset."""


class ClosedSegment(NamedTuple):
    """A segment that takes no more batches, as log/cleaner/candidates.py reads it."""

    base_offset: int
    next_base_offset: int
    size_bytes: int
    first_timestamp_ms: int
    largest_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition's files. `cleaned_to`: the offset up to which the log is cleaned, None where no checkpoint has it.

    The dirty ratio is Kafka's (`LogToClean`), as its cleaner would compute it at `now_ms` with `settings`. Files do not show open
    transactions: those count as cleanable.
    """

    name: TopicPartition
    segments: tuple[SegmentFacts, ...]
    cleaned_to: int | None
    log_start: int = 0
    settings: TopicSettings = KAFKAS_DEFAULTS
    now_ms: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def candidate(self) -> Candidate:
        """How dirty the log is, by the rules of the cleaner."""
        closed = [
            ClosedSegment(each.base_offset, after.base_offset, each.size_bytes, each.first_timestamp_ms, each.last_timestamp_ms)
            for each, after in pairwise(self.segments)
        ]
        first_offset = max(self.log_start, self.segments[0].base_offset if self.segments else 0)
        log = ClosedLog(self.settings, first_offset, NOT_READ, NOT_READ, closed)
        return assess(log, self.cleaned_to, self.now_ms, first_timestamp_ms=lambda segment: segment.first_timestamp_ms)

    @property
    def dirty(self) -> tuple[SegmentFacts, ...]:
        """The segments that reach beyond what is cleaned, the active one too."""
        first_dirty = self.candidate.first_dirty_offset
        after = [*(segment.base_offset for segment in self.segments[1:]), NOT_READ]
        return tuple(segment for segment, end in zip(self.segments, after) if end > first_dirty)

    @property
    def dirty_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.dirty)

    @property
    def cleanable_bytes(self) -> int:
        """Of the dirty bytes, those that a cleaning could begin with now."""
        return self.candidate.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.candidate.dirty_ratio

    def cleanable_since_ms(self) -> int | None:
        """When the log became dirty enough for a cleaning, by the records' times; None when no cleaning is due."""
        clean_bytes, closing = self.candidate.clean_bytes, self.dirty
        for number, dirty_bytes in enumerate(accumulate(segment.size_bytes for segment in closing[:-1])):
            if dirty_bytes > self.settings.min_cleanable_dirty_ratio * (clean_bytes + dirty_bytes):
                closed_ms = max(closing[number].last_timestamp_ms, closing[number + 1].first_timestamp_ms)
                return closed_ms + self.settings.min_compaction_lag_ms
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


class ClosedLog(NamedTuple):
    """A log without its active segment, as log/cleaner/candidates.py reads it."""

    settings: TopicSettings
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    segments: Sequence[ClosedSegment]


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
    cleaned_to = _checkpoint(files, names, CLEANER_FILE, findings)
    starts = _checkpoint(files, names, LOG_START_FILE, findings)
    settings = read_topic_settings(files, METADATA_TOPIC, findings)
    partitions: list[PartitionFacts] = []
    strange: list[str] = []
    for name in names:
        matched = _PARTITION.fullmatch(name)
        if matched is None:
            findings += _odd_directory(files, name, strange)
            continue
        tp = TopicPartition(matched[1], int(matched[2]))
        try:
            partitions.append(
                PartitionFacts(
                    name=tp,
                    segments=_segments(files, name, findings),
                    cleaned_to=cleaned_to.get(tp),
                    log_start=starts.get(tp, 0),
                    settings=settings.get(tp.topic, KAFKAS_DEFAULTS),
                    now_ms=now_ms,
                )
            )
        except StorageError as error:
            findings.append(
                Finding(subject=f"partition {name}", is_ill=True, sentence=f"{name}: {error}.", advice="See that it can be read.")
            )
    findings += _strange(strange)
    newest_ms = max((s.last_timestamp_ms for partition in partitions for s in partition.segments), default=NO_TIMESTAMP)
    at_ms = now_ms if newest_ms == NO_TIMESTAMP else min(now_ms, newest_ms)
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


def _checkpoint(files: Readable, names: Iterable[str], file: str, findings: list[Finding]) -> dict[TopicPartition, int]:
    """The offsets in CLEANER_FILE or LOG_START_FILE; none where there is no such file."""
    if file not in names:
        return {}
    offsets = decode_offsets(files.read_all(file))
    if offsets is None:
        consequence, advice = _DAMAGED[file]
        findings.append(Finding(subject=file, is_ill=True, sentence=f"{file} is damaged: {consequence}.", advice=advice))
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


def _segments(files: Readable, directory: str, findings: list[Finding]) -> tuple[SegmentFacts, ...]:
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
    return tuple(segments)


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
        chosen = settings.get(name, KAFKAS_DEFAULTS)
        is_compacted = chosen.is_compacted if chosen.is_compacted is not None else name in cleaned
        size_bytes = sum(partition.size_bytes for partition in own)
        since = [since_ms for partition in own if (since_ms := partition.cleanable_since_ms()) is not None]
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
