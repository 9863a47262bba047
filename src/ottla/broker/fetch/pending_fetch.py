"""One Fetch from its start to its response: finds the partitions, reads them, and waits for more bytes, the disk or memory.

A response consists of a few small headers around whole ranges of the log's bytes; nothing is copied or parsed per record. Another thread
reads records that are not in memory, and the request is parked meanwhile. Source: Kafka's `DelayedFetch` and `ReplicaManager`.
"""

import asyncio
from collections.abc import Callable, Sequence

from ottla.broker.fetch.messages import NO_SESSION, FetchedPartition, FetchPartitionData, FetchRequest, encode_fetch_response
from ottla.broker.fetch.partition_reading import has_no_news, next_offset, read_partition, visible_end
from ottla.broker.fetch.sessions import FetchContext, FetchSessions
from ottla.broker.network.memory import SMALL_BYTES, ResponseMemory
from ottla.broker.network.request import Request, nothing
from ottla.broker.network.scheduling import Background, RequestScheduler, Work
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import NotOpen, Partitions
from ottla.config import BrokerConfig
from ottla.log.file_system import ColdRead
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.security.access import Operation, ResourceType

READ_COMMITTED = 1
RESPONSE_BYTES_ENOUGH = 256 * 1024
"""No more in one response unless necessary: what fits the processor's caches on both sides goes through faster (benchmarks/RESULTS.md)."""
RESPONSE_BYTES_MAX = 1024 * 1024
"""No more even where fetch.min.bytes asks for it, except for a single larger batch: a client that does not read it costs no more memory."""
RESOLVED_PER_ITERATION = 256
"""Partitions that one request finds before the event loop continues with other work."""
READ_AT_ONCE_MAX = 256
"""Partitions that are read at once: more are read in several iterations of the event loop."""
COLD_READS_AT_ONCE_MAX = 8
COLD_ATTEMPTS_MAX = 4
"""When memory is short, ranges may be evicted before they are read: after so many attempts the event loop itself waits for one range."""


class FetchCollaborators:
    """What the fetches of one broker use. `endpoint` knows the brokers by id."""

    __slots__ = (
        "background", "clock", "cluster_metadata", "config", "endpoint", "memory", "node_id", "partitions", "scheduler", "sessions",
    )  # fmt: skip

    def __init__(
        self,
        *,
        background: Background,
        clock: Callable[[], int],
        cluster_metadata: ClusterMetadata,
        config: BrokerConfig,
        memory: ResponseMemory,
        node_id: int,
        partitions: Partitions,
        scheduler: RequestScheduler,
        sessions: FetchSessions,
    ) -> None:
        self.background = background
        self.clock = clock
        self.cluster_metadata = cluster_metadata
        self.config = config
        self.memory = memory
        self.node_id = node_id
        self.partitions = partitions
        self.scheduler = scheduler
        self.sessions = sessions


class PendingFetch:
    """One request from its start to its response."""

    __slots__ = (
        "broker", "bytes_max", "bytes_min", "cold_attempts", "committed_only", "context", "counted", "deadline_s", "delayed", "ends",
        "found", "is_enough", "is_over", "left", "memory", "missing", "parts", "readable", "request", "resolved", "size",
        "unreadable", "wait_s",
    )  # fmt: skip

    def __init__(self, broker: FetchCollaborators, request: Request, asked: FetchRequest, context: FetchContext) -> None:
        bytes_max = min(asked.bytes_max, broker.config.number("fetch.max.bytes"))
        self.bytes_min = min(asked.bytes_min, bytes_max, RESPONSE_BYTES_MAX)
        self.bytes_max = min(bytes_max, max(self.bytes_min, RESPONSE_BYTES_ENOUGH))
        self.committed_only = asked.isolation_level == READ_COMMITTED
        self.wait_s = asked.wait_ms_max / 1000
        self.deadline_s = 0.0
        self.broker = broker
        self.memory = broker.memory
        self.size = self.left = self.counted = 0
        self.is_enough = False
        self.request = request
        self.context = context
        self.delayed: DelayedFetch | None = None
        self.cold_attempts = 0
        self.is_over = False
        self.missing = 0
        self.ends: list[int] = []
        self.found: list[FetchPartitionData] = []
        self.readable: list[tuple[FetchedPartition, Partition]] = []
        self.unreadable: list[FetchPartitionData] = []
        self.parts = tuple(context.partitions.values())
        self.resolved = 0

    def start(self, _opened: object) -> None:
        """Find the partitions, then read them; over several iterations of the loop when there are many, or some must be opened."""
        if self.is_over:
            return
        first, is_checked = self.resolved, self.request.session.authorizer is not None
        for place, part in enumerate(self.parts[first:] if first else self.parts, first):
            partition = part.partition
            if partition is None or is_checked or partition.leader != self.broker.node_id:
                try:
                    partition = self._resolve(part)
                except NotOpen:
                    self._continue_at(place, self._unopened(place))
                    return
            if partition is not None:
                self.readable.append((part, partition))
            if place - first == RESOLVED_PER_ITERATION - 1:
                self._continue_at(place + 1, [])
                return
        if not self.readable:
            self.wait_s = 0
        if not self.try_to_answer(time_is_up=self.wait_s <= 0):
            self.park()

    def _continue_at(self, place: int, unopened: list[tuple[Topic, int]]) -> None:
        """Continues with the partition at `place` in a later iteration of the loop, when none of `unopened` must be opened any more."""
        self.resolved = place
        self.request.on_disconnect = self._client_has_disconnected
        self.request.buffer = memoryview(b"")
        if not unopened:
            asyncio.get_running_loop().call_soon(self.request.guarded(self.start), None)
            return
        task = self.broker.background.start(self.request, self._open_then_start(unopened))

        def cancel() -> None:
            task.cancel()
            self._client_has_disconnected()

        self.request.on_disconnect = cancel

    async def _open_then_start(self, unopened: list[tuple[Topic, int]]) -> None:
        await self.broker.partitions.open_all(unopened)
        self.request.on_disconnect = self._client_has_disconnected
        self.start(None)

    def _unopened(self, place: int) -> list[tuple[Topic, int]]:
        """The partition at `place` and those of the next ones that must be opened too."""
        partitions = self.broker.partitions
        named = ((self._topic(part)[0], part.key[1]) for part in self.parts[place : place + RESOLVED_PER_ITERATION])
        return [(topic, number) for topic, number in named if topic is not None and not partitions.is_ready(topic, number)]

    def _topic(self, part: FetchedPartition) -> tuple[Topic | None, ErrorCode]:
        """The topic, or why there is none; a session remembers the name of a deleted topic, and another topic may have it now."""
        topic, cluster_metadata = part.key[0], self.broker.cluster_metadata
        if not isinstance(topic, bytes):
            return cluster_metadata.topics.get(topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        known = cluster_metadata.topics_by_id.get(topic)
        if known is not None or part.topic_name is None:
            return known, ErrorCode.UNKNOWN_TOPIC_ID
        is_replaced = part.topic_name in cluster_metadata.topics
        return None, ErrorCode.INCONSISTENT_TOPIC_ID if is_replaced else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _resolve(self, part: FetchedPartition) -> Partition | None:
        """Find the partition. Raises NotOpen."""
        part.partition = None
        known, missing = self._topic(part)
        if self.request.session.authorizer is not None and not self._may_read(part, known):
            self.wait_s = 0
            self.unreadable.append(FetchPartitionData(part, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            return None
        if known is not None:
            part.topic_name = known.name
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            try:
                part.partition = self.broker.partitions.get(known, part.key[1])
            except NotOpen:
                raise
            except StorageError as error:
                missing = error.code
        if part.partition is not None and part.partition.leader != self.broker.node_id:
            # The response is sent at once: the client looks for the leader then.
            self.wait_s = 0
            self.unreadable.append(FetchPartitionData(part, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return None
        if part.partition is None:
            # Apache Kafka lets the others wait when a topic is not there, and answers at once when something is wrong with it.
            is_wrong = missing not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.wait_s = 0 if is_wrong else self.wait_s
            self.unreadable.append(FetchPartitionData(part, missing, aborted=None if is_wrong else ()))
        return part.partition

    def _may_read(self, part: FetchedPartition, topic: Topic | None) -> bool:
        """A topic that is named by an id that no topic has is missing rather than refused, as in Kafka: ids are no secret."""
        name = topic.name if topic is not None else part.key[0]
        return isinstance(name, bytes) or self.request.session.may(Operation.READ, ResourceType.TOPIC, name)

    def try_to_answer(self, time_is_up: bool) -> bool:
        """Read what there is and answer when that is enough. True when no further try is needed: it is answered, or will be."""
        if self.is_over:
            return True
        if self.ends and not time_is_up and not self._has_grown_enough():
            return False
        self.ends = []
        self._start_reading()
        if len(self.readable) > READ_AT_ONCE_MAX:
            self._start_waiting()
            self.broker.scheduler.run(self.request, self._try_in_batches(time_is_up))
            return True
        cold: list[ColdRead] = []
        self._read(self.readable, cold)
        return self._decide(cold, time_is_up)

    def _try_in_batches(self, time_is_up: bool) -> Work:
        cold: list[ColdRead] = []
        for first in range(0, len(self.readable), READ_AT_ONCE_MAX):
            self._read(self.readable[first : first + READ_AT_ONCE_MAX], cold)
            if len(cold) >= COLD_READS_AT_ONCE_MAX:
                break
            yield
        self.request.on_disconnect = self._client_has_disconnected
        if not self._decide(cold, time_is_up):
            self.park()

    def _decide(self, cold: list[ColdRead], time_is_up: bool) -> bool:
        """Decide what follows from the records that were read, as in `try_to_answer`."""
        is_enough = self.is_enough or self.counted >= self.bytes_min
        if self.bytes_min > 1 and not (self.is_enough or cold):
            self.missing = self.bytes_min - self.counted
            self.ends = [visible_end(partition.log, self.committed_only) for _, partition in self.readable]
        if cold:
            self._fill_cache(cold)
            return True
        if is_enough or time_is_up:
            if self.memory.has_room(self.size):
                self._answer()
            else:
                self._wait_for_memory()
            return True
        self.found = []  # it is read again when there is more: a fetch that waits holds no records
        return False

    def _start_reading(self) -> None:
        self.found = []
        self.left = self.bytes_max if self.memory.has_room(self.bytes_max) else SMALL_BYTES
        self.size = self.counted = 0
        self.is_enough = False

    def _read(self, readable: Sequence[tuple[FetchedPartition, Partition]], cold: list[ColdRead]) -> None:
        """Read partitions in order while there is room; the very first batch is read even if it is too large."""
        found, left, total, counted, is_enough = self.found, self.left, self.size, self.counted, self.is_enough
        is_incremental = self.context.session is not None
        waits_for_disk = self.cold_attempts >= COLD_ATTEMPTS_MAX
        for part, partition in readable:
            if partition.leader != self.broker.node_id:  # while the request waited
                missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition.deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER
                found.append(FetchPartitionData(part, missing))
                is_enough = True
                continue
            if is_incremental and has_no_news(part, partition.log):
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

    def _counts(self, got: FetchPartitionData, partition: Partition, room: int) -> int:
        """How many bytes of a partition count towards min.bytes: Apache Kafka would fill the rest of the response with part of a batch."""
        size = len(got.records)
        if size >= min(room, self.bytes_min):
            return size
        position = next_offset(got.records) if size else got.part.offset
        return room if position < visible_end(partition.log, self.committed_only) else size

    def _has_grown_enough(self) -> bool:
        """Count only new bytes, until it is worth reading all: a client that waits for many bytes is woken often. True when in doubt."""
        for place, (_, partition) in enumerate(self.readable):
            if partition.leader != self.broker.node_id:
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

    def _read_one(self, part: FetchedPartition, partition: Partition, room: int, *, at_least_one: bool, wait: bool) -> FetchPartitionData:
        try:
            return read_partition(part, partition.log, room, at_least_one=at_least_one, committed_only=self.committed_only, wait=wait)
        except StorageError as error:
            partition.report(error)
            return FetchPartitionData(part, error.code)

    # waiting

    def park(self) -> None:
        """Wait until one of the partitions grows, or time is up."""
        loop = self._start_waiting()
        partitions = [partition for _, partition in self.readable]
        self.delayed = DelayedFetch(loop, partitions, self._retry, max(self.deadline_s - loop.time(), 0))

    def _retry(self, time_is_up: bool) -> bool:
        try:
            return self.try_to_answer(time_is_up)
        except Exception as error:  # noqa: BLE001 - the connection logs it
            self.request.fail(error)
            return True

    def _start_waiting(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if not self.deadline_s:
            self.deadline_s = loop.time() + self.wait_s
            self.request.on_disconnect = self._client_has_disconnected
            self.request.buffer = memoryview(b"")  # it may be large, and is not read again
        return loop

    def _fill_cache(self, cold: list[ColdRead]) -> None:
        loop = self._start_waiting()
        self.cold_attempts += 1
        loop.run_in_executor(None, _fill_caches, cold).add_done_callback(self.request.guarded(self._cache_is_filled))

    def _cache_is_filled(self, _done: "asyncio.Future[None] | None") -> None:
        if not self.is_over and not self.try_to_answer(asyncio.get_running_loop().time() >= self.deadline_s):
            self.park()

    def _wait_for_memory(self) -> None:
        """Drop what was read, and read it again when there is memory: clients that do not read their responses hold all of it."""
        self._start_waiting()
        self.found = []
        self.memory.wait(self, self.size)

    def memory_is_free(self) -> None:
        """There is memory for as much as the last try found."""
        self.request.guarded(self._cache_is_filled)(None)

    def _client_has_disconnected(self) -> None:
        """The client has disconnected."""
        self.is_over = True
        self.request.on_disconnect = nothing
        self.memory.forget(self)
        if self.delayed is not None:
            self.delayed.cancel()

    # answering

    def _answer(self) -> None:
        self.is_over = True
        request, context = self.request, self.context
        request.on_disconnect = nothing
        found = self.found + self.unreadable if self.unreadable else self.found
        error, session_id = ErrorCode.NONE, NO_SESSION
        if context.session is not None:
            session_id = context.session.id
            if context.is_superseded:
                error, found = ErrorCode.INVALID_FETCH_SESSION_EPOCH, []
            else:
                found = [got for got in found if self._is_news(got)]
                for got in found:
                    if got.records:
                        context.session.move_to_back(got.part)
        elif context.wants_session:
            for got in found:
                got.part.record_sent(got.high_watermark, got.log_start_offset, is_error=got.error is not ErrorCode.NONE)
            session_id = self.broker.sessions.create(context, self.broker.clock())
        request.reply_body(encode_fetch_response(request.version, error, session_id, found, request.session.endpoint))

    @staticmethod
    def _is_news(got: FetchPartitionData) -> bool:
        is_new = got.part.record_sent(got.high_watermark, got.log_start_offset, is_error=got.error is not ErrorCode.NONE)
        return is_new or len(got.records) > 0 or got.diverging is not None


def _fill_caches(cold: list[ColdRead]) -> None:
    """Runs in a worker thread. The next read reports what cannot be read."""
    for each in cold:
        try:
            each.fill_cache()
        except StorageError:
            return


class DelayedFetch:
    """Calls `try_again(False)` in the loop iteration after a partition grew, until it returns True; `try_again(True)` at the end."""

    __slots__ = ("_done", "_loop", "_partitions", "_scheduled", "_timer", "_try_again", "_wake")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, partitions: Sequence[Partition], try_again: Callable[[bool], bool], wait_s: float
    ) -> None:
        self._loop = loop
        self._partitions = partitions
        self._try_again = try_again
        self._done = self._scheduled = False
        self._wake = self._grew  # one bound method, so that it can be taken out of the sets again
        for partition in partitions:
            partition.waiters.add(self._wake)
        self._timer = loop.call_later(wait_s, self._expire)

    def _grew(self) -> None:
        # Several partitions often grow in one request: try once, after all of them, and after the producer has its response.
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._try)

    def _try(self) -> None:
        self._scheduled = False
        if not self._done and self._try_again(False):
            self.cancel()

    def _expire(self) -> None:
        if not self._done:
            self.cancel()
            self._try_again(True)

    def cancel(self) -> None:
        """Stop waiting: remove the timer, and the callbacks from the partitions."""
        self._done = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiters.discard(self._wake)
