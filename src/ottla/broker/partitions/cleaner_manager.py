"""Which compacted logs are dirty, which one is cleaned next, and up to where each is clean. As Kafka's LogCleanerManager.

Up to where they are clean is in Kafka's `cleaner-offset-checkpoint`; an offset counts only for the topic that it was noted for, and a later
topic of the same name begins as dirty. How dirty a log is, and from where to where it can be cleaned, log/cleaner/candidates.py computes. A
log whose cleaning failed is left alone. Nothing is cleaned here.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.log.checkpoints import CLEANER_FILE, decode_offsets, encode_offsets
from ottla.log.cleaner.candidates import Candidate, assess, filthiest
from ottla.log.cleaner.cleaning import first_timestamp_ms
from ottla.log.cleaner.health import CleaningSnapshot, PartitionFault
from ottla.log.file_system import Files
from ottla.log.log_reading import LogSnapshot
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

log = logging.getLogger(__name__)


class CleanerCheckpoint:
    """The event loop changes it; any thread may write the file."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._offsets: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._written = b""
        self._lock = Lock()

    def load(self, topics: Iterable[Topic]) -> None:
        """Read the file, for the topics there are now. A damaged file is logged and not used. Raises StorageError."""
        self._topic_ids = {topic.name: topic.topic_id for topic in topics}
        if not self._files.exists(CLEANER_FILE):
            return
        self._written = self._files.read_all(CLEANER_FILE)
        offsets = decode_offsets(self._written)
        if offsets is None:
            log.warning("%s is damaged and not used: compacted topics are cleaned from their start", CLEANER_FILE)
        else:
            self._offsets = {name: offset for name, offset in offsets.items() if name.topic in self._topic_ids}

    def get(self, topic: Topic, number: int) -> int | None:
        """Up to which offset the partition is clean; None when it never was cleaned."""
        if self._topic_ids.get(topic.name) != topic.topic_id:
            self.forget(topic.name)
            self._topic_ids[topic.name] = topic.topic_id
        return self._offsets.get(TopicPartition(topic.name, number))

    def note(self, name: TopicPartition, offset: int) -> None:
        """The partition is clean up to `offset`."""
        self._offsets[name] = offset

    def forget(self, topic_name: str) -> bool:
        """The topic is gone; whether anything was known of it."""
        self._topic_ids.pop(topic_name, None)
        gone = [name for name in self._offsets if name.topic == topic_name]
        for name in gone:
            del self._offsets[name]
        return bool(gone)

    def write(self) -> None:
        """Replace the file, if something has changed. Raises StorageError."""
        with self._lock:
            data = encode_offsets(dict(self._offsets))
            if data != self._written:
                self._files.replace(CLEANER_FILE, data)
                self._written = data


UNCLEANABLE_MS: Final = 3_600_000
"""A log whose cleaning failed is tried again after this time."""
_CHECKED_AT_ONCE: Final = 64
"""Logs that are checked before the event loop continues with other work."""


class DirtyLog(NamedTuple):
    """A compacted log at one moment, and its cleaner checkpoint."""

    partition: Partition
    snapshot: LogSnapshot
    checkpoint: int | None


class AssessedLog(NamedTuple):
    """A log and what of it can be cleaned; None when its files cannot be read, for the reason given."""

    log: DirtyLog
    candidate: Candidate | None
    reason: str = ""


class _Uncleanable(NamedTuple):
    """A log that could not be cleaned. Another partition object, or a later log start, is another log: it is tried at once."""

    partition: Partition
    log_start_offset: int
    fault: PartitionFault
    size_bytes: int


class LogCleanerManager:
    """Used on the event loop only.

    in_progress: the partitions that are being cleaned. checked_ms: when all logs were checked last. overdue_ms_max: by how much the oldest
    dirty record was older than max.compaction.lag.ms then, at most.
    """

    def __init__(
        self,
        *,
        files: Files,
        cluster_metadata: ClusterMetadata,
        partitions: Partitions,
        checkpoint: CleanerCheckpoint,
        clock: Callable[[], int],
    ) -> None:
        self._files = files
        self._cluster_metadata = cluster_metadata
        self._partitions = partitions
        self._checkpoint = checkpoint
        self._clock = clock
        self._checking = asyncio.Lock()
        self._uncleanable: dict[TopicPartition, _Uncleanable] = {}
        self._known: dict[TopicPartition, CleaningSnapshot] = {}
        self._cleaned_ms: dict[TopicPartition, int] = {}
        self._cleanings_ended = 0
        self.in_progress: list[TopicPartition] = []
        self.checked_ms = 0
        self.overdue_ms_max = 0

    # --- figures

    def partitions(self) -> dict[TopicPartition, CleaningSnapshot]:
        """How dirty each compacted log was when it was checked last."""
        return dict(self._known)

    def uncleanable(self) -> tuple[PartitionFault, ...]:
        """The logs that are left alone, and why."""
        return tuple(each.fault for each in self._uncleanable.values())

    @property
    def uncleanable_bytes(self) -> int:
        return sum(each.size_bytes for each in self._uncleanable.values())

    # --- checking

    async def check_logs(self) -> list[AssessedLog]:
        """Check how dirty every compacted log is, a few at a time; returns those that are due for cleaning."""
        async with self._checking:
            now_ms, before, due = self._clock(), self._known, []
            known: dict[TopicPartition, CleaningSnapshot] = {}
            seen: set[TopicPartition] = set()
            async for logs in self._compacted_logs(seen):
                assessed = await asyncio.get_running_loop().run_in_executor(None, _assess_logs, self._files, logs, now_ms)
                for each in assessed:
                    self._record(each, now_ms, before, known)
                due += [each for each in assessed if each.candidate is not None and each.candidate.is_due]
            for name in self._uncleanable.keys() - seen:
                del self._uncleanable[name]
            self._known, self.checked_ms = known, now_ms
            self.overdue_ms_max = max((each.candidate.overdue_ms for each in due if each.candidate is not None), default=0)
            return due

    async def _compacted_logs(self, seen: set[TopicPartition]) -> AsyncIterator[list[DirtyLog]]:
        """The compacted logs, some at a time. The names of all are added to `seen`, also of those that cannot be read."""
        logs: list[DirtyLog] = []
        is_compacted: dict[str, bool] = {}
        for count, (topic, number) in enumerate(self._partitions.all()):
            if count % _CHECKED_AT_ONCE == _CHECKED_AT_ONCE - 1:
                await asyncio.sleep(0)
            if topic.name not in is_compacted:
                is_compacted[topic.name] = "compact" in str(self._cluster_metadata.parsed_value(topic, "cleanup.policy"))
            if is_compacted[topic.name]:
                logs += await self._dirty_log(topic, number, seen)
            if len(logs) == _CHECKED_AT_ONCE:
                yield logs
                logs = []
        if logs:
            yield logs

    async def _dirty_log(self, topic: Topic, number: int, seen: set[TopicPartition]) -> list[DirtyLog]:
        """The partition's log; none when it is offline, which is logged elsewhere, or cannot be read."""
        if self._cluster_metadata.topics.get(topic.name) is not topic:
            return []
        try:
            partition = await self._partitions.open(topic, number)
        except StorageError:
            return []
        if partition is None or partition.log.failure is not None:
            return []
        seen.add(partition.name)
        try:
            snapshot = partition.log.snapshot()
        except StorageError as error:
            self.set_uncleanable(partition, partition.log.log_start_offset, partition.log.size_bytes, str(error))
            return []
        if partition.log.recovery_point < snapshot.active_base_offset and partition.syncing is None:
            # Only what is durable can be cleaned. After a crash, nothing else may start this sync.
            partition.sync_soon()
        return [DirtyLog(partition, snapshot, self._checkpoint.get(topic, number))]

    def _record(
        self,
        assessed: AssessedLog,
        now_ms: int,
        before: Mapping[TopicPartition, CleaningSnapshot],
        known: dict[TopicPartition, CleaningSnapshot],
    ) -> None:
        found, candidate, reason = assessed
        name, snapshot = found.partition.name, found.snapshot
        if candidate is None:
            self.set_uncleanable(found.partition, snapshot.log_start_offset, snapshot.size_bytes, reason)
            return
        if candidate.has_new_start:
            log.warning("%s-%d: the cleaner's checkpoint %s is not in the log; it begins at its start", *name, found.checkpoint)
            self._checkpoint.note(name, candidate.first_dirty_offset)
        since_ms = before[name].due_since_ms if name in before else None
        known[name] = CleaningSnapshot(
            dirty_bytes=max(0, snapshot.size_bytes - candidate.clean_bytes),
            cleanable_bytes=candidate.cleanable_bytes,
            dirty_ratio=candidate.dirty_ratio,
            due_since_ms=(now_ms if since_ms is None else since_ms) if candidate.is_due else None,
            cleaned_ms=self._cleaned_ms.get(name),
        )

    # --- cleaning

    async def grab_filthiest(self) -> tuple[DirtyLog, Candidate] | None:
        """The log that is due with the highest dirty ratio; it is in progress then, until `end_cleaning`. None when none is due."""
        ended = -1
        while ended != self._cleanings_ended:  # a log that was checked before another thread's cleaning ended may have changed
            ended = self._cleanings_ended
            due = await self.check_logs()
        chosen = filthiest((found, candidate) for found, candidate, _ in due if candidate is not None and self._may_clean(found))
        if chosen is not None:
            self.in_progress.append(chosen[0].partition.name)
        return chosen

    def end_cleaning(self, name: TopicPartition) -> None:
        """The partition is no longer being cleaned."""
        self.in_progress.remove(name)
        self._cleanings_ended += 1

    def _may_clean(self, found: DirtyLog) -> bool:
        """Whether no other thread cleans the log, and its cleaning did not fail lately."""
        name = found.partition.name
        if found.partition.deleted or name in self.in_progress:
            return False
        failed = self._uncleanable.get(name)
        if failed is None:
            return True
        is_same = failed.partition is found.partition and failed.log_start_offset == found.snapshot.log_start_offset
        if is_same and self._clock() - failed.fault.at_ms < UNCLEANABLE_MS:
            return False
        del self._uncleanable[name]
        return True

    def set_clean(self, name: TopicPartition, now_ms: int) -> None:
        """The log was cleaned as far as it could be."""
        self._cleaned_ms[name] = now_ms
        if name in self._known:
            self._known[name] = self._known[name]._replace(cleanable_bytes=0, dirty_ratio=0.0, due_since_ms=None, cleaned_ms=now_ms)

    def set_uncleanable(
        self, partition: Partition, log_start_offset: int, size_bytes: int, reason: str, error: Exception | None = None
    ) -> None:
        """Leave the log alone for a while, and log the reason once."""
        name = partition.name
        if name in self._uncleanable:
            return
        fault = PartitionFault(name.topic, name.partition, reason, self._clock())
        self._uncleanable[name] = _Uncleanable(partition, log_start_offset, fault, size_bytes)
        is_unexpected = error is not None and not isinstance(error, StorageError)
        log.error("%s-%d is left uncleaned: %s", *name, reason, exc_info=error if is_unexpected else None)

    def topic_deleted(self, topic_name: str) -> None:
        """Forget the topic. Its checkpoint must be written before a topic of that name is created."""
        for known in (self._known, self._uncleanable, self._cleaned_ms):
            for name in [each for each in known if each.topic == topic_name]:
                del known[name]
        self._checkpoint.forget(topic_name)


def _assess_logs(files: Files, logs: Sequence[DirtyLog], now_ms: int) -> list[AssessedLog]:
    """How dirty the logs are; any thread."""
    assessed = []
    for each in logs:
        try:
            candidate = assess(
                each.snapshot, each.checkpoint, now_ms, first_timestamp_ms=lambda segment: first_timestamp_ms(files, segment)
            )
        except StorageError as error:
            assessed.append(AssessedLog(each, None, str(error)))
        else:
            assessed.append(AssessedLog(each, candidate))
    return assessed
