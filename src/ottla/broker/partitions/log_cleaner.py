"""The cleaner of compacted topics: threads that clean the dirtiest log, and put what they wrote in its place. As Kafka's LogCleaner.

Which log is next is decided by the LogCleanerManager; a cleaning itself is log/cleaner/cleaning.py, by the compiled backend for a large log
if its machine code is available, else by the reference backend. The threads share one limit on bytes a second: a thread over it waits. A
log whose cleaning fails is left alone for a while, and its reason is part of the health snapshot; the others are cleaned. What was done
since the broker's start, and in the last cleaning, is counted as by Kafka's CleanerStats.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Final, NamedTuple

from ottla.broker.clock import PeriodicTask
from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.broker.partitions.cleaner_manager import CleanerCheckpoint, DirtyLog, LogCleanerManager
from ottla.broker.partitions.log_manager import LogManager
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.config import BrokerConfig
from ottla.log.cleaner.backend import CleaningBackend, OffsetMap, ReferenceBackend
from ottla.log.cleaner.candidates import Candidate
from ottla.log.cleaner.cleaning import Cleaned, clean
from ottla.log.cleaner.health import CleanerSnapshot
from ottla.log.file_system import Files
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition


class Throttle:
    """`throttle(size_bytes)` waits until so much more may be done. `wait(seconds)` sleeps, and may return early when all is to stop."""

    def __init__(self, bytes_per_second: float, wait: Callable[[float], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._bytes_per_second = bytes_per_second
        self._wait = wait
        self._clock = clock
        self._lock = Lock()
        self._free_at = 0.0

    def __call__(self, size_bytes: int) -> None:
        """Count bytes that were read or written."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
            delay = self._free_at - now
        if delay > 0.001:
            self._wait(delay)


@dataclass(slots=True)
class CleanerStats:
    """recopy_ratio: bytes written for each byte read in the last cleaning. buffer_ratio: how full its offset map was at most.

    last_clean_ms: how long it took. cleaned_ms: when it ended; None when there was none.
    """

    cleanings: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    recopy_ratio: float = 0.0
    buffer_ratio: float = 0.0
    last_clean_ms: int = 0
    cleaned_ms: int | None = None

    def add(self, done: Cleaned, *, start_ms: int, end_ms: int) -> None:
        """Add a cleaning; one that was stopped counts for the bytes only."""
        self.read_bytes += done.indexed_bytes + done.read_bytes
        self.written_bytes += done.written_bytes
        if not done.is_complete:
            return
        self.cleanings += 1
        self.recopy_ratio = done.written_bytes / done.read_bytes if done.read_bytes else 0.0
        self.buffer_ratio = done.map_utilization
        self.last_clean_ms = max(0, end_ms - start_ms)
        self.cleaned_ms = end_ms


COMPILED_BYTES_MIN: Final = 16 << 20
"""A smaller log is clean by the reference backend before the compiled code is only loaded."""


class CleanerBackends:
    """The backends of one broker."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.log.compiled.cleaning", "ottla.log.compiled.cleaning_kernels", start)

    def choose(self, log_bytes: int) -> CleaningBackend:
        """A backend for one log of so many bytes, for the calling thread, which loads the compiled code when it is needed."""
        if log_bytes < COMPILED_BYTES_MIN or not self._code.is_compiled():
            return ReferenceBackend()
        from ottla.log.compiled.cleaning import CompiledBackend

        return CompiledBackend()

    def close(self) -> None:
        """Stop the process that compiles, if there is one."""
        self._code.close()


log = logging.getLogger(__name__)

SNAPSHOT_AGE_MS_MAX: Final = 30_000
"""The figures of how dirty the logs are get no older than this, also when no thread of the cleaner is left to check them."""
_PAUSE_S_MIN: Final = 0.01
_MAP_BYTES_MIN: Final = 1 << 20


class _Settings(NamedTuple):
    """The settings `log.cleaner.*` that may change while the cleaner runs; no threads where it is disabled."""

    threads: int
    dedupe_buffer_bytes: int
    io_buffer_bytes: int
    load_factor: float
    bytes_per_second: float
    backoff_ms: int


class _Run:
    """The threads of the cleaner, with the same settings from their start to their end."""

    def __init__(self, settings: _Settings) -> None:
        self.settings = settings
        self.stopping = Event()
        self.throttle = Throttle(settings.bytes_per_second, self.stopping.wait)
        self.pool = ThreadPoolExecutor(max(1, settings.threads), thread_name_prefix="ottla-cleaner")
        self.dead_threads = 0
        self._tasks: list[PeriodicTask] = []

    def start(self, work: Callable[[], Awaitable[object]], failed: Callable[[Exception], None]) -> None:
        """Begin, on the running loop."""
        pause_s = max(_PAUSE_S_MIN, self.settings.backoff_ms / 1000)
        for number in range(self.settings.threads):
            task = PeriodicTask(work, pause_s=lambda: pause_s, failed=failed, name=f"ottla-cleaner-{number}")
            task.start().add_done_callback(self._thread_ended)
            self._tasks.append(task)

    async def end(self) -> None:
        """Stop the cleanings that are under way; what was not swapped in yet is dropped."""
        self.stopping.set()
        await asyncio.gather(*(task.finish() for task in self._tasks))
        self.pool.shutdown(wait=True)

    def _thread_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.dead_threads += 1
            threads = self.settings.threads
            log.error("a thread of the cleaner died; %d of %d are left", threads - self.dead_threads, threads, exc_info=error)


class LogCleaner:
    """The cleaner of all brokers here. `start` it when the logs are open, `stop` it before they are closed; both on the event loop.

    Settings that change end its threads and start others, as in Kafka: they take effect at once, also in a cleaning under way.
    """

    def __init__(
        self,
        files: Files,
        config: BrokerConfig,
        cluster_metadata: ClusterMetadata,
        partitions: Partitions,
        log_manager: LogManager,
        clock: Callable[[], int],
    ) -> None:
        self._files = files
        self._cluster_metadata = cluster_metadata
        self._log_manager = log_manager
        self._clock = clock
        self.checkpoint = CleanerCheckpoint(files)
        self.manager = LogCleanerManager(
            files=files, cluster_metadata=cluster_metadata, partitions=partitions, checkpoint=self.checkpoint, clock=clock
        )
        self._backends = CleanerBackends()
        self._is_enabled = config.flag("log.cleaner.enable")
        self._run = _Run(self._settings())
        self._is_running = False
        self._restart: asyncio.Task[None] | None = None
        self._last_run_ms: int | None = None
        self._stats = CleanerStats()
        self._logged_failure = ""

    # --- start and end

    def start(self) -> None:
        """Read the checkpoint, and clean from now on. Raises StorageError."""
        self.checkpoint.load(self._cluster_metadata.topics.values())
        self._is_running = True
        self._begin()

    def _begin(self) -> None:
        self._run = _Run(self._settings())
        self._last_run_ms = self._clock() if self._run.settings.threads else None
        self._run.start(self.clean_filthiest, self._check_failed)

    async def stop(self) -> None:
        """Stop the cleanings that are under way; what was not swapped in yet is dropped."""
        self._is_running = False
        if self._restart is not None:
            await self._restart
        await self._run.end()
        self._backends.close()

    def settings_changed(self) -> None:
        """Use the settings of the broker that are in force now."""
        if self._is_running and self._restart is None and self._settings() != self._run.settings:
            self._restart = asyncio.get_running_loop().create_task(self._restart_threads(), name="ottla-cleaner-settings")

    async def _restart_threads(self) -> None:
        """Until the threads have the settings in force: they may change again meanwhile."""
        try:
            while self._is_running and self._settings() != self._run.settings:
                await self._run.end()
                if self._is_running:
                    self._begin()
                    log.info("the settings of the cleaner changed: %s", self._run.settings)
        finally:
            self._restart = None

    def _settings(self) -> _Settings:
        number, share = self._cluster_metadata.configs.broker_number, self._cluster_metadata.configs.broker_share
        return _Settings(
            threads=number("log.cleaner.threads") if self._is_enabled else 0,
            dedupe_buffer_bytes=number("log.cleaner.dedupe.buffer.size"),
            io_buffer_bytes=number("log.cleaner.io.buffer.size"),
            load_factor=share("log.cleaner.io.buffer.load.factor"),
            bytes_per_second=share("log.cleaner.io.max.bytes.per.second"),
            backoff_ms=number("log.cleaner.backoff.ms"),
        )

    def topic_deleted(self, name: str) -> None:
        """Forget the topic. The checkpoint must be written before a topic of that name is created."""
        self.manager.topic_deleted(name)

    def write_checkpoint(self) -> None:
        """Make the checkpoint durable, if it has changed. Any thread. Raises StorageError."""
        self.checkpoint.write()

    def _check_failed(self, error: Exception) -> None:
        """Continue when a disk failed; end the thread after anything else, as Kafka's does."""
        if not isinstance(error, StorageError):
            raise error
        self._log_failed_check(error)

    # --- cleaning

    async def clean_filthiest(self) -> bool:
        """Clean the dirtiest log that is due; False when there was none, or it could not be cleaned to its end."""
        chosen = await self.manager.grab_filthiest()
        self._last_run_ms = self._clock()
        if chosen is None:
            return False
        found, candidate = chosen
        try:
            return not self._run.stopping.is_set() and await self._clean(found, candidate)
        finally:
            self.manager.end_cleaning(found.partition.name)

    async def _clean(self, found: DirtyLog, candidate: Candidate) -> bool:
        name, start_ms, run = found.partition.name, self._clock(), self._run
        loop = asyncio.get_running_loop()
        try:
            done = await loop.run_in_executor(run.pool, self._clean_in_thread, run, found, candidate, start_ms, loop)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this log, and the others are cleaned
            if not found.partition.deleted and not run.stopping.is_set():
                reason = str(error) if isinstance(error, StorageError) else repr(error)
                self.manager.set_uncleanable(found.partition, found.snapshot.log_start_offset, found.snapshot.size_bytes, reason, error)
            return False
        if found.partition.deleted:
            return False
        self._record(name, done, start_ms)
        self.checkpoint.note(name, done.end_offset)
        try:
            await loop.run_in_executor(run.pool, self.checkpoint.write)
        except StorageError as error:
            log.error("the cleaner's checkpoint is not written: %s", error)
        return done.is_complete

    def _clean_in_thread(self, run: _Run, found: DirtyLog, candidate: Candidate, now_ms: int, loop: asyncio.AbstractEventLoop) -> Cleaned:
        def swap(base_offset: int, replaced: Sequence[int]) -> bool:
            return asyncio.run_coroutine_threadsafe(self._swap(found.partition, base_offset, replaced), loop).result()

        return clean(
            self._files,
            found.snapshot,
            first_dirty_offset=candidate.first_dirty_offset,
            first_uncleanable_offset=candidate.first_uncleanable_offset,
            backend=self._backends.choose(candidate.cleanable_bytes + candidate.clean_bytes),
            offset_map=_offset_map(run.settings, candidate.cleanable_bytes),
            now_ms=now_ms,
            swap=swap,
            throttle=run.throttle,
            is_stopped=lambda: run.stopping.is_set() or found.partition.deleted,
            # As in Kafka half of a thread's share is for reading, half for writing.
            io_buffer_bytes=run.settings.io_buffer_bytes // run.settings.threads // 2,
        )

    async def _swap(self, partition: Partition, base_offset: int, replaced: Sequence[int]) -> bool:
        """Put cleaned segments in place, on the event loop, which owns the log; other threads wait for the disk."""
        # After a crash, recovery must not start at an offset inside of what was replaced.
        await self._log_manager.checkpoint_recovery_points()
        if partition.deleted:
            return False
        directory = partition.log.directory
        paths = partition.log.swap_segments(base_offset, replaced)
        if paths is None:
            return False
        await asyncio.get_running_loop().run_in_executor(None, self._files.sync_directory, directory)
        if not partition.deleted:
            self._log_manager.remove_later(paths, partition.log.settings.file_delete_delay_ms)
        return True

    # --- figures

    def _record(self, name: TopicPartition, done: Cleaned, start_ms: int) -> None:
        end_ms = self._clock()
        self._stats.add(done, start_ms=start_ms, end_ms=end_ms)
        if done.is_complete:
            self.manager.set_clean(name, end_ms)
            log.info(
                "%s-%d is clean up to offset %d: %d of %d records stay, %d of %d bytes, in %d passes",
                *name, done.end_offset, done.kept_records, done.read_records, done.written_bytes, done.read_bytes, done.passes,
            )  # fmt: skip

    async def up_to_date_snapshot(self) -> CleanerSnapshot:
        """As `snapshot`; checks the logs first when the last check is too old, since no thread of the cleaner may be left to do it."""
        if self._clock() - self.manager.checked_ms > SNAPSHOT_AGE_MS_MAX:
            try:
                await self.manager.check_logs()
            except Exception as error:  # noqa: BLE001 - what is known, above all that a thread died, must be reported all the same
                self._log_failed_check(error)
        return self.snapshot()

    def _log_failed_check(self, error: Exception) -> None:
        """Log why the logs were not checked, once for each reason."""
        if self._logged_failure != repr(error):
            self._logged_failure = repr(error)
            log.error("the cleaner could not check the logs; it tries again", exc_info=error)

    def snapshot(self) -> CleanerSnapshot:
        """The cleaner's state and figures."""
        manager, stats = self.manager, self._stats
        partitions = manager.partitions()
        return CleanerSnapshot(
            is_enabled=self._is_enabled,
            threads=self._run.settings.threads,
            dead_threads=self._run.dead_threads,
            backoff_ms=self._run.settings.backoff_ms,
            at_work=tuple(manager.in_progress),
            looked_ms=self._last_run_ms,
            cleaned_ms=stats.cleaned_ms,
            cleanings=stats.cleanings,
            read_bytes=stats.read_bytes,
            written_bytes=stats.written_bytes,
            recopy_ratio=stats.recopy_ratio,
            buffer_ratio=stats.buffer_ratio,
            last_clean_ms=stats.last_clean_ms,
            max_compaction_delay_ms=manager.overdue_ms_max,
            max_dirty_ratio=max((each.dirty_ratio for each in partitions.values()), default=0.0),
            uncleanable=manager.uncleanable(),
            uncleanable_bytes=manager.uncleanable_bytes,
            partitions=partitions,
        )


def _offset_map(settings: _Settings, cleanable_bytes: int) -> OffsetMap:
    """As large as the settings allow, but not much larger than this log can fill: allocating it writes the memory."""
    own_bytes = settings.dedupe_buffer_bytes // settings.threads
    return OffsetMap(min(own_bytes, max(_MAP_BYTES_MIN, 2 * cleanable_bytes)), load_factor=settings.load_factor)
