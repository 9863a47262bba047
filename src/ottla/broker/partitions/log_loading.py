"""Opening the logs of a data directory: which partitions it holds, by its directories' names, and the log of one of them.

It also says which partitions the checkpoints know and the disk has lost. A log may be opened in any thread: no other thread sees it before
it is handed over. A directory that an earlier topic of the same name left behind is renamed first.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid4

from ottla.broker.partitions.offset_checkpoints import OffsetCheckpoints
from ottla.log.checkpoints import METADATA_FILE, decode_partition_metadata, encode_partition_metadata
from ottla.log.file_system import Files
from ottla.log.partition_log import PartitionLog
from ottla.log.recovery import Loss, Opened
from ottla.log.settings import LogSettings
from ottla.metadata.topics import Topic
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

log = logging.getLogger(__name__)

_NAMED_MAX: Final = 10


class FoundPartitions(NamedTuple):
    """`partitions` of present topics; `unknown`: directories of none. `names`: of both, since a topic of that name may be created later."""

    partitions: list[tuple[Topic, int]]
    unknown: list[str]
    names: set[TopicPartition]


def find_partitions(directories: Iterable[str], topics: Mapping[str, Topic]) -> FoundPartitions:
    """The partitions among these directory names (`<topic>-<number>`)."""
    found = FoundPartitions([], [], set())
    for directory in directories:
        topic_name, _, number = directory.rpartition("-")
        topic = topics.get(topic_name)
        if topic is not None and number.isdecimal() and int(number) < len(topic.leaders):
            found.partitions.append((topic, int(number)))
        else:
            found.unknown.append(directory)
        if number.isdecimal():
            found.names.add(TopicPartition(topic_name, int(number)))
    return found


def log_missing(checkpoints: OffsetCheckpoints, topics: Mapping[str, Topic], names: set[TopicPartition]) -> None:
    """Log which partitions of present topics had durable records and have no directory: most are opened much later, or never.

    They are added to `names`, the partitions that have files.
    """
    without_files = sorted(checkpoints.names() - names)
    missing = [name for name in without_files if name.topic in topics and checkpoints.holds_records(name)]
    names.update(name for name in without_files if name.topic in topics)
    if missing:
        some = ", ".join(f"{topic}-{number}" for topic, number in missing[:_NAMED_MAX]) + (", ..." if len(missing) > _NAMED_MAX else "")
        log.error("%d partitions had records at the last checkpoint, and their directories are gone: %s", len(missing), some)


T = TypeVar("T")

STRAY_DIRECTORY_SUFFIX: Final = "-stray"
_NAME_BYTES_MAX: Final = 255


class Loaded(NamedTuple):
    """A log that is not in use yet, and how it was found."""

    log: PartitionLog
    opened: Opened


@dataclass(frozen=True, slots=True)
class Borrowed(Generic[T]):
    """What the borrower of a log returned. `is_changed`: closing the log again would not leave the directory as it was."""

    loaded: Loaded
    result: T
    is_changed: bool


class LogLoader:
    """Opens logs. Any thread may; one at a time for a directory."""

    def __init__(self, files: Files, clock: Callable[[], int], checkpoints: OffsetCheckpoints) -> None:
        self._files = files
        self._clock = clock
        self._checkpoints = checkpoints
        self._losses: dict[TopicPartition, tuple[Loss, ...]] = {}
        self.found: set[tuple[bytes, int]] = set()
        """Topic id and number of the partitions whose directories the start found: a missing one is not made again."""

    def new(self, topic: Topic, number: int, settings: LogSettings) -> PartitionLog:
        """The log of a partition that has no directory yet; the disk is not read. Raises StorageError when the data directory is gone."""
        self._files.check_root()
        directory, topic_id = f"{topic.name}-{number}", UUID(bytes=topic.topic_id)
        return PartitionLog(self._files, directory, settings, topic_id=topic_id, leader_epoch=topic.leader_epochs[number])

    def load(self, topic: Topic, number: int, settings: LogSettings) -> Loaded:
        """The log as its directory has it. Raises StorageError. `settings` are looked up by the caller, on the loop."""
        name = TopicPartition(topic.name, number)
        partition_log = self.new(topic, number, settings)
        if self._files.identity(partition_log.directory) is not None:
            self._rename_stray(name, partition_log.directory, topic)
        elif (topic.topic_id, number) in self.found:
            raise StorageError(f"{partition_log.directory} is gone: another program deleted or moved it; start the broker again")
        opened = partition_log.open(
            self._clock(),
            log_start_offset=self._checkpoints.log_start(name),
            recovery_point=self._checkpoints.recovery_point(name),
            high_watermark=self._checkpoints.high_watermark(name),
        )
        self._log_losses(name, opened)
        return Loaded(partition_log, opened)

    def forget(self, names: Iterable[TopicPartition]) -> None:
        """Their topic was deleted."""
        for name in names:
            self._losses.pop(name, None)

    def _log_losses(self, name: TopicPartition, opened: Opened) -> None:
        """Log each loss once: retention opens logs that are not in use repeatedly."""
        if self._losses.get(name, ()) != opened.losses:
            self._losses[name] = opened.losses
            for loss in opened.losses:
                log.log(logging.ERROR if loss.was_durable else logging.WARNING, "%s-%d: %s", *name, loss.sentence)

    def lend(self, topic: Topic, number: int, settings: LogSettings, use: Callable[[PartitionLog], T]) -> Borrowed[T]:
        """What `use` returns for the log. Raises StorageError, also what `use` raises; the files are closed in any case."""
        loaded = self.load(topic, number, settings)
        own, start_offset = loaded.log, loaded.log.log_start_offset
        try:
            result = use(own)
        finally:
            own.close(clean=False)
        is_changed = not loaded.opened.clean or own.log_start_offset != start_offset or own.rolled_segments > 0
        return Borrowed(loaded, result, is_changed)

    def _rename_stray(self, name: TopicPartition, directory: str, topic: Topic) -> None:
        """Rename, as Kafka does, what an earlier topic of the same name left behind (a crash while it was deleted)."""
        metadata, topic_id = f"{directory}/{METADATA_FILE}", UUID(bytes=topic.topic_id)
        found = decode_partition_metadata(self._files.read_all(metadata)) if self._files.exists(metadata) else None
        # Torn by a power failure, or never written.
        if found is None and not (topic.is_recreated and self._may_be_of_earlier_topic(name, directory)):
            self._files.replace(metadata, encode_partition_metadata(topic_id))
        elif found != topic_id:
            stray = renamed_directory(directory, STRAY_DIRECTORY_SUFFIX)
            self.found.discard((topic.topic_id, name.partition))
            self._files.rename_directory(directory, stray)
            self._files.sync_directory("")
            if self._checkpoints.forget((name,)):
                self._checkpoints.write()
            whose = "does not say of which topic it is" if found is None else "belongs to an earlier topic of that name"
            log.warning("%s %s: it is kept as %s, and nothing reads it", directory, whose, stray)

    def _may_be_of_earlier_topic(self, name: TopicPartition, directory: str) -> bool:
        """Whether a directory without a readable `partition.metadata` may hold what was left of a deleted topic.

        The first sync of a log makes that file durable, too. Without a sync both the records and the file may be lost in a power failure,
        and with the file, whose the records are. A synced log of the present topic is in the checkpoint.
        """
        is_known = bool(self._checkpoints.recovery_point(name))
        return not is_known and any(file != METADATA_FILE for file in self._files.list(directory))


def renamed_directory(directory: str, suffix: str) -> str:
    """Kafka's name for a directory that is renamed. A long topic name is cut so that it stays a file name; the partition number is kept,
    because Apache Kafka does not start on a directory whose name has none."""
    topic, _, number = directory.rpartition("-")
    ending = f"-{number}.{uuid4().hex}{suffix}"
    return topic[: _NAME_BYTES_MAX - len(ending)] + ending
