"""The cleaner's shell: looks for the dirtiest log, has it cleaned in a worker thread, puts the result in place, and keeps account.

As Kafka's LogCleaner, and by its settings. Which log is next is decided in core/cleaning/candidates.py, what stays of it there too; the
bytes are moved by storage/cleaner.py. Here is decided only what runs when and where, and what becomes of a log whose cleaning fails: it is
left alone for a while, with its reason in the health picture, and the others go on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Final, NamedTuple

from ottla.broker.cleaner_checkpoint import CleanerCheckpoint
from ottla.broker.cleaner_lane import Lanes
from ottla.broker.health import CleanerView, CleaningView
from ottla.broker.log_manager import LogManager
from ottla.broker.partitions import Partition, Partitions
from ottla.broker.throttle import Throttle
from ottla.core.catalogue.catalogue import Catalogue, Topic
from ottla.core.cleaning.candidates import Candidate, candidate, filthiest
from ottla.core.cleaning.health import PartitionFault
from ottla.core.cleaning.offset_map import OffsetMap
from ottla.core.config import BrokerConfig
from ottla.core.errors import StorageError
from ottla.core.model import TopicPartition
from ottla.storage.cleaner import Cleaned, clean, first_timestamp_ms
from ottla.storage.files import Files
from ottla.storage.log_view import LogView

log = logging.getLogger("ottla.broker.cleaner")

UNCLEANABLE_MS: Final = 3_600_000
"""A log whose cleaning failed is tried again after this."""
VIEW_AGE_MS_MAX: Final = 30_000
"""The figures of how dirty the logs are get no older than this, also when no cleaner is alive to look."""
_REST_S_MIN: Final = 0.01
_PER_TURN: Final = 64
_MAP_BYTES_MIN: Final = 1 << 20


class Log(NamedTuple):
    """A compacted log at one moment."""

    partition: Partition
    view: LogView
    checkpoint: int | None


class Judged(NamedTuple):
    """How it stands; None when its files could not be looked at, for the reason given."""

    log: Log
    candidate: Candidate | None
    reason: str = ""


class _Fault(NamedTuple):
    """Why a log could not be cleaned. Another partition object, or a later log start, is another log: worth trying at once."""

    partition: Partition
    log_start_offset: int
    fault: PartitionFault
    size_bytes: int


@dataclass(slots=True)
class _Totals:
    """What the cleaner did since the start, and in the last cleaning."""

    cleanings: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    recopy_ratio: float = 0.0
    buffer_ratio: float = 0.0
    last_clean_ms: int = 0
    cleaned_ms: int | None = None


class LogCleaner:
    """The cleaner of one broker. `begin` when the logs are open, `stop` before they are closed; both on the broker's loop."""

    def __init__(
        self,
        files: Files,
        config: BrokerConfig,
        catalogue: Catalogue,
        partitions: Partitions,
        log_manager: LogManager,
        clock: Callable[[], int],
    ) -> None:
        self._files = files
        self._config = config
        self._catalogue = catalogue
        self._partitions = partitions
        self._log_manager = log_manager
        self._clock = clock
        self._checkpoint = CleanerCheckpoint(files)
        self._lanes = Lanes()
        self._threads = config.number("log.cleaner.threads") if config.flag("log.cleaner.enable") else 0
        self._pool = ThreadPoolExecutor(max(1, self._threads), thread_name_prefix="ottla-cleaner")
        self._stopping = Event()
        self._throttle = Throttle(config.share("log.cleaner.io.max.bytes.per.second"), self._stopping.wait)
        self._workers: list[asyncio.Task[None]] = []
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()
        self._at_work: dict[TopicPartition, Partition] = {}
        self._faults: dict[TopicPartition, _Fault] = {}
        self._known: dict[TopicPartition, CleaningView] = {}
        self._cleaned_ms: dict[TopicPartition, int] = {}
        self._judged_ms = 0
        self._max_overdue_ms = 0
        self._ended = 0
        self._looked_ms: int | None = None
        self._dead_threads = 0
        self._totals = _Totals()
        self._told = ""

    # --- life

    def begin(self) -> None:
        """Reads what is clean already, and begins to clean. Raises StorageError."""
        self._checkpoint.load(self._catalogue.topics.values())
        self._looked_ms = self._clock() if self._threads else None
        for number in range(self._threads):
            task = asyncio.get_running_loop().create_task(self._work(), name=f"ottla-cleaner-{number}")
            task.add_done_callback(self._worker_ended)
            self._workers.append(task)

    async def stop(self) -> None:
        """Ends what is under way, within a moment; what was not put in place yet is given up."""
        self._stopping.set()
        self._wake.set()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._pool.shutdown(wait=True)
        self._lanes.close()

    def topic_deleted(self, name: str) -> None:
        """The topic is gone. The checkpoint forgets it in memory; it is to be written before a topic of that name is made."""
        for known in (self._known, self._faults, self._cleaned_ms):
            for partition in [each for each in known if each.topic == name]:
                del known[partition]
        self._checkpoint.forget(name)

    def write_checkpoint(self) -> None:
        """Makes the checkpoint durable, if it has changed. Any thread. Raises StorageError."""
        self._checkpoint.write()

    def _worker_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._dead_threads += 1
            log.error("a thread of the cleaner died; %d of %d are left", self._threads - self._dead_threads, self._threads, exc_info=error)

    async def _work(self) -> None:
        rest_s = max(_REST_S_MIN, self._config.number("log.cleaner.backoff.ms") / 1000)
        while not self._stopping.is_set():
            try:
                is_done = await self.clean_filthiest()
            except StorageError as error:
                self._say_no_look(error)
                is_done = False
            if not is_done:
                await self._rest(rest_s)

    async def _rest(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except TimeoutError:
            return

    # --- looking

    async def look(self) -> list[Judged]:
        """Takes account of how dirty every compacted log is, a few at a time; those that are due."""
        async with self._looking:
            now_ms, before, due = self._clock(), self._known, []
            known: dict[TopicPartition, CleaningView] = {}
            seen: set[TopicPartition] = set()
            async for logs in self._logs(seen):
                judged = await asyncio.get_running_loop().run_in_executor(None, _judge, self._files, logs, now_ms)
                for each in judged:
                    self._take_account(each, now_ms, before, known)
                due += [each for each in judged if each.candidate is not None and each.candidate.is_due]
            for name in self._faults.keys() - seen:
                del self._faults[name]
            self._known, self._judged_ms = known, now_ms
            self._max_overdue_ms = max((each.candidate.overdue_ms for each in due if each.candidate is not None), default=0)
            return due

    async def _logs(self, seen: set[TopicPartition]) -> AsyncIterator[list[Log]]:
        """The compacted logs, some at a time; `seen` gets the names of all, also of those that cannot be looked at."""
        logs: list[Log] = []
        is_compacted: dict[str, bool] = {}
        for count, (topic, number) in enumerate(self._partitions.all()):
            if count % _PER_TURN == _PER_TURN - 1:
                await asyncio.sleep(0)
            if topic.name not in is_compacted:
                is_compacted[topic.name] = "compact" in str(self._catalogue.parsed_value(topic, "cleanup.policy"))
            if is_compacted[topic.name]:
                logs += await self._log(topic, number, seen)
            if len(logs) == _PER_TURN:
                yield logs
                logs = []
        if logs:
            yield logs

    async def _log(self, topic: Topic, number: int, seen: set[TopicPartition]) -> list[Log]:
        """The log, if there is one to work on: one that is offline says so itself."""
        if self._catalogue.topics.get(topic.name) is not topic:
            return []
        try:
            partition = await self._partitions.open(topic, number)
        except StorageError:
            return []
        if partition is None or partition.log.failure is not None:
            return []
        seen.add(partition.name)
        try:
            view = partition.log.view()
        except StorageError as error:
            self._fail(partition, partition.log.log_start_offset, partition.log.size_bytes, str(error))
            return []
        if partition.log.recovery_point < view.active_base_offset and partition.syncing is None:
            # After a crash nobody else may ask for it: only what is durable can be cleaned.
            partition.sync_soon()
        return [Log(partition, view, self._checkpoint.get(topic, number))]

    def _take_account(
        self, judged: Judged, now_ms: int, before: Mapping[TopicPartition, CleaningView], known: dict[TopicPartition, CleaningView]
    ) -> None:
        found, state, reason = judged
        name, view = found.partition.name, found.view
        if state is None:
            self._fail(found.partition, view.log_start_offset, view.size_bytes, reason)
            return
        if state.has_new_start:
            log.warning("%s-%d: the cleaner's checkpoint %s is not in the log; it begins at its start", *name, found.checkpoint)
            self._checkpoint.note(name, state.first_dirty_offset)
        since_ms = before[name].due_since_ms if name in before else None
        known[name] = CleaningView(
            dirty_bytes=max(0, view.size_bytes - state.clean_bytes),
            cleanable_bytes=state.cleanable_bytes,
            dirty_ratio=state.dirty_ratio,
            due_since_ms=(now_ms if since_ms is None else since_ms) if state.is_due else None,
            cleaned_ms=self._cleaned_ms.get(name),
        )

    def _may_clean(self, found: Log) -> bool:
        """Whether nobody is at it, and it did not fail lately."""
        name = found.partition.name
        if found.partition.deleted or name in self._at_work:
            return False
        fault = self._faults.get(name)
        if fault is None:
            return True
        is_same = fault.partition is found.partition and fault.log_start_offset == found.view.log_start_offset
        if is_same and self._clock() - fault.fault.at_ms < UNCLEANABLE_MS:
            return False
        del self._faults[name]
        return True

    # --- cleaning

    async def clean_filthiest(self) -> bool:
        """Looks for the dirtiest log that is due and cleans it; False when there was none, or it could not be cleaned to its end."""
        ended = -1
        while ended != self._ended:  # what was looked at before another thread's cleaning ended may be another log now
            ended = self._ended
            due = await self.look()
        self._looked_ms = self._clock()
        chosen = filthiest((found, state) for found, state, _ in due if state is not None and self._may_clean(found))
        if chosen is None or self._stopping.is_set():
            return False
        found, state = chosen
        name = found.partition.name
        self._at_work[name] = found.partition
        try:
            return await self._clean(found, state)
        finally:
            del self._at_work[name]
            self._ended += 1

    async def _clean(self, found: Log, state: Candidate) -> bool:
        name, began_ms = found.partition.name, self._clock()
        loop = asyncio.get_running_loop()
        try:
            done = await loop.run_in_executor(self._pool, self._clean_in_thread, found, state, began_ms, loop)
        except Exception as error:  # noqa: BLE001 - whatever it is, this log is at fault, and the others go on
            if not found.partition.deleted and not self._stopping.is_set():
                reason = str(error) if isinstance(error, StorageError) else repr(error)
                self._fail(found.partition, found.view.log_start_offset, found.view.size_bytes, reason, error)
            return False
        if found.partition.deleted:
            return False
        self._account_for(name, done, began_ms)
        self._checkpoint.note(name, done.end_offset)
        try:
            await loop.run_in_executor(self._pool, self._checkpoint.write)
        except StorageError as error:
            log.error("the cleaner's checkpoint is not written: %s", error)
        return done.is_complete

    def _clean_in_thread(self, found: Log, state: Candidate, now_ms: int, loop: asyncio.AbstractEventLoop) -> Cleaned:
        def swap(base_offset: int, replaced: Sequence[int]) -> bool:
            return asyncio.run_coroutine_threadsafe(self._swap(found.partition, base_offset, replaced), loop).result()

        return clean(
            self._files,
            found.view,
            first_dirty_offset=state.first_dirty_offset,
            first_uncleanable_offset=state.first_uncleanable_offset,
            lane=self._lanes.choose(state.cleanable_bytes + state.clean_bytes),
            offset_map=self._offset_map(state.cleanable_bytes),
            now_ms=now_ms,
            swap=swap,
            throttle=self._throttle,
            is_stopped=lambda: self._stopping.is_set() or found.partition.deleted,
            # As in Kafka half of a thread's share is for reading, half for writing.
            io_buffer_bytes=self._config.number("log.cleaner.io.buffer.size") // self._threads // 2,
        )

    def _offset_map(self, cleanable_bytes: int) -> OffsetMap:
        """As large as the settings allow, but not much larger than this log can fill: memory is written when it is made."""
        own_bytes = self._config.number("log.cleaner.dedupe.buffer.size") // self._threads
        load_factor = self._config.share("log.cleaner.io.buffer.load.factor")
        return OffsetMap(min(own_bytes, max(_MAP_BYTES_MIN, 2 * cleanable_bytes)), load_factor=load_factor)

    async def _swap(self, partition: Partition, base_offset: int, replaced: Sequence[int]) -> bool:
        """Puts cleaned segments in place, on the loop that owns the log; the disk is waited for elsewhere."""
        # A crash right after it must not have the log looked through from a point that lies in what was replaced.
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

    # --- account

    def _account_for(self, name: TopicPartition, done: Cleaned, began_ms: int) -> None:
        totals, now_ms = self._totals, self._clock()
        totals.read_bytes += done.indexed_bytes + done.read_bytes
        totals.written_bytes += done.written_bytes
        if not done.is_complete:
            return
        totals.cleanings += 1
        totals.recopy_ratio = done.written_bytes / done.read_bytes if done.read_bytes else 0.0
        totals.buffer_ratio = done.map_utilization
        totals.last_clean_ms = max(0, now_ms - began_ms)
        totals.cleaned_ms = self._cleaned_ms[name] = now_ms
        if name in self._known:
            self._known[name] = self._known[name]._replace(cleanable_bytes=0, dirty_ratio=0.0, due_since_ms=None, cleaned_ms=now_ms)
        log.info(
            "%s-%d is clean up to offset %d: %d of %d records stay, %d of %d bytes, in %d passes",
            *name, done.end_offset, done.kept_records, done.read_records, done.written_bytes, done.read_bytes, done.passes,
        )  # fmt: skip

    def _fail(self, partition: Partition, log_start_offset: int, size_bytes: int, reason: str, error: Exception | None = None) -> None:
        """Leaves the log alone for a while; says so once."""
        name = partition.name
        if name in self._faults:
            return
        fault = PartitionFault(name.topic, name.partition, reason, self._clock())
        self._faults[name] = _Fault(partition, log_start_offset, fault, size_bytes)
        is_unexpected = error is not None and not isinstance(error, StorageError)
        log.error("%s-%d is left uncleaned: %s", *name, reason, exc_info=error if is_unexpected else None)

    async def up_to_date_view(self) -> CleanerView:
        """As `view`, after a look when the last one is too long ago (no cleaner may be alive to look), whatever becomes of that look."""
        if self._clock() - self._judged_ms > VIEW_AGE_MS_MAX:
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - what is known, above all that a cleaner is dead, must be told all the same
                self._say_no_look(error)
        return self.view()

    def _say_no_look(self, error: Exception) -> None:
        """Says why there was no look, once for each reason."""
        if self._told != repr(error):
            self._told = repr(error)
            log.error("the cleaner could not look at the logs; it is tried again", exc_info=error)

    def view(self) -> CleanerView:
        """The cleaner as a frozen picture."""
        totals = self._totals
        return CleanerView(
            is_enabled=self._threads > 0,
            threads=self._threads,
            dead_threads=self._dead_threads,
            backoff_ms=self._config.number("log.cleaner.backoff.ms"),
            at_work=tuple(self._at_work),
            looked_ms=self._looked_ms,
            cleaned_ms=totals.cleaned_ms,
            cleanings=totals.cleanings,
            read_bytes=totals.read_bytes,
            written_bytes=totals.written_bytes,
            recopy_ratio=totals.recopy_ratio,
            buffer_ratio=totals.buffer_ratio,
            last_clean_ms=totals.last_clean_ms,
            max_compaction_delay_ms=self._max_overdue_ms,
            max_dirty_ratio=max((each.dirty_ratio for each in self._known.values()), default=0.0),
            uncleanable=tuple(fault.fault for fault in self._faults.values()),
            uncleanable_bytes=sum(fault.size_bytes for fault in self._faults.values()),
            partitions=dict(self._known),
        )


def _judge(files: Files, logs: Sequence[Log], now_ms: int) -> list[Judged]:
    """How dirty the logs are; any thread."""
    judged = []
    for each in logs:
        try:
            state = candidate(each.view, each.checkpoint, now_ms, first_timestamp_ms=lambda segment: first_timestamp_ms(files, segment))
        except StorageError as error:
            judged.append(Judged(each, None, str(error)))
        else:
            judged.append(Judged(each, state))
    return judged
