"""One partition in use: appends to its log, wakes the fetches that wait for records, and syncs the log off the event loop.

Many appends share one sync (group commit): what is appended while a sync runs waits for the next one. The log decides what may be read and
what counts as durable.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from threading import Lock
from typing import TypeAlias

from ottla.log.append import Accepted, Appended, LogRefusal, UnreadBatch
from ottla.log.durability import Flush
from ottla.log.partition_log import PartitionLog
from ottla.metadata.records import NO_LEADER
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import EndMarker

logger = logging.getLogger(__name__)

_NEVER_MS = 2**63 - 1
_TIMER_S_MAX = 365 * 86_400
"""The event loop's timers accept no longer delay."""

Durable: TypeAlias = asyncio.Future[None]
"""Done when records are durable. Its exception is a StorageError when their sync failed or the partition was deleted."""


class _SharedFlush:
    """A flush that a worker thread runs and the event loop may need sooner: it runs once, and both get its outcome.

    The kernel reports a failed sync once: if two threads synced, one of them could take the other's failure for a success.
    """

    __slots__ = ("_error", "_has_run", "_lock", "flush")

    def __init__(self, flush: Flush) -> None:
        self.flush = flush
        self._lock = Lock()
        self._has_run = False
        self._error: StorageError | None = None

    def run(self) -> StorageError | None:
        """Run the flush, or wait until it has run. Any thread."""
        with self._lock:
            if not self._has_run:
                self._has_run = True
                try:
                    self.flush.run()
                except StorageError as error:
                    self._error = error
                except Exception as error:  # a bug of ours: what is on the disk is unknown, as after any other failed sync
                    logger.exception("a sync failed unexpectedly")
                    self._error = StorageError(f"a sync failed unexpectedly: {error!r}")
            return self._error


class Partition:
    """Used on the event loop only; syncs run on `executor` (None: the loop's own).

    leader: a broker's id. waiters: called when more can be read, or another broker leads, or the partition was deleted.
    """

    __slots__ = (
        "_executor",
        "_flush",
        "_is_offline",
        "_reported",
        "_undurable",
        "age_timer",
        "deleted",
        "flushing",
        "leader",
        "log",
        "name",
        "syncing",
        "waiters",
    )

    def __init__(self, name: TopicPartition, log: PartitionLog, executor: Executor | None = None, *, leader: int = NO_LEADER) -> None:
        self.name = name
        self.log = log
        self.leader = leader
        self.deleted = False
        self.waiters: set[Callable[[], None]] = set()
        self.syncing: asyncio.Future[None] | None = None
        self.flushing: asyncio.Task[None] | None = None
        self.age_timer: asyncio.TimerHandle | None = None
        self._executor = executor
        self._flush: _SharedFlush | None = None
        self._undurable: list[tuple[int, asyncio.Future[None]]] = []
        self._is_offline = False
        self._reported: str | None = None

    # --- appending: each method wakes the waiting fetches (after the sync, when one is due), and logs why the disk failed

    def append(
        self, batch: memoryview, *, now_ms: int, read: tuple[UnreadBatch, Accepted | LogRefusal] | None = None, is_acknowledged: bool = True
    ) -> tuple[Appended | LogRefusal | UnreadBatch, Durable | None]:
        """Append a client's batch, or what was `read` of it (see `PartitionLog.append`).

        The second result is not None when the batch must be durable before it is acknowledged; a batch without acknowledgment
        (not `is_acknowledged`) is synced all the same. Raises StorageError.
        """
        log = self.log
        try:
            outcome = log.append(batch, now_ms=now_ms) if read is None else log.append_read(*read, now_ms=now_ms)
        except StorageError as error:
            self.report(error)
            raise
        if isinstance(outcome, Appended) and self._records_appended() and is_acknowledged:
            return outcome, self.when_durable()
        return outcome, None

    def append_framed(self, section: bytes, count: int, *, now_ms: int, codec: Codec, bytes_max: int | None = None) -> None:
        """Append framed records (see `PartitionLog.append_framed`), and sync them at once if the topic's settings ask for it.

        Raises StorageError, BatchTooLarge over `bytes_max`.
        """
        try:
            self.log.append_framed(section, count, now_ms=now_ms, codec=codec, bytes_max=bytes_max)
            self.make_durable()
        except StorageError as error:
            self.report(error)
            raise
        self._records_appended()

    def append_marker(
        self, marker: EndMarker, *, producer_id: int, producer_epoch: int, is_bumped: bool, now_ms: int
    ) -> Appended | LogRefusal:
        """Append the end of a producer's transaction (see `PartitionLog.append_marker`). Raises StorageError."""
        producer = {"producer_id": producer_id, "producer_epoch": producer_epoch}
        return self._append_durably(lambda: self.log.append_marker(marker, **producer, is_bumped=is_bumped, now_ms=now_ms))

    def append_transactional(
        self, section: bytes, count: int, *, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Appended | LogRefusal:
        """Append framed records of a producer's transaction (see `PartitionLog.append_transactional`). Raises StorageError."""
        producer = {"producer_id": producer_id, "producer_epoch": producer_epoch}
        return self._append_durably(lambda: self.log.append_transactional(section, count, **producer, now_ms=now_ms))

    def _append_durably(self, append: Callable[[], Appended | LogRefusal]) -> Appended | LogRefusal:
        try:
            outcome = append()
            self.make_durable()
        except StorageError as error:
            self.report(error)
            raise
        self._records_appended()
        return outcome

    def append_records(self, records: Sequence[Record], *, now_ms: int) -> None:
        """Append the broker's own records; nothing waits until they are durable. Raises StorageError."""
        try:
            self.log.append_records(records, now_ms=now_ms)
        except StorageError as error:
            self.report(error)
            raise
        self._records_appended()

    def _records_appended(self) -> bool:
        """Returns whether a sync is due before the records may be acknowledged and read."""
        log = self.log
        is_due = log.flush_due
        if is_due:
            self.sync_soon()
        elif self.waiters:
            self._wake()
        if self.syncing is None and log.rolled_segments:
            self.sync_rolled()
        if self.age_timer is None and log.settings.flush_ms < _NEVER_MS:
            self._set_age_timer()
        if self._is_offline and log.failure is None:
            logger.warning("%s-%d takes records again", *self.name)
            self._is_offline, self._reported = False, None
        return is_due

    # --- durability

    def when_durable(self) -> Durable | None:
        """Done when what was appended is durable; None when it need not be before it is acknowledged."""
        if not self.log.flush_due:
            return None
        future: Durable = asyncio.get_running_loop().create_future()
        self._undurable.append((self.log.log_end_offset, future))
        self.sync_soon()
        return future

    def make_durable(self) -> None:
        """Sync at once, on the event loop, what must be durable before it is acknowledged. Raises StorageError."""
        if self.log.flush_due and self._flush is not None:
            # A flush is under way, which covers only what was there when it began: finish it here, then sync the rest.
            shared, self._flush = self._flush, None
            error = shared.run()
            self.log.finish_flush(shared.flush, error)
            if error is not None:
                raise StorageError(str(error)) from error
        if self.log.flush_due:
            self.log.flush()

    def sync_soon(self) -> None:
        """Start a sync of all that this iteration of the event loop appends, unless one is under way."""
        if self.flushing is None:
            self.flushing = asyncio.ensure_future(self._sync())

    def sync_rolled(self) -> "asyncio.Future[None]":
        """Start a sync of the full segments, unless one is under way; done when they are durable, or it failed, which is logged."""
        if self.syncing is None:
            self.syncing = asyncio.ensure_future(self._sync_rolled())
        return self.syncing

    # --- failures and changes

    def report(self, error: StorageError) -> None:
        """Log that the disk failed under this partition, once for each reason."""
        self._is_offline = self.log.failure is not None
        sentence = self.log.failure or str(error)
        if sentence != self._reported:
            self._reported = sentence
            logger.error("%s-%d%s: %s", *self.name, " is offline" if self._is_offline else "", sentence)

    def set_reported(self, reason: str) -> None:
        """Note that the log failed for a reason that was logged already."""
        self._is_offline, self._reported = True, reason

    def leader_changed(self, leader: int, leader_epoch: int) -> None:
        """Another broker leads now: its epoch is written into what is appended, and waiting fetches are woken."""
        self.leader = leader
        self.log.leader_epoch = leader_epoch
        self._wake()

    def settings_changed(self) -> None:
        """The log has other settings now: `flush.ms` may ask for an earlier sync."""
        if self.age_timer is not None:
            self.age_timer.cancel()
            self.age_timer = None
        if self.log.dirty_since_ms is not None and self.log.settings.flush_ms < _NEVER_MS:
            self._set_age_timer()

    def mark_deleted(self) -> None:
        """The partition was deleted: fail what waits until it is durable, and wake waiting fetches."""
        self.deleted = True
        self.leader = NO_LEADER
        self.stop_timer()
        gone = StorageError(f"{self.name.topic}-{self.name.partition} was deleted")
        gone.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._resolve(gone)
        self._wake()

    def stop_timer(self) -> None:
        """Start no more syncs for `flush.ms`."""
        if self.age_timer is not None:
            self.age_timer.cancel()

    def _wake(self) -> None:
        for wake in tuple(self.waiters):
            wake()

    def _set_age_timer(self) -> None:
        delay_s = min(self.log.settings.flush_ms / 1000, _TIMER_S_MAX)
        self.age_timer = asyncio.get_running_loop().call_later(delay_s, self._sync_by_age)

    def _sync_by_age(self) -> None:
        self.age_timer = None
        if self.log.dirty_since_ms is not None and self.log.failure is None:
            self.sync_soon()

    async def _sync(self) -> None:
        loop = asyncio.get_running_loop()
        error: StorageError | None = None
        try:
            while error is None and (flush := self.log.begin_flush()) is not None:
                self._flush = shared = _SharedFlush(flush)
                error = await loop.run_in_executor(self._executor, shared.run)
                self._flush = None
                if self.deleted:
                    return
                self.log.finish_flush(flush, error)
                self._resolve(error)
                self._wake()
                if not self._undurable and not self.log.flush_due:
                    break
        except StorageError as failure:  # the log takes no syncs any more
            error = failure
        finally:
            self._flush = self.flushing = None
        if error is not None:
            self.report(error)
        self._resolve(error, all_of_them=True)
        if error is None and self.age_timer is None and self.log.dirty_since_ms is not None and self.log.settings.flush_ms < _NEVER_MS:
            self._set_age_timer()  # it may have expired while the sync ran

    def _resolve(self, error: StorageError | None, *, all_of_them: bool = False) -> None:
        """Complete the futures whose records are durable, or need not be any more; all of them after an error or without a sync."""
        waiting, self._undurable = self._undurable, []
        durable = self.log.log_end_offset if all_of_them or not self.log.flush_due else self.log.recovery_point
        for end_offset, future in waiting:
            if future.done():  # cancelled: its request has gone
                continue
            if error is not None:
                own = StorageError(str(error))  # one for each future: raising it adds a traceback
                own.code = error.code
                future.set_exception(own)
            elif end_offset <= durable:
                future.set_result(None)
            else:
                self._undurable.append((end_offset, future))

    async def _sync_rolled(self) -> None:
        try:
            if self.log.rolled_segments:  # closing the log syncs them too
                await asyncio.get_running_loop().run_in_executor(self._executor, self.log.sync_rolled)
        except StorageError as error:
            if not self.deleted:
                self.report(error)
        finally:
            self.syncing = None
