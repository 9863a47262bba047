"""One partition's log: append whole batches, read whole batches, and find them again after a restart.

It decides which offset a batch gets, whether a producer repeats itself, and when a new segment begins. It never looks at single records on
the way in or out, and it never acknowledges: an append that returned has been handed to the operating system, and survives the end of this
process; only `flush` makes it survive a power failure. One thread uses a log; `sync_rolled` alone may run on another one.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple
from uuid import UUID

from ottla.core.errors import ErrorCode, PeerError, StorageError
from ottla.core.model import Record
from ottla.core.records.batch import (
    HEADER,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    crc_is_valid,
    encode_batch,
    seal,
    split_batches,
)
from ottla.storage.checkpoints import (
    LEADER_EPOCHS_FILE,
    METADATA_FILE,
    EpochStart,
    encode_leader_epochs,
    encode_partition_metadata,
)
from ottla.storage.files import Files
from ottla.storage.producer_state import SNAPSHOT_SUFFIX, ProducerBatch
from ottla.storage.recovery import Recovered, recover
from ottla.storage.segment import RELATIVE_OFFSET_MAX, Segment, file_name
from ottla.storage.segments import Segments
from ottla.storage.settings import LogSettings
from ottla.storage.validation import Appended, Refused, read_client_batch, refusal

__all__ = ["Appended", "LogSettings", "Opened", "PartitionLog", "Refused"]

_NO_EPOCH: Final = -1
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


class Opened(NamedTuple):
    """How a log was found: closed in order or not, its end, and how many bytes were torn (or behind something torn) and cut."""

    clean: bool
    end_offset: int
    bytes_cut: int


class _Rolled(NamedTuple):
    """A segment that must be synced; then a snapshot may say that all below `snapshot_offset` is durable."""

    segment: Segment
    snapshot_offset: int
    snapshot: bytes | None


class PartitionLog:
    """The batches of one partition in `directory` (Kafka's `<topic>-<partition>`), made with the first append.

    `settings` may be replaced at any time. `leader_epoch` is written into each batch and only rises. Every method may raise StorageError;
    after a failed write or sync that could not be undone, appends are refused until the log is opened anew.
    """

    __slots__ = (
        "_broken",
        "_directory",
        "_durable_offset",
        "_end_offset",
        "_epoch",
        "_epochs",
        "_files",
        "_is_listed",
        "_producers",
        "_rolled",
        "_segments",
        "_snapshot_offset",
        "_sync_lock",
        "settings",
        "topic_id",
    )

    def __init__(self, files: Files, directory: str, settings: LogSettings, *, topic_id: UUID | None = None, leader_epoch: int = 0) -> None:
        self._files = files
        self._directory = directory
        self.settings = settings
        self.topic_id = topic_id
        self._epoch = leader_epoch
        self._sync_lock = Lock()
        self._set(Recovered())

    def _set(self, found: Recovered) -> None:
        self._segments = Segments(found.segments)
        self._end_offset = found.end_offset
        self._producers = found.producers
        self._epochs = found.epochs
        if found.epochs:
            self._epoch = max(self._epoch, found.epochs[-1].epoch)
        self._rolled = [_Rolled(segment, 0, None) for segment in found.undurable]
        # All below is durable, as far as we know; and the newest snapshot on disk, if it is at the end of the log.
        self._durable_offset = found.end_offset if found.clean else -1
        self._snapshot_offset = self._durable_offset
        self._is_listed = False
        self._broken: str | None = None

    # --- opening and closing

    def open(self, now_ms: int) -> Opened:
        """Find what is on disk; tells how it was found. Cheap after `close(clean=True)`, else all that may be torn is read."""
        found = recover(self._files, self._directory, self.settings, now_ms=now_ms)
        self._set(found)
        self._segments.close()
        return Opened(found.clean, found.end_offset, found.bytes_cut)

    def close(self, *, clean: bool = True) -> None:
        """Give the files back. `clean`: everything becomes durable first, and the next `open` is cheap.

        When that fails (StorageError) the files are given back all the same, and the next `open` looks for damage.
        """
        try:
            if clean and self._segments and self._snapshot_offset != self._end_offset:
                self.flush()
                active = self._segments.active
                active.write_indexes(final=True)
                active.sync_indexes()
                self._write_snapshot(self._end_offset, self._producers.encode())
                self._snapshot_offset = self._end_offset
        finally:
            self._segments.close()

    def delete(self) -> None:
        """Remove the directory with everything in it. The log is empty then, as if new."""
        with self._sync_lock:
            self._segments.close()
            if self._files.exists(self._directory):
                self._files.remove_directory(self._directory)
            self._set(Recovered())

    # --- what it is

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def log_start_offset(self) -> int:
        return self._segments.start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._end_offset

    @property
    def high_watermark(self) -> int:
        """One replica: whatever is in the log may be read."""
        return self._end_offset

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def leader_epoch(self) -> int:
        return self._epoch

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self._epoch = max(self._epoch, epoch)

    @property
    def leader_epochs(self) -> tuple[EpochStart, ...]:
        return tuple(self._epochs)

    # --- appending

    def append(self, batches: memoryview | bytearray, *, now_ms: int, from_client: bool = True) -> Appended | Refused:
        """Append a client's batch, or (not `from_client`) the broker's own whole batches; offsets are written into `batches`.

        What a client sends is checked as Kafka checks it, and a batch that its producer repeats is answered with its first offsets and not
        appended again. Raises StorageError when it cannot be written; then nothing of it is in the log.
        """
        view = memoryview(batches)
        if not from_client:
            return self._append_own(view, now_ms)
        header = read_client_batch(view)
        if isinstance(header, Refused):
            return header
        if header.size_bytes != len(view):
            view = view[: header.size_bytes]
        refused = refusal(header, view, self.settings, now_ms)
        if refused is not None:
            return refused
        if header.producer_id >= 0:
            known = self._producers.check(header)
            if isinstance(known, ProducerBatch):
                return Appended(known.first_offset, known.last_offset, known.timestamp_ms, self.log_start_offset)
            if known is not None:
                return Refused(known.error, known.message)
        return self._store(view, [header], now_ms)

    def append_records(self, records: Sequence[Record], *, now_ms: int) -> Appended:
        """Append records of the broker's own topics as one batch, with their own timestamps; their offsets are assigned here."""
        numbered = [record._replace(offset=number) for number, record in enumerate(records)]
        batch = encode_batch(numbered)
        return self._store(memoryview(batch), [next(header for _, header in split_batches(batch))], now_ms)

    def _append_own(self, view: memoryview, now_ms: int) -> Appended | Refused:
        try:
            found = list(split_batches(view))
        except PeerError as error:
            return Refused(ErrorCode.CORRUPT_MESSAGE, str(error))
        if not found or sum(header.size_bytes for _, header in found) != len(view):
            return Refused(ErrorCode.CORRUPT_MESSAGE, f"{len(view)} bytes are no whole record batches")
        for at, header in found:
            if not crc_is_valid(view, at, header.size_bytes):
                return Refused(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt (stored crc = {header.crc})")
        return self._store(view, [header for _, header in found], now_ms)

    def _store(self, view: memoryview, headers: list[BatchHeader], now_ms: int) -> Appended:
        """Give whole, judged batches their offsets, write them in one call, and only then count them."""
        if self._broken is not None:
            raise StorageError(self._broken)
        first = self._end_offset
        stored = self._assign(view, headers, now_ms)
        end = stored[-1].next_offset
        active = self._segment_for(stored[0], end, len(view), now_ms)
        try:
            active.append(view)
        except StorageError as error:
            self._undo(active, error)
            raise
        for header in stored:
            active.note(header.last_offset, header.max_timestamp_ms, header.size_bytes)
            if header.producer_id >= 0:
                self._producers.note(header)
        self._end_offset = end
        if end - self._durable_offset >= self.settings.flush_messages:
            self.flush()
        return Appended(first, end - 1, now_ms if self.settings.is_log_append_time else -1, self._segments.start_offset)

    def _assign(self, view: memoryview, headers: list[BatchHeader], now_ms: int) -> list[BatchHeader]:
        """Write base offset and leader epoch (both outside the checksum) into the bytes, and the topic's kind of timestamp."""
        at, offset, epoch, is_broker_time, stored = 0, self._end_offset, self._epoch, self.settings.is_log_append_time, []
        for header in headers:
            _INT64.pack_into(view, at, offset)
            _INT32.pack_into(view, at + LEADER_EPOCH_AT, epoch)
            header = header._replace(base_offset=offset, leader_epoch=epoch)
            if is_broker_time or header.is_log_append_time:
                attributes = header.attributes & ~LOG_APPEND_TIME_BIT | is_broker_time * LOG_APPEND_TIME_BIT
                header = header._replace(attributes=attributes, max_timestamp_ms=now_ms if is_broker_time else header.max_timestamp_ms)
                HEADER.pack_into(view, at, *header)
                seal(view[at : at + header.size_bytes])
            stored.append(header)
            at += header.size_bytes
            offset = header.next_offset
        return stored

    def _undo(self, active: Segment, cause: StorageError) -> None:
        """After a failed write: cut what may have been written of it."""
        try:
            active.truncate(active.size)
        except StorageError as error:
            self._broken = f"the log {self._directory} takes no more records: a write failed ({cause}) and could not be undone ({error})"

    def _segment_for(self, first: BatchHeader, end: int, size: int, now_ms: int) -> Segment:
        """The segment that takes the next `size` bytes, made or rolled when need be."""
        if self._epoch != (self._epochs[-1].epoch if self._epochs else _NO_EPOCH):
            self._begin_epoch()
        if not self._segments:
            return self._begin_segment(now_ms)
        active = self._segments.active
        settings = self.settings
        if active.size and (
            active.size + size > settings.segment_bytes
            or end - 1 - active.base_offset > RELATIVE_OFFSET_MAX
            or active.indexes_are_full(settings.segment_index_bytes)
            or self._is_old(active, first.max_timestamp_ms, now_ms)
        ):
            return self._begin_segment(now_ms)
        return active

    def _is_old(self, active: Segment, timestamp_ms: int, now_ms: int) -> bool:
        """Kafka's rule: age runs in the batches' own time where they have one, else since the segment was made."""
        began_ms = active.first_timestamp_ms()
        if began_ms is None or began_ms < 0:
            return now_ms - active.made_ms > self.settings.segment_ms
        return timestamp_ms - began_ms > self.settings.segment_ms

    def _begin_epoch(self) -> None:
        if not self._epochs:
            self._files.make_directory(self._directory)
            metadata = f"{self._directory}/{METADATA_FILE}"
            if self.topic_id is not None and not self._files.exists(metadata):
                self._files.replace(metadata, encode_partition_metadata(self.topic_id), sync=False)
        epochs = [*self._epochs, EpochStart(self._epoch, self._end_offset)]
        self._files.replace(f"{self._directory}/{LEADER_EPOCHS_FILE}", encode_leader_epochs(epochs), sync=False)
        self._epochs = epochs
        self._is_listed = False

    def _begin_segment(self, now_ms: int) -> Segment:
        base = self._end_offset
        segment = Segment(self._files, self._directory, base, index_interval_bytes=self.settings.index_interval_bytes, made_ms=now_ms)
        rolled = self._segments.active if self._segments else None
        if rolled is not None:
            rolled.write_indexes(final=True)
        # The new files come last: once they are there, batches must go nowhere else.
        segment.create()
        self._segments.add(segment)
        self._is_listed = False
        if rolled is not None:
            self._rolled.append(_Rolled(rolled, base, self._producers.encode()))
        return segment

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have been silent for producer.id.expiration.ms; how many."""
        return self._producers.expire(now_ms=now_ms, after_ms=self.settings.producer_id_expiration_ms)

    # --- durability

    def flush(self) -> None:
        """Return when all that was appended would survive a power failure."""
        if self._broken is not None:
            raise StorageError(self._broken)
        if not self._segments or self._durable_offset == self._end_offset:
            return
        self.sync_rolled()
        try:
            self._segments.active.sync()
            if not self._is_listed:
                self._files.sync(f"{self._directory}/{LEADER_EPOCHS_FILE}")
                self._files.sync_directory(self._directory)
                self._files.sync_directory("")
                self._is_listed = True
        except StorageError as error:
            self._stop_after_failed_sync(error)
            raise
        self._durable_offset = self._end_offset

    @property
    def rolled_segments(self) -> int:
        """How many full segments wait for `sync_rolled`."""
        return len(self._rolled)

    def sync_rolled(self) -> None:
        """Make full segments durable and write the snapshot that says so, oldest first. May run on another thread than the log."""
        while self._rolled:
            with self._sync_lock:
                if not self._rolled:
                    return
                segment, snapshot_offset, snapshot = self._rolled[0]
                try:
                    segment.sync_all()
                    if snapshot is not None:
                        self._write_snapshot(snapshot_offset, snapshot)
                except StorageError as error:
                    self._stop_after_failed_sync(error)
                    raise
                del self._rolled[0]

    def _stop_after_failed_sync(self, error: StorageError) -> None:
        """What a failed sync leaves on the disk is unknown, and asking again may say yes without doing it."""
        self._broken = f"the log {self._directory} takes no more records: it could not be synced ({error})"

    def _write_snapshot(self, offset: int, snapshot: bytes) -> None:
        self._files.replace(f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}", snapshot)

    # --- reading

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes | None:
        """Whole batches from the one that holds `offset` on, at most `max_bytes` of them, out of one segment.

        The first batch comes whole even when it is larger (unless not `at_least_one`). Empty at the end of the log; None outside of it.
        """
        if offset >= self._end_offset:
            return b"" if offset == self._end_offset else None
        if offset < self.log_start_offset:
            return None
        return self._segments.read(offset, max_bytes, at_least_one=at_least_one)

    def read_batches(self, from_offset: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Each batch from the one that holds `from_offset` on, decoded; StorageError where one is damaged."""
        return self._segments.read_batches(from_offset)

    def scan(self, from_offset: int) -> Iterator[Record]:
        """Each data record from `from_offset` on."""
        for header, records in self.read_batches(from_offset):
            if not header.is_control:
                yield from (record for record in records if record.offset >= from_offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record that is as late as `timestamp_ms` or later; None when there is none."""
        return self._segments.offset_for_timestamp(timestamp_ms)

    def max_timestamp(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record with the largest timestamp; None when no record has one."""
        return self._segments.max_timestamp()
