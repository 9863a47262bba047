"""One partition's log: append whole batches, read whole batches, and find them again after a restart.

It assigns offsets and knows what may be read. Its parts do the rest: Segments (which file holds an offset), SegmentRoller (new segments),
TransactionState (duplicates and transactions), LeaderEpochFile, Durability (syncs), LogRetention and SegmentReplacement. It reads no
single record (`client_batch` does, where a topic asks for it), and it acknowledges nothing: an append that returned has been handed to the
system and survives the end of this process; only a flush makes it survive a power failure. As Kafka's UnifiedLog.
One thread owns a log, unless a method says otherwise.
"""

from collections.abc import Iterator, Sequence
from typing import Unpack
from uuid import UUID

from ottla.log.append import Accepted, Appended, LogRefusal, UnreadBatch, accept, assign, own_batches
from ottla.log.checkpoints import LOG_SUFFIX, EpochStart
from ottla.log.durability import Durability, Flush
from ottla.log.file_system import Buffer, Files, LogFileChanged, LogFileDamaged
from ottla.log.index import AbortedTransaction
from ottla.log.leader_epochs import EpochEnd, LeaderEpochFile, LeaderEpochs
from ottla.log.log_reading import LogReading, LogSnapshot
from ottla.log.producer_state import ProducerBatch, ProducerStates
from ottla.log.recovery import Known, Opened, Recovered, recover
from ottla.log.segments import LogRetention, SegmentReplacement, SegmentRoller, Segments
from ottla.log.settings import LogSettings
from ottla.log.timestamp_lookup import TimestampLookup
from ottla.log.transaction_state import TransactionState
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import HEADER, TRANSACTIONAL_BIT, BatchHeader, encode_batch, frame_batch, read_header, seal, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import EndMarker, encode_end_marker


class PartitionLog:
    """The batches of one partition in `directory` (Kafka's `<topic>-<partition>`), which is made with the first append.

    `settings` may be replaced at any time. `leader_epoch` is written into each batch and only rises. Every method may raise StorageError;
    after a failed sync, or a write that failed and could not be undone, appends are refused until the log is opened again (`failure`).
    """

    __slots__ = (
        "_dirty_since_ms", "_durability", "_end_offset", "_epoch_file", "_epochs", "_files", "_high_watermark", "_is_closed",
        "_last_append_ms", "_last_failure", "_producers", "_roller", "_segments", "_start_offset", "_transactions", "directory", "settings",
        "topic_id",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str, settings: LogSettings, *, topic_id: UUID | None = None, leader_epoch: int = 0) -> None:
        self._files = files
        self.directory = directory
        self.settings = settings
        self.topic_id = topic_id
        self._epochs = LeaderEpochs(current=leader_epoch)
        self._set(Recovered())

    def _set(self, found: Recovered) -> None:
        files, directory = self._files, self.directory
        self._segments = Segments(found.segments)
        self._start_offset = found.start_offset
        self._end_offset = self._high_watermark = found.end_offset
        durable_offset = found.durable_offset if found.segments else found.end_offset
        self._durability = Durability(files, directory, offset=durable_offset, undurable=found.undurable)
        self._transactions = TransactionState(
            files, directory, producers=found.producers, aborted=found.aborted, durability=self._durability
        )
        self._producers = found.producers
        self._epochs = LeaderEpochs(found.epochs, current=self._epochs.current)
        self._epoch_file = LeaderEpochFile(files, directory, self._epochs, durability=self._durability)
        self._roller = SegmentRoller(files, directory, segments=self._segments, durability=self._durability, producers=self._producers)
        self._is_closed = found.clean
        self._dirty_since_ms: int | None = None
        self._last_append_ms = 0
        self._last_failure: str | None = None

    # --- opening and closing

    def open(self, now_ms: int, **known: Unpack[Known]) -> Opened:
        """Find what is on disk, and return how it was found. Cheap after `close(clean=True)`; else all that may be torn is read.

        Any thread may open a log that is not in use yet.
        """
        found = recover(self._files, self.directory, self.settings, now_ms=now_ms, **known)
        self._set(found)
        self._segments.close()
        return Opened(found.clean, found.end_offset, found.bytes_cut, tuple(found.losses))

    def close(self, *, clean: bool = True) -> None:
        """Close the files. `clean`: everything becomes durable first, and the next `open` is cheap.

        When that fails (StorageError) the files are closed all the same, and the next `open` looks for damage.
        """
        try:
            if clean and self._segments and not self._is_closed:
                self._durability.forget_flush()
                self.flush()
                active = self._segments.active
                active.write_indexes(final=True)
                active.sync_indexes()
                self._durability.write_snapshot(self._end_offset, self._producers.encode())
                self._is_closed = True
        finally:
            self._segments.close()

    def move_away(self, new_directory: str) -> bool:
        """Rename the directory, which is removed later; whether there was one. Any thread, once the log is no longer in use."""
        with self._durability.ending(), self._segments.ending():
            if exists := self._files.exists(self.directory):
                self._files.rename_directory(self.directory, new_directory)
        self._set(Recovered())
        return exists

    # --- what it is

    @property
    def failure(self) -> str | None:
        """Why the log takes no records, as a sentence: for good after a failed sync, else until a write succeeds again."""
        return self._durability.broken or self._last_failure

    def fail(self, reason: str) -> None:
        """Take no more records, for a reason that the caller found."""
        self._durability.broken = self._durability.broken or reason

    @property
    def takes_no_more(self) -> bool:
        """Whether no write can succeed until the log is opened again."""
        return self._durability.broken is not None

    @property
    def active_file(self) -> tuple[str, int] | None:
        """The path of the file that is appended to, and the bytes that were written to it; None while there is none."""
        return (self._segments.active.file(LOG_SUFFIX), self._segments.active.size) if self._segments else None

    @property
    def log_start_offset(self) -> int:
        return self._start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._end_offset

    @property
    def high_watermark(self) -> int:
        """Offsets below it may be read: all of this one replica, but for what `flush.messages` requires on the disk first."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Offsets below it belong to no open transaction."""
        first_open = self._producers.first_open_offset
        return self._high_watermark if first_open is None else min(first_open, self._high_watermark)

    @property
    def recovery_point(self) -> int:
        """All offsets below it are durable."""
        return max(self._durability.offset, self._start_offset)

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def leader_epoch(self) -> int:
        """It only rises."""
        return self._epochs.current

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self._epochs.current = max(self._epochs.current, epoch)

    @property
    def leader_epochs(self) -> tuple[EpochStart, ...]:
        return tuple(self._epochs.starts)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ended."""
        return self._epochs.end_offset_for(epoch, self._end_offset)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that have records in the range."""
        return self._transactions.aborted.overlapping(from_offset, to_offset)

    # --- appending

    def append(self, batches: memoryview | bytearray, *, now_ms: int, from_client: bool = True) -> Appended | LogRefusal | UnreadBatch:
        """Append a client's batch, or (not `from_client`) the broker's own whole batches; offsets are written into `batches`.

        A client's is checked as Kafka checks it; one that its producer repeats is answered with its first offsets, and not appended.
        UnreadBatch: the records must be read first (`UnreadBatch.read`, on any thread), and then `append_read` called.
        """
        view = memoryview(batches)
        if not from_client:
            headers = own_batches(view)
            return headers if isinstance(headers, LogRefusal) else self._store(view, headers, now_ms)
        accepted = accept(view, self.settings, now_ms)
        return accepted if isinstance(accepted, (LogRefusal, UnreadBatch)) else self._append(accepted, now_ms)

    def append_read(self, unread: UnreadBatch, read: Accepted | LogRefusal, *, now_ms: int) -> Appended | LogRefusal | UnreadBatch:
        """Append a batch that was read; from the start again if the topic's settings have changed since."""
        if unread.settings != self.settings:
            return self.append(unread.batch, now_ms=now_ms)
        return read if isinstance(read, LogRefusal) else self._append(read, now_ms)

    def _append(self, accepted: Accepted, now_ms: int) -> Appended | LogRefusal:
        header, view = accepted
        if header.producer_id >= 0:
            known = self._producers.check(header)
            if isinstance(known, ProducerBatch):
                return Appended(known.first_offset, known.last_offset, known.timestamp_ms, self.log_start_offset)
            if known is not None:
                return LogRefusal(known.error, known.message)
        return self._store(view, [header], now_ms)

    @property
    def producers(self) -> ProducerStates:
        """What is known of each producer. Not to be changed."""
        return self._producers

    def see_unverified(self, producer_id: int, epoch: int, first_sequence: int, *, bumps_epoch: bool) -> None:
        """Note a batch that would begin a transaction here: until one does, none may be appended that would overtake it."""
        self._producers.see_unverified(producer_id, epoch, first_sequence, bumps_epoch=bumps_epoch)

    def append_marker(
        self, marker: EndMarker, *, producer_id: int, producer_epoch: int, is_bumped: bool, now_ms: int
    ) -> Appended | LogRefusal:
        """Append the end of a producer's transaction. `is_bumped`: its epoch is one above that of the transaction (KIP-890)."""
        refused = self._producers.check_marker(producer_id, producer_epoch, marker, is_bumped=is_bumped)
        if refused is not None:
            return LogRefusal(refused.error, refused.message)
        self._producers.forget_unverified(producer_id, producer_epoch, is_bumped=is_bumped)
        batch = encode_end_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms)
        return self._store(memoryview(batch), [read_header(batch)], now_ms)

    def append_transactional(
        self, section: bytes, count: int, *, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Appended | LogRefusal:
        """As `append_framed`, uncompressed, for records of a producer's transaction. They have no sequence numbers."""
        entry = self._producers.get(producer_id)
        if entry is not None and producer_epoch < entry.epoch:
            message = f"Epoch of producer {producer_id} is {producer_epoch}, which is smaller than the last seen epoch {entry.epoch}"
            return LogRefusal(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        batch, header = frame_batch(section, count, timestamp_ms=now_ms, codec=Codec.NONE)
        header = header._replace(attributes=header.attributes | TRANSACTIONAL_BIT, producer_id=producer_id, producer_epoch=producer_epoch)
        HEADER.pack_into(batch, 0, *header)
        seal(batch)
        return self._store(memoryview(batch), [read_header(batch)], now_ms)

    def append_records(self, records: Sequence[Record], *, now_ms: int, codec: Codec = Codec.NONE) -> Appended:
        """Append records of the broker's own topics as one batch, with their own timestamps; their offsets are assigned here."""
        batch = encode_batch([record._replace(offset=number) for number, record in enumerate(records)], codec=codec)
        return self._store(memoryview(batch), [next(header for _, header in split_batches(batch))], now_ms)

    def append_framed(self, section: bytes, count: int, *, now_ms: int, codec: Codec, bytes_max: int | None = None) -> Appended:
        """As `append_records`, for framed records, numbered from 0 and all of the time `now_ms`. Raises BatchTooLarge over `bytes_max`."""
        batch, header = frame_batch(section, count, timestamp_ms=now_ms, codec=codec, bytes_max=bytes_max)
        return self._store(memoryview(batch), [header], now_ms)

    def _store(self, view: memoryview, headers: list[BatchHeader], now_ms: int) -> Appended:
        """Assign offsets to whole, checked batches, write them in one call, and only then count them."""
        self._durability.check()
        first = self._end_offset
        stored = assign(view, headers, offset=first, leader_epoch=self._epochs.current, settings=self.settings, now_ms=now_ms)
        end = stored[-1].next_offset
        try:
            if self._epochs.current != self._epochs.latest:
                self._epoch_file.begin_current(first, self.topic_id)
            active = self._roller.segment_for(stored[0], end, len(view), self.settings, now_ms)
            active.append(view)
        except StorageError as error:
            self._undo(error)
            raise
        at = 0
        for header in stored:
            active.note(header.last_offset, header.max_timestamp_ms, header.size_bytes)
            if header.producer_id >= 0:
                if header.is_control:
                    self._transactions.add_control_batch(active, header, view[at : at + header.size_bytes])
                else:
                    self._producers.note(header)
            at += header.size_bytes
        self._count(first, end, now_ms)
        return Appended(first, end - 1, now_ms if self.settings.is_log_append_time else -1, self._start_offset)

    def _count(self, first: int, end: int, now_ms: int) -> None:
        """Count what was appended; it may be read at once unless it must be synced first."""
        self._last_failure = None
        self._is_closed = False
        self._last_append_ms = now_ms
        if self._dirty_since_ms is None:
            self._dirty_since_ms = now_ms
        self._end_offset = end
        if self._high_watermark == first and not self.flush_due:
            self._high_watermark = end

    def _undo(self, cause: StorageError) -> None:
        """After a failed write: cut what may have been written of it."""
        self._last_failure = str(cause)
        if isinstance(cause, LogFileChanged):
            self.fail(str(cause))
            return
        try:
            if self._segments:
                self._segments.active.truncate(self._segments.active.size)
        except StorageError as error:
            self._durability.broken = f"{self.directory} takes no more records: a write failed ({cause}) and was not undone ({error})"

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have been silent for producer.id.expiration.ms; how many."""
        return self._producers.expire(now_ms=now_ms, after_ms=self.settings.producer_id_expiration_ms)

    # --- durability

    @property
    def flush_due(self) -> bool:
        """Whether `flush.messages` wants what was appended on the disk before it is acknowledged."""
        return self._end_offset - self._durability.offset >= self.settings.flush_messages

    @property
    def dirty_since_ms(self) -> int | None:
        """When the oldest record was appended that is not known to be durable; None when all are."""
        return self._dirty_since_ms if self._durability.offset < self._end_offset else None

    def begin_flush(self) -> Flush | None:
        """What must be synced now; None when there is nothing, or a flush is under way. Follow it with `run` and `finish_flush`."""
        return self._durability.begin(self._segments.active, self._end_offset) if self._segments else None

    def finish_flush(self, flush: Flush, error: StorageError | None = None) -> None:
        """After `flush.run()`: what it covered is durable and may be read. With its `error` the log takes no more records."""
        if self._durability.finish(flush, error):
            self._dirty_since_ms = None if flush.end_offset == self._end_offset else self._last_append_ms
            self._high_watermark = flush.end_offset if self.flush_due else self._end_offset

    def flush(self) -> None:
        """Return when all that was appended would survive a power failure. Whatever keeps it from that (StorageError) ends the log."""
        if (flush := self.begin_flush()) is None:
            return
        try:
            flush.run()
        except StorageError as error:
            self.finish_flush(flush, error)
            raise
        self.finish_flush(flush)

    def check_access(self) -> None:
        """Raise StorageError where a flush could not open the file that is appended to."""
        self._durability.check()
        if self._segments:
            self._segments.active.open_log().close()

    @property
    def rolled_segments(self) -> int:
        """How many full segments wait for `sync_rolled`."""
        return self._durability.rolled_segments

    def sync_rolled(self) -> None:
        """Make full segments durable and write the snapshots that say so. May run on another thread than the log's."""
        self._durability.sync_rolled()

    # --- reading

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, wait: bool = True, end_offset: int | None = None
    ) -> Buffer | None:
        """Whole batches from the one that holds `offset` on, at most `max_bytes` of them, out of one segment.

        The first batch comes whole even when it is larger (unless not `at_least_one`). None from `end_offset` on (the high watermark, if
        not given; the last stable offset for read_committed). Empty at the end; None outside of the log. Unless `wait`:
        ColdRead when the bytes are not in memory.
        """
        end = self._high_watermark if end_offset is None else min(end_offset, self._high_watermark)
        if not self._start_offset <= offset <= self._end_offset:
            return None
        if offset >= end:
            return b""
        bound = None if end == self._end_offset else end
        try:
            return self._segments.read(offset, max_bytes, at_least_one=at_least_one, wait=wait, end_offset=bound)
        except LogFileChanged as error:
            self.fail(str(error))
            raise
        except LogFileDamaged as error:
            if error.path == self._segments.active.file(LOG_SUFFIX):
                self.fail(str(error))  # what would be appended behind it could not be found again
            raise

    def read_batches(self, from_offset: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Each batch from the one that holds `from_offset` on, decoded; StorageError where one is damaged."""
        return self._segments.read_batches(from_offset)

    def read_records(self, from_offset: int) -> Iterator[Record]:
        """Each data record from `from_offset` on."""
        for header, records in self.read_batches(from_offset):
            if not header.is_control:
                yield from (record for record in records if record.offset >= from_offset)

    def timestamps(self) -> TimestampLookup:
        """For looking up offsets by timestamp on any thread, whatever happens to the log meanwhile."""
        return TimestampLookup(self._files, self._segments, self._start_offset)

    def reading(self) -> LogReading:
        """All of the log, for a reader on any thread, while nothing is appended; what is cleaned meanwhile is read as it was."""
        with self._segments.names:
            opened = self._segments.opened_again()
            return LogReading(opened, self._start_offset, self.last_stable_offset, self._end_offset, self._transactions.aborted.all())

    # --- deleting the oldest records

    def delete_records(self, before_offset: int) -> int | LogRefusal:
        """Move the log's start up (-1: to the high watermark); the new start. Files go with the next `expire_segments`."""
        new_start = self._high_watermark if before_offset == -1 else before_offset
        if not 0 <= new_start <= self._high_watermark:
            return LogRefusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot delete what lies before offset {before_offset}: the log goes from {self._start_offset} to {self._high_watermark}",
            )
        self._raise_start(new_start)
        return self._start_offset

    def _raise_start(self, offset: int) -> None:
        if offset <= self._start_offset:
            return
        self._start_offset = offset
        if self._segments:
            try:
                self._epoch_file.raise_start(offset)
            except StorageError as error:  # the old file is still right; on a full disk, segments must be deleted all the same
                self._last_failure = str(error)

    def expire_segments(self, now_ms: int, *, segments_max: int | None = None) -> tuple[str, ...]:
        """Retention: take expired segments out of the log, at most `segments_max`; the new paths (`.deleted`) of their files.

        Segments that wait for `sync_rolled` stay (when all have expired, a new segment is begun first): call it again then.
        """
        self._durability.check()
        deleted = LogRetention(self._files, segments=self._segments, durability=self._durability).take_expired(
            self.settings,
            log_start_offset=self._start_offset,
            high_watermark=self._high_watermark,
            log_end_offset=self._end_offset,
            now_ms=now_ms,
            segments_max=segments_max,
            roll=lambda: self._begin_empty_segment(now_ms),
        )
        if deleted is None:
            return ()
        self._raise_start(self._segments.start_offset)
        self._transactions.aborted.forget_below(self._start_offset)
        return deleted

    def _begin_empty_segment(self, now_ms: int) -> bool:
        """Begin a segment that keeps the log's end; False when the last one is empty already, or none can be made."""
        if not self._segments.active.size:
            return False
        try:
            self._roller.roll(self._end_offset, self.settings, now_ms)
        except StorageError as error:
            self._last_failure = str(error)
            return False
        return True

    # --- cleaning

    def snapshot(self) -> LogSnapshot:
        """The log as it is now, for the cleaner."""
        stable = self.last_stable_offset
        return LogSnapshot(
            directory=self.directory,
            settings=self.settings,
            log_start_offset=self._start_offset,
            log_end_offset=self._end_offset,
            last_stable_offset=stable,
            active_base_offset=self._segments.active.base_offset if self._segments else self._end_offset,
            size_bytes=self._segments.size_bytes,
            segments=self._segments.views(min(self._durability.offset, stable)),
            producers=self._producers.ends(),
            aborted=self._transactions.aborted.all(),
        )

    def swap_segments(self, base_offset: int, replaced: Sequence[int]) -> tuple[str, ...] | None:
        """Put cleaned segments in place: see `SegmentReplacement.replace`."""
        replacement = SegmentReplacement(
            self._files, self.directory, segments=self._segments, durability=self._durability, aborted=self._transactions.aborted
        )
        return replacement.replace(
            base_offset, replaced, log_end_offset=self._end_offset, index_interval_bytes=self.settings.index_interval_bytes
        )
