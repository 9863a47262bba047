"""ListOffsets (2), v1-11: the offset for a timestamp, or earliest (-2), latest (-1), of the maximum timestamp (-3).

The ends of a log are answered at once. A worker thread looks a timestamp up, since it must read batches; the request is parked. A
consumer with read_committed gets the last stable offset as the end (KIP-98). Version notes: v2+ carries the isolation level; v4+ leader
epochs (KIP-320); v7+ has -3 (KIP-734), v8+ earliest local (-4, the same as earliest here), v9+ latest tiered (-5), v11+ earliest
pending upload (-6): there is no tiered storage, so both return "none" as Kafka does without remote storage.
"""

from collections import Counter
from typing import Any, NamedTuple

from ottla.broker.cluster.brokers import Node, PartitionOpening
from ottla.broker.fetch.partition_reading import TimestampLookups, TimestampQuery, leader_epoch_error, visible_end
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import Background, RequestScheduler, Work
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_READ_COMMITTED = 1
FOUND_PER_PIECE = 32
"""Partitions that are read before other requests continue."""
Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""
_NONE: Found = (-1, -1, -1)
"""No offset."""


class _Later(NamedTuple):
    """A partition whose answer goes to `partitions[number]` when the lookup has ended."""

    topic: str
    part: Any
    partitions: dict[int, dict[str, Any]]
    wanted: TimestampQuery


_Answers = list[tuple[str, dict[int, dict[str, Any]]]]
"""Each topic's partitions, by number."""


class ListOffsets:
    """What ListOffsets uses of one broker."""

    def __init__(
        self,
        *,
        background: Background,
        node: Node,
        partition_opening: PartitionOpening,
        scheduler: RequestScheduler,
        timestamp_lookups: TimestampLookups,
    ) -> None:
        self._background = background
        self._node = node
        self._partition_opening = partition_opening
        self._scheduler = scheduler
        self._timestamp_lookups = timestamp_lookups

    def handle(self, request: Request) -> None:
        """Answer when the partitions are open."""
        named = ((topic.name, part.partition_index) for topic in request.message.topics for part in topic.partitions)
        self._partition_opening.then(request, named, lambda: self._find_all(request))

    def _find_all(self, request: Request) -> Work:
        """Answer with (timestamp, offset, leader epoch) a partition; one that is named twice gets an error, once."""
        message = request.message
        committed_only = getattr(message, "isolation_level", 0) == _READ_COMMITTED
        named = Counter((topic.name, part.partition_index) for topic in message.topics for part in topic.partitions)
        answers: _Answers = []
        later: list[_Later] = []
        count = 0
        for topic in message.topics:
            partitions: dict[int, dict[str, Any]] = {}
            for part in topic.partitions:
                error, found = ErrorCode.INVALID_REQUEST, _NONE
                if named[topic.name, part.partition_index] == 1:
                    error, answer = self._partition(request.version, topic.name, part, committed_only)
                    if isinstance(answer, TimestampQuery):
                        later.append(_Later(topic.name, part, partitions, answer))
                    else:
                        found = answer
                partitions[part.partition_index] = _answer(part.partition_index, error, found)
                count += 1
                if count % FOUND_PER_PIECE == 0:
                    yield
            answers.append((topic.name, partitions))
        if later:
            task = self._background.start(request, self._answer_later(request, answers, later, committed_only))

            def on_disconnect() -> None:
                task.cancel()

            request.on_disconnect = on_disconnect
        else:
            self._reply(request, answers)

    def _reply(self, request: Request, answers: _Answers) -> None:
        topics = [{"name": name, "partitions": tuple(partitions.values())} for name, partitions in answers]
        self._scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": topics}))

    async def _answer_later(self, request: Request, answers: _Answers, later: list[_Later], committed_only: bool) -> None:
        found = await self._timestamp_lookups.look_up([each.wanted for each in later])
        for each, one in zip(later, found, strict=True):
            number = each.part.partition_index
            each.partitions[number] = _answer(number, *self._visible(each, one, committed_only))
        self._reply(request, answers)

    def _partition(self, version: int, topic: str, part: Any, committed_only: bool) -> tuple[ErrorCode, Found | TimestampQuery]:
        """An error, or what was found, or what must be looked up for it."""
        try:
            partition = self._node.led(topic, part.partition_index)
            if isinstance(partition, ErrorCode):
                return partition, _NONE
            if version < _FIRST_VERSION.get(part.timestamp, 1) or part.timestamp < EARLIEST_PENDING_UPLOAD:
                return ErrorCode.UNSUPPORTED_VERSION, _NONE
            error = leader_epoch_error(getattr(part, "current_leader_epoch", -1), partition.log.leader_epoch)
            return error, _NONE if error is not ErrorCode.NONE else _find(partition.log, part.timestamp, committed_only)
        except StorageError as failed:
            return failed.code, _NONE

    def _visible(self, later: _Later, found: tuple[int, int] | StorageError | None, committed_only: bool) -> tuple[ErrorCode, Found]:
        """What a lookup found, unless the partition has been deleted or moved meanwhile, or the reader may not see it."""
        try:
            partition = self._node.led(later.topic, later.part.partition_index)
            if isinstance(partition, ErrorCode):
                return partition, _NONE
            if isinstance(found, StorageError):
                return found.code, _NONE
            if found is None or found[1] >= visible_end(partition.log, committed_only):
                return ErrorCode.NONE, _NONE
            return ErrorCode.NONE, (*found, _epoch_at(partition.log, found[1]))
        except StorageError as failed:
            return failed.code, _NONE


def _answer(number: int, error: ErrorCode, found: Found) -> dict[str, Any]:
    timestamp_ms, offset, leader_epoch = found
    return {"partition_index": number, "error_code": error, "timestamp": timestamp_ms, "offset": offset, "leader_epoch": leader_epoch}


def _find(log: PartitionLog, timestamp_ms: int, committed_only: bool) -> Found | TimestampQuery:
    if timestamp_ms == LATEST:
        return -1, visible_end(log, committed_only), log.leader_epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, _epoch_at(log, log.log_start_offset)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD) or log.log_start_offset == log.log_end_offset:
        return _NONE
    return TimestampQuery(log.timestamps(), None if timestamp_ms == MAX_TIMESTAMP else timestamp_ms)


def _epoch_at(log: PartitionLog, offset: int) -> int:
    """The leader epoch that the record at `offset` was written in; the present one where none was written yet."""
    known = [start.epoch for start in log.leader_epochs if start.start_offset <= offset]
    return known[-1] if known else log.leader_epoch


def _refuse(topic: Any, error: ErrorCode) -> dict[str, Any]:
    return {"name": topic.name, "partitions": [_answer(partition.partition_index, error, _NONE) for partition in topic.partitions]}


API = Api(
    key=ApiKey.LIST_OFFSETS,
    versions=range(1, 12),
    handle=ListOffsets,
    elements_max=20_000,
    access=(Access(Operation.DESCRIBE, ResourceType.TOPIC, "topics[].name", refuse=_refuse, answers="topics"),),
)
