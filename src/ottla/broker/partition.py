"""One partition: its log, who waits at its end, and the syncs that make what was appended durable, off the loop.

Many appends share one sync (group commit): while one runs, what is appended meanwhile waits for the next. What may be read, and what counts
as durable, the log itself decides.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from threading import Lock

from ottla.core.catalogue.records import NO_LEADER
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.model import TopicPartition
from ottla.storage.durability import Flush
from ottla.storage.partition_log import PartitionLog

log = logging.getLogger("ottla.broker.partitions")

_NEVER_MS = 2**63 - 1
_TIMER_S_MAX = 365 * 86_400
"""Timers of the loop take no delay without an end."""


class _SharedFlush:
    """A flush that a worker thread was asked for and the loop may need sooner: it runs once, and both get its outcome.

    The kernel tells of a failed sync once. Were it run twice, one of the two might take the other's failure for a success.
    """

    __slots__ = ("_error", "_has_run", "_lock", "flush")

    def __init__(self, flush: Flush) -> None:
        self.flush = flush
        self._lock = Lock()
        self._has_run = False
        self._error: StorageError | None = None

    def run(self) -> StorageError | None:
        """Runs it, or waits until it has run; any thread."""
        with self._lock:
            if not self._has_run:
                self._has_run = True
                try:
                    self.flush.run()
                except StorageError as error:
                    self._error = error
                except Exception as error:  # a bug of ours: nobody knows what is on the disk, as after any other failed sync
                    log.exception("a sync failed unexpectedly")
                    self._error = StorageError(f"a sync failed unexpectedly: {error!r}")
            return self._error


class Partition:
    """A partition that is in use. It belongs to the loop; its syncs run on `executor` (None: the loop's own). `leader` is a broker's id."""

    __slots__ = (
        "_executor",
        "_flush",
        "_is_offline",
        "_told",
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
        self._told: str | None = None

    def grew(self) -> None:
        """Records were appended: wakes the waiting fetches (after the sync, when one is due), and has syncs begun."""
        if self.log.flush_due:
            self.sync_soon()
        elif self.waiters:
            self._wake()
        if self.log.rolled_segments and self.syncing is None:
            self.syncing = asyncio.ensure_future(self._sync_rolled())
        if self.age_timer is None and self.log.settings.flush_ms < _NEVER_MS:
            self._set_age_timer()
        if self._is_offline and self.log.failure is None:
            log.warning("%s-%d takes records again", *self.name)
            self._is_offline, self._told = False, None

    def when_durable(self) -> asyncio.Future[None] | None:
        """None when what was appended need not be synced before it is acknowledged; else it is done when the sync that covers it is.

        Its exception is a StorageError when that sync failed, or the partition was deleted.
        """
        if not self.log.flush_due:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._undurable.append((self.log.log_end_offset, future))
        self.sync_soon()
        return future

    def make_durable(self) -> None:
        """Syncs at once, on the loop, when what was appended must be synced before it is acknowledged. Raises StorageError."""
        if self.log.flush_due and self._flush is not None:
            # One is under way, but covers only what was there when it began: end it here, then sync the rest.
            shared, self._flush = self._flush, None
            error = shared.run()
            self.log.finish_flush(shared.flush, error)
            if error is not None:
                raise StorageError(str(error)) from error
        if self.log.flush_due:
            self.log.flush()

    def sync_soon(self) -> None:
        """Begins a sync of all that this turn of the loop appends, unless one is under way."""
        if self.flushing is None:
            self.flushing = asyncio.ensure_future(self._sync())

    def report(self, error: StorageError) -> None:
        """The disk failed under this partition: says so, once for each reason."""
        self._is_offline = self.log.failure is not None
        sentence = self.log.failure or str(error)
        if sentence != self._told:
            self._told = sentence
            log.error("%s-%d%s: %s", *self.name, " is offline" if self._is_offline else "", sentence)

    def reported(self, reason: str) -> None:
        """The log failed for a reason that was logged already: it is not logged again."""
        self._is_offline, self._told = True, reason

    def leader_changed(self, leader: int, leader_epoch: int) -> None:
        """Another broker leads now: what it appends says so, and whoever waits here is told."""
        self.leader = leader
        self.log.leader_epoch = leader_epoch
        self._wake()

    def settings_changed(self) -> None:
        """The log has other settings now: what waits for a sync may have to be synced earlier."""
        if self.age_timer is not None:
            self.age_timer.cancel()
            self.age_timer = None
        if self.log.dirty_since_ms is not None and self.log.settings.flush_ms < _NEVER_MS:
            self._set_age_timer()

    def end(self) -> None:
        """The partition was deleted: whoever waits for it is told."""
        self.deleted = True
        self.leader = NO_LEADER
        self.stop()
        gone = StorageError(f"{self.name.topic}-{self.name.partition} was deleted")
        gone.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._answer(gone)
        self._wake()

    def stop(self) -> None:
        """No sync by age any more."""
        if self.age_timer is not None:
            self.age_timer.cancel()

    def _wake(self) -> None:
        for wake in tuple(self.waiters):
            wake()

    def _set_age_timer(self) -> None:
        delay_s = min(self.log.settings.flush_ms / 1000, _TIMER_S_MAX)
        self.age_timer = asyncio.get_running_loop().call_later(delay_s, self._is_old)

    def _is_old(self) -> None:
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
                self._answer(error)
                self._wake()
                if not self._undurable and not self.log.flush_due:
                    break
        except StorageError as failure:  # the log takes no syncs any more
            error = failure
        finally:
            self._flush = self.flushing = None
        if error is not None:
            self.report(error)
        self._answer(error, all_of_them=True)
        if error is None and self.age_timer is None and self.log.dirty_since_ms is not None and self.log.settings.flush_ms < _NEVER_MS:
            self._set_age_timer()  # it may have rung in vain while the sync ran

    def _answer(self, error: StorageError | None, *, all_of_them: bool = False) -> None:
        """Answers those whose records are durable, or need not be any more; all of them when there was an error or nothing to sync."""
        waiting, self._undurable = self._undurable, []
        durable = self.log.log_end_offset if all_of_them or not self.log.flush_due else self.log.recovery_point
        for end_offset, future in waiting:
            if future.done():  # nobody waits for it any more
                continue
            if error is not None:
                own = StorageError(str(error))  # one for each: who raises it adds its own traceback
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
