"""How much of one log would survive a power failure: full segments and the active one, synced in the order in which they were written.

It decides what must be synced; the caller decides when (`flush.messages`, `flush.ms`). One thread owns it, like the log;
`Flush.run` and `sync_rolled` may run on another one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

from ottla.log.checkpoints import LEADER_EPOCHS_FILE, LOG_SUFFIX, METADATA_FILE, SNAPSHOT_SUFFIX, file_name
from ottla.log.file_system import Files
from ottla.log.segment import Segment
from ottla.protocol.errors import NotAccessible, StorageError


class Rolled(NamedTuple):
    """A segment that must be synced; then a snapshot may say that all below `snapshot_offset` is durable."""

    segment: Segment
    snapshot_offset: int
    snapshot: bytes | None


class Flush:
    """One run of making a log's end durable: everything below `end_offset` is once `run` has returned."""

    __slots__ = ("_durability", "_path", "end_offset")

    def __init__(self, durability: "Durability", path: str, end_offset: int) -> None:
        self._durability = durability
        self._path = path
        self.end_offset = end_offset

    def run(self) -> None:
        """Sync the full segments that wait for it, then the active one, then the names of its files. May raise StorageError."""
        self._durability.sync_to(self._path, self.end_offset)


class Durability:
    """`offset`: all below is durable. `broken`: why nothing more can be promised, after a failed sync."""

    __slots__ = (
        "_directory",
        "_files",
        "_flush",
        "_is_gone",
        "_named",
        "_names",
        "_names_lock",
        "_rolled",
        "_rolled_lock",
        "broken",
        "offset",
    )

    def __init__(self, files: Files, directory: str, *, offset: int, undurable: Sequence[Segment]) -> None:
        self._files = files
        self._directory = directory
        self.offset = offset
        self.broken: str | None = None
        self._rolled = [Rolled(segment, 0, None) for segment in undurable]
        self._rolled_lock = Lock()  # one thread at a time syncs full segments
        self._flush: Flush | None = None
        # How often files got names that a directory must be synced for, and up to which of them it was.
        self._names, self._named = 1, 0
        # Held while something is written under the directory's name, and while the directory loses it: the next topic may have it then.
        self._names_lock = Lock()
        self._is_gone = False

    def check(self) -> None:
        """StorageError when the log takes no more records."""
        if self.broken is not None:
            raise StorageError(self.broken)

    def names_changed(self) -> None:
        """A file was made or renamed: the next flush syncs the directory, too."""
        self._names += 1

    @contextmanager
    def ending(self) -> Iterator[None]:
        """The directory is removed in here: syncs that are under way end without an error, and write nothing more."""
        with self._names_lock:
            self._is_gone = True
            yield

    # --- full segments

    @property
    def rolled_segments(self) -> int:
        return len(self._rolled)

    @property
    def rolled_from(self) -> int | None:
        """Where the first full segment begins that waits to be synced."""
        rolled = self._rolled[:1]
        return rolled[0].segment.base_offset if rolled else None

    def rolled(self, segment: Segment, end_offset: int, snapshot: bytes) -> None:
        """A segment is full and must become durable."""
        self._rolled.append(Rolled(segment, end_offset, snapshot))

    def sync_rolled(self) -> None:
        """Make full segments durable and write the snapshots that say so, oldest first. Any thread may do it.

        Raises StorageError; a snapshot that could not be written leaves its segment waiting, to be tried again.
        """
        with self._rolled_lock:
            while self._rolled and not self._is_gone:
                segment, snapshot_offset, snapshot = self._rolled[0]
                with self._stopping():
                    segment.sync_all()
                if snapshot is not None and not self._is_gone:
                    self.write_snapshot(snapshot_offset, snapshot)
                    self._sync_names()
                    self.offset = max(self.offset, snapshot_offset)
                del self._rolled[0]

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """A sync that fails in here ends the log, unless it was not even tried, or the log is gone."""
        try:
            yield
        except StorageError as error:
            if self._is_gone:
                return
            if not isinstance(error, NotAccessible):
                self.stop_after_failed_sync(error)
            raise

    def _sync_names(self) -> None:
        """Make durable which files there are: what is left must be found after a crash before anything else may go."""
        with self._names_lock, self._stopping():
            names = self._names
            if self._named < names and not self._is_gone:
                for path in (f"{self._directory}/{name}" for name in (LEADER_EPOCHS_FILE, METADATA_FILE)):
                    if self._files.exists(path):
                        self._files.sync(path)
                self._files.sync_directory(self._directory)
                self._files.sync_directory("")
                self._named = names

    def write_snapshot(self, offset: int, snapshot: bytes) -> None:
        """Write, durably, the producers as they are at `offset`, below which everything is durable."""
        with self._names_lock:
            if not self._is_gone:
                self._files.replace(f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}", snapshot)

    # --- the active segment

    def begin(self, active: Segment, end_offset: int) -> Flush | None:
        """What must be synced now; None when there is nothing, or a flush is under way."""
        self.check()
        if self._flush is not None or self.offset >= end_offset:
            return None
        self._flush = Flush(self, active.file(LOG_SUFFIX), end_offset)
        return self._flush

    def sync_to(self, path: str, end_offset: int) -> None:
        """Make everything below `end_offset` durable, which lies in full segments and in `path`. Any thread may do it."""
        self.sync_rolled()
        try:
            self._files.sync(path)
        except StorageError:
            # It may have been filled, synced and deleted meanwhile.
            if self.offset < end_offset and not self._is_gone:
                raise
        self._sync_names()

    def finish(self, flush: Flush, error: StorageError | None) -> bool:
        """After `flush.run()`; whether what it covered is durable now. With an error the log is ended, if a sync was tried."""
        if flush is not self._flush:
            return False  # the log was closed or deleted meanwhile
        self._flush = None
        if error is not None:
            if not isinstance(error, NotAccessible):
                self.stop_after_failed_sync(error)
            return False
        self.offset = max(self.offset, flush.end_offset)
        return True

    def forget_flush(self) -> None:
        """Ignore the result of the flush under way: the next one covers what it covers."""
        self._flush = None

    def stop_after_failed_sync(self, error: StorageError) -> None:
        """What a failed sync leaves on the disk is unknown, and the next sync may succeed without writing it."""
        self.broken = f"the log {self._directory} takes no more records: it could not be synced ({error})"
