"""How much of one log would survive a power failure: full segments and the active one, synced in the order in which they were written.

It decides what must be synced, never when; that is `flush.messages`, `flush.ms` and the caller's. One thread owns it, like the log;
`Flush.run` and `sync_rolled` may run on another one.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

from ottla.core.errors import StorageError
from ottla.storage.checkpoints import LEADER_EPOCHS_FILE, METADATA_FILE
from ottla.storage.files import Files
from ottla.storage.producer_state import SNAPSHOT_SUFFIX
from ottla.storage.segment import LOG_SUFFIX, Segment, file_name


class Rolled(NamedTuple):
    """A segment that must be synced; then a snapshot may say that all below `snapshot_offset` is durable."""

    segment: Segment
    snapshot_offset: int
    snapshot: bytes | None


class Flush:
    """One run of making a log's end durable: everything below `end_offset` is once `run` has returned."""

    __slots__ = ("_directories", "_files", "_paths", "_sync_rolled", "end_offset", "names")

    def __init__(
        self, files: Files, sync_rolled: Callable[[], None], paths: Sequence[str], directories: Sequence[str], end_offset: int, names: int
    ) -> None:
        self._files = files
        self._sync_rolled = sync_rolled
        self._paths = paths
        self._directories = directories
        self.end_offset = end_offset
        self.names = names

    def run(self) -> None:
        """Sync the full segments that wait for it, then the active one, then the names of its files. May raise StorageError."""
        self._sync_rolled()
        for path in self._paths:
            self._files.sync(path)
        for directory in self._directories:
            self._files.sync_directory(directory)


class Durability:
    """`offset`: all below is durable. `broken`: why nothing more can be promised, after a failed sync.

    `lock` is held while a full segment is being synced: who takes the directory away holds it, too.
    """

    __slots__ = ("_directory", "_files", "_flush", "_named", "_names", "_rolled", "broken", "lock", "offset")

    def __init__(self, files: Files, directory: str, *, offset: int, undurable: Sequence[Segment]) -> None:
        self._files = files
        self._directory = directory
        self.offset = offset
        self.broken: str | None = None
        self.lock = Lock()
        self._rolled = [Rolled(segment, 0, None) for segment in undurable]
        self._flush: Flush | None = None
        # How often files got names that a directory must be synced for, and up to which of them it was.
        self._names, self._named = 1, 0

    def check(self) -> None:
        """StorageError when the log takes no more records."""
        if self.broken is not None:
            raise StorageError(self.broken)

    def names_changed(self) -> None:
        """A file was made or renamed: the next flush syncs the directory, too."""
        self._names += 1

    @property
    def rolled_segments(self) -> int:
        return len(self._rolled)

    def rolled(self, segment: Segment, end_offset: int, snapshot: bytes) -> None:
        """A segment is full and must become durable."""
        self._rolled.append(Rolled(segment, end_offset, snapshot))

    def sync_rolled(self) -> None:
        """Make full segments durable and write the snapshots that say so, oldest first. Any thread may do it."""
        while self._rolled:
            with self.lock:
                if not self._rolled:
                    return
                segment, snapshot_offset, snapshot = self._rolled[0]
                try:
                    segment.sync_all()
                    if snapshot is not None:
                        self.write_snapshot(snapshot_offset, snapshot)
                        self.sync_names()
                        self.offset = max(self.offset, snapshot_offset)
                except StorageError as error:
                    self.stop_after_failed_sync(error)
                    raise
                del self._rolled[0]

    def sync_names(self) -> None:
        """Make durable which files there are: what is left must be found after a crash before anything else may go."""
        names = self._names
        if self._named < names:
            for path in self._small_files():
                self._files.sync(path)
            self._files.sync_directory(self._directory)
            self._files.sync_directory("")
            self._named = max(self._named, names)

    def _small_files(self) -> list[str]:
        paths = [f"{self._directory}/{name}" for name in (LEADER_EPOCHS_FILE, METADATA_FILE)]
        return [path for path in paths if self._files.exists(path)]

    def begin(self, active: Segment, end_offset: int) -> Flush | None:
        """What must be synced now; None when there is nothing, or a flush is under way."""
        self.check()
        if self._flush is not None or self.offset >= end_offset:
            return None
        paths: list[str] = [active.file(LOG_SUFFIX)]
        directories: list[str] = []
        if self._named < self._names:
            paths += self._small_files()
            directories = [self._directory, ""]
        self._flush = Flush(self._files, self.sync_rolled, paths, directories, end_offset, self._names)
        return self._flush

    def finish(self, flush: Flush, error: StorageError | None) -> bool:
        """After `flush.run()`; whether what it covered is durable now."""
        if flush is not self._flush:
            return False  # the log was deleted meanwhile
        self._flush = None
        if error is not None:
            self.stop_after_failed_sync(error)
            return False
        self._named = max(self._named, flush.names)
        self.offset = max(self.offset, flush.end_offset)
        return True

    def stop_after_failed_sync(self, error: StorageError) -> None:
        """What a failed sync leaves on the disk is unknown, and asking again may say yes without doing it."""
        self.broken = f"the log {self._directory} takes no more records: it could not be synced ({error})"

    def write_snapshot(self, offset: int, snapshot: bytes) -> None:
        """Write, durably, the producers as they are at `offset`, below which everything is durable."""
        self._files.replace(f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}", snapshot)
