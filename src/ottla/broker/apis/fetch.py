"""Fetch (1), v4-18: hands out record batches as they lie in the log, and waits at its end for more.

Version notes: v7+ keeps what a client asks for in a session (KIP-227), and later requests name only what changes; v12+ is flexible, and a
reader that names the epoch of its last record is told where its log leaves ours (KIP-595); v13+ names topics by id (KIP-516); v16+ tells
a reader with an old leader epoch who leads (KIP-951). An answer is a few small heads around whole ranges of the log's bytes; nothing is
copied or parsed per record. Records that are not in memory are read by another thread while the request waits.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.answer_memory import SMALL_BYTES
from ottla.broker.api import Api, Request, nothing
from ottla.broker.delayed import Delayed
from ottla.broker.fetch_answer import encode_fetch_answer
from ottla.broker.fetch_reading import Found, next_offset, read_partition, visible_end
from ottla.broker.fetch_request import FIRST_VERSION_WITH_TOPIC_IDS, FetchRequest, decode_fetch_request
from ottla.broker.fetch_sessions import NO_SESSION, FetchContext, FetchedPartition
from ottla.broker.partitions import NotOpen, Partition
from ottla.broker.request_scheduler import Work
from ottla.core.catalogue.catalogue import Topic
from ottla.core.errors import ErrorCode, StorageError
from ottla.storage.files import ColdRead

if TYPE_CHECKING:
    from ottla.broker.node import Node

READ_COMMITTED = 1
ANSWER_BYTES_ENOUGH = 256 * 1024
"""No more in one answer unless it must be: what fits the processor's caches on both sides goes through faster (benchmarks/RESULTS.md)."""
ANSWER_BYTES_MAX = 1024 * 1024
"""No more even for those who ask for it (fetch.min.bytes), but for a single larger batch: who then does not read costs no more."""
RESOLVED_PER_ITERATION = 256
"""Partitions that one request finds before the event loop continues with other work."""
READ_AT_ONCE_MAX = 256
"""Partitions that are read in one piece: more are read in several iterations of the event loop."""
COLD_READS_AT_ONCE_MAX = 8
COLD_ROUNDS_MAX = 4
"""What was brought into memory may be gone again when memory is short: after so many rounds the loop itself waits for one range."""


def handle(node: "Node", request: Request) -> None:
    """Answers at once when there is enough, something is wrong, or nobody wants to wait; otherwise when the log has grown or time is up."""
    asked = decode_fetch_request(request.buffer, request.body_at, request.version)
    context = node.fetch_sessions.context(
        asked.session_id,
        asked.session_epoch,
        asked.partitions,
        asked.forgotten,
        uses_topic_ids=request.version >= FIRST_VERSION_WITH_TOPIC_IDS,
        now_ms=node.cluster.clock(),
    )
    if isinstance(context, ErrorCode):
        request.reply_body(encode_fetch_answer(request.version, context, NO_SESSION, [], node.cluster.endpoint))
        return
    _Fetch(node, request, asked, context).begin(None)


class _Fetch:
    """One request from its first look to its answer."""

    __slots__ = (
        "bytes_max", "bytes_min", "cold_rounds", "committed_only", "context", "counted", "deadline_s", "delayed", "ends", "found",
        "is_enough", "is_over", "left", "memory", "missing", "node", "parts", "readable", "request", "resolved", "size",
        "unreadable", "wait_s",
    )  # fmt: skip

    def __init__(self, node: "Node", request: Request, asked: FetchRequest, context: FetchContext) -> None:
        bytes_max = min(asked.bytes_max, node.cluster.config.number("fetch.max.bytes"))
        self.bytes_min = min(asked.bytes_min, bytes_max, ANSWER_BYTES_MAX)
        self.bytes_max = min(bytes_max, max(self.bytes_min, ANSWER_BYTES_ENOUGH))
        self.committed_only = asked.isolation_level == READ_COMMITTED
        self.wait_s = asked.wait_ms_max / 1000
        self.deadline_s = 0.0
        self.node = node
        self.memory = node.cluster.answer_memory
        self.size = self.left = self.counted = 0
        self.is_enough = False
        self.request = request
        self.context = context
        self.delayed: Delayed | None = None
        self.cold_rounds = 0
        self.is_over = False
        self.missing = 0
        self.ends: list[int] = []
        self.found: list[Found] = []
        self.readable: list[tuple[FetchedPartition, Partition]] = []
        self.unreadable: list[Found] = []
        self.parts = tuple(context.partitions.values())
        self.resolved = 0

    def begin(self, _opened: object) -> None:
        """Finds the partitions, then looks; over several iterations of the loop when there are many, or when some must be opened."""
        if self.is_over:
            return
        first = self.resolved
        for place, part in enumerate(self.parts[first:] if first else self.parts, first):
            partition = part.partition
            if partition is None or partition.leader != self.node.id:
                try:
                    partition = self._resolve(part)
                except NotOpen:
                    self._begin_again(place, self._unopened(place))
                    return
            if partition is not None:
                self.readable.append((part, partition))
            if place - first == RESOLVED_PER_ITERATION - 1:
                self._begin_again(place + 1, [])
                return
        if not self.readable:
            self.wait_s = 0
        if not self.look(time_is_up=self.wait_s <= 0):
            self.park()

    def _begin_again(self, place: int, unopened: list[tuple[Topic, int]]) -> None:
        """Continues with the partition at `place` in a later iteration of the loop, when none of `unopened` must be opened any more."""
        self.resolved = place
        self.request.gone = self._is_gone
        self.request.buffer = memoryview(b"")
        if not unopened:
            asyncio.get_running_loop().call_soon(self.request.guarded(self.begin), None)
            return
        task = self.node.cluster.background.start(self.request, self._open_then_begin(unopened))

        def gone() -> None:
            task.cancel()
            self._is_gone()

        self.request.gone = gone

    async def _open_then_begin(self, unopened: list[tuple[Topic, int]]) -> None:
        await self.node.cluster.partitions.open_all(unopened)
        self.request.gone = self._is_gone
        self.begin(None)

    def _unopened(self, place: int) -> list[tuple[Topic, int]]:
        """The partition at `place` and those of the next ones that must be opened too."""
        partitions = self.node.cluster.partitions
        named = ((self._topic(part)[0], part.key[1]) for part in self.parts[place : place + RESOLVED_PER_ITERATION])
        return [(topic, number) for topic, number in named if topic is not None and not partitions.is_ready(topic, number)]

    def _topic(self, part: FetchedPartition) -> tuple[Topic | None, ErrorCode]:
        """The topic, or why there is none; a topic of a session keeps its name when it is gone, and another one may come under it."""
        topic, catalogue = part.key[0], self.node.cluster.catalogue
        if not isinstance(topic, bytes):
            return catalogue.topics.get(topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        known = catalogue.topics_by_id.get(topic)
        if known is not None or part.topic_name is None:
            return known, ErrorCode.UNKNOWN_TOPIC_ID
        is_replaced = part.topic_name in catalogue.topics
        return None, ErrorCode.INCONSISTENT_TOPIC_ID if is_replaced else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _resolve(self, part: FetchedPartition) -> Partition | None:
        """Finds the partition. Raises NotOpen."""
        part.partition = None
        known, missing = self._topic(part)
        if known is not None:
            part.topic_name = known.name
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            try:
                part.partition = self.node.cluster.partitions.get(known, part.key[1])
            except NotOpen:
                raise
            except StorageError as error:
                missing = error.code
        if part.partition is not None and part.partition.leader != self.node.id:
            # The answer is found at once: whoever asks looks for the leader then.
            self.wait_s = 0
            self.unreadable.append(Found(part, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return None
        if part.partition is None:
            # Apache Kafka lets the others wait when a topic is not there, and answers at once when something is wrong with it.
            is_wrong = missing not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.wait_s = 0 if is_wrong else self.wait_s
            self.unreadable.append(Found(part, missing, aborted=None if is_wrong else ()))
        return part.partition

    def look(self, time_is_up: bool) -> bool:
        """Reads what there is and answers when that is enough. True: nobody need ask again, it is answered or will be."""
        if self.is_over:
            return True
        if self.ends and not time_is_up and not self._has_grown_enough():
            return False
        self.ends = []
        self._begin_to_read()
        if len(self.readable) > READ_AT_ONCE_MAX:
            self._begin_to_wait()
            self.node.cluster.scheduler.run(self.request, self._look_in_pieces(time_is_up))
            return True
        cold: list[ColdRead] = []
        self._read(self.readable, cold)
        return self._decide(cold, time_is_up)

    def _look_in_pieces(self, time_is_up: bool) -> Work:
        cold: list[ColdRead] = []
        for first in range(0, len(self.readable), READ_AT_ONCE_MAX):
            self._read(self.readable[first : first + READ_AT_ONCE_MAX], cold)
            if len(cold) >= COLD_READS_AT_ONCE_MAX:
                break
            yield
        self.request.gone = self._is_gone
        if not self._decide(cold, time_is_up):
            self.park()

    def _decide(self, cold: list[ColdRead], time_is_up: bool) -> bool:
        """What comes of the records that were read, as in `look`."""
        is_enough = self.is_enough or self.counted >= self.bytes_min
        if self.bytes_min > 1 and not (self.is_enough or cold):
            self.missing = self.bytes_min - self.counted
            self.ends = [visible_end(partition.log, self.committed_only) for _, partition in self.readable]
        if cold:
            self._warm(cold)
            return True
        if is_enough or time_is_up:
            if self.memory.has_room(self.size):
                self._answer()
            else:
                self._wait_for_memory()
            return True
        self.found = []  # it is read again when there is more: a fetch that waits holds no records
        return False

    def _begin_to_read(self) -> None:
        self.found = []
        self.left = self.bytes_max if self.memory.has_room(self.bytes_max) else SMALL_BYTES
        self.size = self.counted = 0
        self.is_enough = False

    def _read(self, readable: Sequence[tuple[FetchedPartition, Partition]], cold: list[ColdRead]) -> None:
        """Reads partitions in order while there is room; the very first batch comes even if it is too large."""
        found, left, total, counted, is_enough = self.found, self.left, self.size, self.counted, self.is_enough
        is_incremental = self.context.session is not None
        waits_for_disk = self.cold_rounds >= COLD_ROUNDS_MAX
        for part, partition in readable:
            if partition.leader != self.node.id:  # while the request waited
                missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition.deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER
                found.append(Found(part, missing))
                is_enough = True
                continue
            if is_incremental and _has_no_news(part, partition):
                continue
            room = min(part.bytes_max, left)
            try:
                got = self._read_one(part, partition, room, at_least_one=total == 0, wait=waits_for_disk and total == 0)
            except ColdRead as cold_read:
                if not waits_for_disk:
                    cold.append(cold_read)
                    if len(cold) == COLD_READS_AT_ONCE_MAX:
                        break
                    continue
                got = self._read_one(part, partition, 0, at_least_one=False, wait=False)
            found.append(got)
            total += len(got.records)
            left -= len(got.records)
            if counted < self.bytes_min:
                counted += self._counts(got, partition, room)
            if got.error is not ErrorCode.NONE or got.diverging is not None:
                is_enough = True
        self.left, self.size, self.counted, self.is_enough = left, total, counted, is_enough

    def _counts(self, got: Found, partition: Partition, room: int) -> int:
        """How many bytes a partition has towards those that are waited for: Apache Kafka would fill the room with part of a batch."""
        size = len(got.records)
        if size >= min(room, self.bytes_min):
            return size
        position = next_offset(got.records) if size else got.part.offset
        return room if position < visible_end(partition.log, self.committed_only) else size

    def _has_grown_enough(self) -> bool:
        """Who waits for many bytes is woken often: only what is new is counted, until it is worth reading all of it. True when in doubt."""
        for place, (_, partition) in enumerate(self.readable):
            if partition.leader != self.node.id:
                return True
            log, begin = partition.log, self.ends[place]
            end = visible_end(log, self.committed_only)
            if end > begin:
                try:
                    added = log.read(begin, self.missing, wait=False, end_offset=end)
                except (ColdRead, StorageError):
                    return True
                if not added:
                    return True
                self.ends[place] = next_offset(added)
                self.missing -= len(added)
                if self.missing <= 0:
                    return True
        return False

    def _read_one(self, part: FetchedPartition, partition: Partition, room: int, *, at_least_one: bool, wait: bool) -> Found:
        try:
            return read_partition(part, partition.log, room, at_least_one=at_least_one, committed_only=self.committed_only, wait=wait)
        except StorageError as error:
            partition.report(error)
            return Found(part, error.code)

    # waiting

    def park(self) -> None:
        """Waits until one of the partitions grows, or time is up."""
        loop = self._begin_to_wait()
        partitions = [partition for _, partition in self.readable]
        self.delayed = Delayed(loop, partitions, self._look_again, max(self.deadline_s - loop.time(), 0))

    def _look_again(self, time_is_up: bool) -> bool:
        try:
            return self.look(time_is_up)
        except Exception as error:  # noqa: BLE001 - the connection says it in the log
            self.request.fail(error)
            return True

    def _begin_to_wait(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if not self.deadline_s:
            self.deadline_s = loop.time() + self.wait_s
            self.request.gone = self._is_gone
            self.request.buffer = memoryview(b"")  # it may be large, and is not read again
        return loop

    def _warm(self, cold: list[ColdRead]) -> None:
        loop = self._begin_to_wait()
        self.cold_rounds += 1
        loop.run_in_executor(None, _warm_all, cold).add_done_callback(self.request.guarded(self._is_warm))

    def _is_warm(self, _done: "asyncio.Future[None] | None") -> None:
        if not self.is_over and not self.look(asyncio.get_running_loop().time() >= self.deadline_s):
            self.park()

    def _wait_for_memory(self) -> None:
        """Readers that do not take their answers hold what there is for all of them: what was read goes, and is read again."""
        self._begin_to_wait()
        self.found = []
        self.memory.wait(self, self.size)

    def memory_is_free(self) -> None:
        """There is room for as much as was found when it was last looked."""
        self.request.guarded(self._is_warm)(None)

    def _is_gone(self) -> None:
        """Nobody waits for the answer any more."""
        self.is_over = True
        self.request.gone = nothing
        self.memory.forget(self)
        if self.delayed is not None:
            self.delayed.cancel()

    # answering

    def _answer(self) -> None:
        self.is_over = True
        request, context = self.request, self.context
        request.gone = nothing
        found = self.found + self.unreadable if self.unreadable else self.found
        error, session_id = ErrorCode.NONE, NO_SESSION
        if context.session is not None:
            session_id = context.session.id
            if context.is_overtaken:
                error, found = ErrorCode.INVALID_FETCH_SESSION_EPOCH, []
            else:
                found = [got for got in found if self._is_news(got)]
                for got in found:
                    if got.records:
                        context.session.goes_last(got.part)
        elif context.wants_session:
            for got in found:
                got.part.is_told(got.high_watermark, got.log_start_offset, is_error=got.error is not ErrorCode.NONE)
            session_id = self.node.fetch_sessions.make(context, self.node.cluster.clock())
        request.reply_body(encode_fetch_answer(request.version, error, session_id, found, self.node.cluster.endpoint))

    @staticmethod
    def _is_news(got: Found) -> bool:
        told = got.part.is_told(got.high_watermark, got.log_start_offset, is_error=got.error is not ErrorCode.NONE)
        return told or len(got.records) > 0 or got.diverging is not None


def _has_no_news(part: FetchedPartition, partition: Partition) -> bool:
    """Whether an incremental answer can pass over a partition without looking closer: its reader is at the end and has been told all."""
    log = partition.log
    return (
        part.offset == part.high_watermark == log.high_watermark
        and part.log_start_offset == log.log_start_offset
        and part.last_fetched_epoch < 0
        and part.current_leader_epoch in (-1, log.leader_epoch)
    )


def _warm_all(cold: list[ColdRead]) -> None:
    """Runs in a worker thread. What cannot be read is told by the read that comes next."""
    for each in cold:
        try:
            each.warm()
        except StorageError:
            return


API = Api(key=1, versions=range(4, 19), handle=handle, decodes_itself=True)
