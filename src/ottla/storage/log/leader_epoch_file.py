"""A log's leader epochs with their file `leader-epoch-checkpoint`, and the directory that the first epoch makes.

The file is replaced with each change. As Kafka's LeaderEpochFileCache.
"""

from uuid import UUID

from ottla.storage.checkpoints import LEADER_EPOCHS_FILE, METADATA_FILE, EpochStart, encode_leader_epochs, encode_partition_metadata
from ottla.storage.file_system import Files
from ottla.storage.log.durability import Durability
from ottla.storage.log.leader_epochs import LeaderEpochs


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
