"""ListOffsets (2), v1-11: the offset for a point in time: earliest (-2), latest (-1), of the largest timestamp (-3), or at a timestamp.

The ends of a log are answered at once. A timestamp is looked up in a worker thread, since batches must be read for it; the request waits.
A reader of what is committed sees no further than the last stable offset (KIP-98). Version notes: v2+ says which reader asks; v4+ carries
leader epochs (KIP-320); v7+ has -3 (KIP-734), v8+ earliest local (-4, the same as earliest here), v9+ latest tiered (-5), v11+ earliest
pending upload (-6): nothing is tiered, so both answer "none" as Kafka does without remote storage.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.after_opening import after_opening
from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.fetch_reading import leader_epoch_error, visible_end
from ottla.broker.request_scheduler import Work
from ottla.broker.timestamp_lookups import Wanted
from ottla.core.errors import ErrorCode, StorageError
from ottla.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.broker.node import Node

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
    wanted: Wanted


_Answers = list[tuple[str, dict[int, dict[str, Any]]]]
"""Each topic's partitions, by number."""


def handle(node: "Node", request: Request) -> None:
    """Answers when the partitions are open."""
    named = ((topic.name, part.partition_index) for topic in request.message.topics for part in topic.partitions)
    after_opening(node, request, named, lambda: _find_all(node, request))


def _find_all(node: "Node", request: Request) -> Work:
    """Answers with (timestamp, offset, leader epoch) a partition; one that is named twice gets an error, once."""
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
                error, answer = _partition(node, request.version, topic.name, part, committed_only)
                if isinstance(answer, Wanted):
                    later.append(_Later(topic.name, part, partitions, answer))
                else:
                    found = answer
            partitions[part.partition_index] = _answer(part.partition_index, error, found)
            count += 1
            if count % FOUND_PER_PIECE == 0:
                yield
        answers.append((topic.name, partitions))
    if later:
        task = node.cluster.background.start(request, _answer_later(node, request, answers, later, committed_only))

        def gone() -> None:
            task.cancel()

        request.gone = gone
    else:
        _reply(node, request, answers)


def _reply(node: "Node", request: Request, answers: _Answers) -> None:
    topics = [{"name": name, "partitions": tuple(partitions.values())} for name, partitions in answers]
    node.cluster.scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": topics}))


async def _answer_later(node: "Node", request: Request, answers: _Answers, later: list[_Later], committed_only: bool) -> None:
    found = await node.cluster.timestamp_lookups.look_up([each.wanted for each in later])
    for each, one in zip(later, found, strict=True):
        number = each.part.partition_index
        each.partitions[number] = _answer(number, *_visible(node, each, one, committed_only))
    _reply(node, request, answers)


def _answer(number: int, error: ErrorCode, found: Found) -> dict[str, Any]:
    timestamp_ms, offset, leader_epoch = found
    return {"partition_index": number, "error_code": error, "timestamp": timestamp_ms, "offset": offset, "leader_epoch": leader_epoch}


def _partition(node: "Node", version: int, topic: str, part: Any, committed_only: bool) -> tuple[ErrorCode, Found | Wanted]:
    """An error, or what was found, or what must be looked up for it."""
    try:
        partition = node.led(topic, part.partition_index)
        if isinstance(partition, ErrorCode):
            return partition, _NONE
        if version < _FIRST_VERSION.get(part.timestamp, 1) or part.timestamp < EARLIEST_PENDING_UPLOAD:
            return ErrorCode.UNSUPPORTED_VERSION, _NONE
        error = leader_epoch_error(getattr(part, "current_leader_epoch", -1), partition.log.leader_epoch)
        return error, _NONE if error is not ErrorCode.NONE else _find(partition.log, part.timestamp, committed_only)
    except StorageError as failed:
        return failed.code, _NONE


def _find(log: PartitionLog, timestamp_ms: int, committed_only: bool) -> Found | Wanted:
    if timestamp_ms == LATEST:
        return -1, visible_end(log, committed_only), log.leader_epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, _epoch_at(log, log.log_start_offset)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD) or log.log_start_offset == log.log_end_offset:
        return _NONE
    return Wanted(log.timestamps(), None if timestamp_ms == MAX_TIMESTAMP else timestamp_ms)


def _visible(node: "Node", later: _Later, found: tuple[int, int] | StorageError | None, committed_only: bool) -> tuple[ErrorCode, Found]:
    """What a lookup found, unless the partition has been deleted or moved meanwhile, or the reader may not see it."""
    try:
        partition = node.led(later.topic, later.part.partition_index)
        if isinstance(partition, ErrorCode):
            return partition, _NONE
        if isinstance(found, StorageError):
            return found.code, _NONE
        if found is None or found[1] >= visible_end(partition.log, committed_only):
            return ErrorCode.NONE, _NONE
        return ErrorCode.NONE, (*found, _epoch_at(partition.log, found[1]))
    except StorageError as failed:
        return failed.code, _NONE


def _epoch_at(log: PartitionLog, offset: int) -> int:
    """The leader epoch that the record at `offset` was written in; the present one where none was written yet."""
    known = [start.epoch for start in log.leader_epochs if start.start_offset <= offset]
    return known[-1] if known else log.leader_epoch


API = Api(key=2, versions=range(1, 12), handle=handle, elements_max=20_000)
