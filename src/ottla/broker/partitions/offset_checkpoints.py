"""The checkpoints of the data directory: up to where each partition is durable, where its log starts, and what of it may be read.

They are Kafka's own files. A partition that is not open keeps its last known offsets, and an offset that the disk has not reached is never
written. The log manager decides when the files are written.

What a checkpoint says of a deleted topic would lose records of the next topic of that name. So the checkpoints that name deleted topics are
written again, off the event loop, before any topic of such a name is created.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from threading import Lock

from ottla.log.checkpoints import HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE, decode_offsets, encode_offsets
from ottla.log.file_system import Files
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

log = logging.getLogger(__name__)

EVERY_FILE = (RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE)


class OffsetCheckpoints:
    """The last known offsets of every partition, by file. The event loop changes them; any thread may write the files."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._offsets: dict[str, dict[TopicPartition, int]] = {file: {} for file in EVERY_FILE}
        self._written: dict[str, bytes] = {}
        self._lock = Lock()
        self.has_changed = False
        """Whether `note_durable` changed an offset that no `write` has written yet."""

    def load(self) -> None:
        """Read the files; a damaged one is logged and not used. Raises StorageError when the disk fails."""
        for file in EVERY_FILE:
            if not self._files.exists(file):
                continue
            data = self._files.read_all(file)
            offsets = decode_offsets(data)
            if offsets is None:
                log.warning("%s is damaged and not used: logs are read from their last snapshots on", file)
            else:
                self._offsets[file] = offsets
                self._written[file] = data

    def recovery_point(self, name: TopicPartition) -> int | None:
        """All below is durable; None when nothing is known."""
        return self._offsets[RECOVERY_POINT_FILE].get(name)

    def log_start(self, name: TopicPartition) -> int:
        """Where the log starts at least: deleting records moves it inside a segment."""
        return self._offsets[LOG_START_FILE].get(name, 0)

    def high_watermark(self, name: TopicPartition) -> int:
        """Below it all records could be read; 0 when nothing is known."""
        return self._offsets[HIGH_WATERMARK_FILE].get(name, 0)

    def holds_records(self, name: TopicPartition) -> bool:
        """Whether the partition had records when it was last noted."""
        return max(self.recovery_point(name) or 0, self.high_watermark(name)) > self.log_start(name)

    def note_durable(self, name: TopicPartition, offset: int) -> None:
        """All below is durable."""
        self.has_changed |= self._offsets[RECOVERY_POINT_FILE].get(name) != offset
        self._offsets[RECOVERY_POINT_FILE][name] = offset

    def note(self, name: TopicPartition, partition_log: PartitionLog) -> None:
        """Take the offsets of an open log. A log start of 0 needs no line."""
        self._offsets[RECOVERY_POINT_FILE][name] = max(partition_log.recovery_point, 0)
        self._offsets[HIGH_WATERMARK_FILE][name] = partition_log.high_watermark
        if partition_log.log_start_offset > 0:
            self._offsets[LOG_START_FILE][name] = partition_log.log_start_offset

    def forget(self, names: Iterable[TopicPartition]) -> bool:
        """Forget partitions that do not exist any more; whether anything was known of them."""
        known = [offsets.pop(name, None) for name in names for offsets in self._offsets.values()]
        return any(offset is not None for offset in known)

    def names(self) -> set[TopicPartition]:
        """Every partition that something is known of."""
        return {name for offsets in self._offsets.values() for name in offsets}

    def write(self, files: Iterable[str] = EVERY_FILE) -> None:
        """Make these checkpoints durable, if they have changed. Any thread. Raises StorageError."""
        self.has_changed = False
        for file in files:
            with self._lock:
                data = encode_offsets(self._offsets[file].copy())  # one step: the loop may go on meanwhile
                if data != self._written.get(file):
                    self._files.replace(file, data)
                    self._written[file] = data


class CheckpointDeletions:
    """Belongs to the loop. `writes` make the checkpoints durable where they have changed; any thread may call them."""

    def __init__(self, writes: Sequence[Callable[[], None]]) -> None:
        self._writes = writes
        self._noted = 0
        self._names: dict[str, int] = {}

    def note(self, topic_name: str) -> None:
        """The topic is gone; the checkpoints in memory do not have it any more."""
        self._noted += 1
        self._names[topic_name] = self._noted

    async def write(self) -> None:
        """Write the checkpoints in a worker thread. A failure is logged; the creation of a topic of such a name tries again."""
        if not self._names:
            return
        noted = self._noted
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._write)
        except StorageError as error:
            log.error("the checkpoints still name deleted topics: %s", error)
        else:
            self._names = {name: number for name, number in self._names.items() if number > noted}

    def write_for(self, topic_name: str) -> None:
        """Write the checkpoints, if they name such a topic, before it is created. Raises StorageError; then it must not be created."""
        if topic_name in self._names:
            self._write()
            self._names = {}

    def _write(self) -> None:
        for write in self._writes:
            write()
