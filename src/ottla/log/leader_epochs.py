"""A partition's leader epochs, and their file `leader-epoch-checkpoint`. As Kafka's LeaderEpochFileCache.

Which epoch writes now, and where each began (KIP-101, KIP-279). The file is replaced with each change; the first epoch makes the directory.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from ottla.log.checkpoints import LEADER_EPOCHS_FILE, METADATA_FILE, EpochStart, encode_leader_epochs, encode_partition_metadata
from ottla.log.durability import Durability
from ottla.log.file_system import Files

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class EpochEnd(NamedTuple):
    """The largest known epoch up to the one asked for, and the offset where the next one began; -1 and -1 when that is not known."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """`current` is written into each batch and only rises; `starts` are the epochs that have batches, oldest first."""

    __slots__ = ("current", "starts")

    def __init__(self, starts: Sequence[EpochStart] = (), *, current: int = 0) -> None:
        self.starts = list(starts)
        self.current = max(current, self.latest)

    @property
    def latest(self) -> int:
        """The epoch of the last batch; -1 without one."""
        return self.starts[-1].epoch if self.starts else NO_EPOCH

    def after_start(self, log_start_offset: int) -> list[EpochStart]:
        """`starts` without what lies wholly below the log's start; the epoch that holds it begins there."""
        above = [start for start in self.starts if start.start_offset > log_start_offset]
        holding = [start for start in self.starts if start.start_offset <= log_start_offset]
        return [holding[-1]._replace(start_offset=log_start_offset), *above] if holding else above

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where `epoch` ended, for a reader that wonders whether it has read what is gone (OffsetForLeaderEpoch)."""
        starts = self.starts if self.latest == self.current else [*self.starts, EpochStart(self.current, log_end_offset)]
        if epoch == NO_EPOCH or epoch > starts[-1].epoch:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == starts[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        known = [start.epoch for start in starts if start.epoch <= epoch]
        following = next(start for start in starts if start.epoch > epoch)
        return EpochEnd(known[-1] if known else epoch, following.start_offset)


class LeaderEpochFile:
    """The methods raise StorageError, and leave `epochs` as they were then."""

    __slots__ = ("_directory", "_durability", "_files", "epochs")

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs, *, durability: Durability) -> None:
        self._files = files
        self._directory = directory
        self._durability = durability
        self.epochs = epochs

    def begin_current(self, start_offset: int, topic_id: UUID | None) -> None:
        """The current epoch's first batch comes at `start_offset`. With the log's first epoch, make the log's directory."""
        epochs = self.epochs
        if not epochs.starts:
            make_directory(self._files, self._directory, topic_id)
        self._write([*epochs.starts, EpochStart(epochs.current, start_offset)])

    def raise_start(self, log_start_offset: int) -> None:
        """The log begins at `log_start_offset` now: epochs that ended before it are forgotten."""
        starts = self.epochs.after_start(log_start_offset)
        if starts != self.epochs.starts:
            self._write(starts)

    def _write(self, starts: list[EpochStart]) -> None:
        self._files.replace(f"{self._directory}/{LEADER_EPOCHS_FILE}", encode_leader_epochs(starts), sync=False)
        self.epochs.starts = starts
        self._durability.names_changed()


def make_directory(files: Files, directory: str, topic_id: UUID | None) -> None:
    """Make a partition's directory, and `partition.metadata` in it, where they are missing. Raises StorageError.

    A log does this with its first record, and never again while it is open: if the directory is missing then, another program deleted it.
    """
    files.make_directory(directory)
    metadata = f"{directory}/{METADATA_FILE}"
    if topic_id is not None and not files.exists(metadata):
        files.replace(metadata, encode_partition_metadata(topic_id), sync=False)
