"""Produce (0), v3-13: appends record batches. They are checked and written where the socket put them; records are parsed where need be.

That is where the topic is compacted (each record needs a key), where `compression.type` asks for another codec than the producer's (the
batch is made anew), and where `message.timestamp.before.max.ms` or `.after.max.ms` limits times that the batch's head does not settle.
Unless they are small, such batches are read in a worker thread: the request and the connection's later ones wait, and all that follows in
the request is appended after them. A client that disconnects meanwhile may find its batches appended.
Version notes: v0-2 are advertised and refused, as Kafka does, because clients conclude from them that compression works; v5+ answers with
the log's start; v7+ takes zstd (KIP-110); v8+ answers with an error message; v9+ is flexible; v10+ tells who leads instead
(KIP-951); v13+ names topics by id (KIP-516). acks=0 has no answer; -1 and 1 are the same. Where a topic's `flush.messages` asks for it,
the answer waits until the records are durable.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.batch_reading import ABANDONED_BYTES_MAX
from ottla.broker.clock import monotonic_s
from ottla.broker.current_leader import pack_endpoints, pack_leader
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.broker.partitions import Partition
from ottla.broker.produce_request import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    FIRST_VERSION_WITH_ZSTD,
    TopicRecords,
    read_topics,
    refusal_of_all,
    refusal_of_partition,
)
from ottla.broker.request_scheduler import SHARE_S
from ottla.core.catalogue.catalogue import Topic
from ottla.core.errors import ErrorCode, PeerError, StorageError
from ottla.core.wire import Reader
from ottla.storage.client_batch import Accepted, UnreadBatch
from ottla.storage.partition_log import Appended, Refused

if TYPE_CHECKING:
    from ottla.broker.node import Node

# Refused for these, the answer says nothing of the log, not even where it begins, as in Kafka.
_SAYS_NOTHING = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR)
_NOT_HERE = "This server does not host this topic-partition."
_FIRST_VERSION_WITH_LEADERS = 10
PARTITIONS_AT_ONCE_MAX = 128
"""A request that names more is appended over several iterations of the event loop: the first record of a partition makes its files."""
_LEADER_TAG = 0
_NOT_READ = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "The records were not read.")
"""Stands where a result will be."""
_NOT_LED = "Another broker leads this partition: ask for metadata again."


@dataclass(slots=True)
class _Written:
    """One partition's result. `log_start_offset`: -1 where nothing is said of the log; `leader`: id and epoch of another broker."""

    number: int
    outcome: Appended | Refused
    log_start_offset: int = -1
    leader: tuple[int, int] | None = None


_Results = list[tuple[bytes | str, list[_Written]]]
_Waiting = list[tuple[_Written, asyncio.Future[None]]]
"""What is appended but must not be acknowledged before its future is done."""


class _Later(NamedTuple):
    """A partition's records that are appended when those before them in the request are: the result goes to `results[at]`.

    `unread`: None where nothing is known of the records yet. Both have bytes of their own.
    """

    results: list[_Written]
    at: int
    topic: Topic
    number: int
    records: memoryview
    unread: UnreadBatch | None


def handle(node: "Node", request: Request) -> None:
    """Appends partition by partition, in the request's order, then answers for all."""
    version = request.version
    flexible = is_flexible(request.key, version)
    read = Reader(request.buffer, request.body_at)
    transactional_id = read.compact_nullable_string() if flexible else read.nullable_string()
    acks = read.int16()
    read.int32()  # timeout: nothing here waits for a replica
    topics, is_odd = read_topics(read, version, flexible, node.cluster.catalogue.topics, node.cluster.catalogue.topics_by_id)
    refused = refusal_of_all(version, transactional_id, topics) if is_odd else None
    if node.cluster.partitions.unopened and refused is None and (unopened := _unopened(node, topics)):
        request.is_one_way = acks == 0
        _open_first(node, request, unopened)
        return
    results: _Results = []
    waiting: _Waiting = []
    later: list[_Later] = []
    at_once_max = PARTITIONS_AT_ONCE_MAX
    for asked in topics:
        if refused is None:
            results.append((asked.key, _write_topic(node, version, acks, asked, waiting, later, at_once_max)))
            at_once_max -= len(asked.partitions)
        else:
            results.append((asked.key, [_Written(number, refused) for number, _ in asked.partitions]))
    if later:
        _write_later(node, request, acks, results, waiting, later)
    else:
        _end(node, request, acks, results, waiting)


def _end(node: "Node", request: Request, acks: int, results: _Results, waiting: _Waiting) -> None:
    if acks == 0:
        _end_without_answer(request, results)
    elif waiting:
        _answer_when_durable(node, request, results, waiting)
    else:
        request.reply_body([_answer(node, request.version, is_flexible(request.key, request.version), results)])


def _unopened(node: "Node", topics: list[TopicRecords]) -> list[tuple[Topic, int]]:
    """The partitions that must be opened before anything is appended."""
    partitions, found = node.cluster.partitions, []
    for topic, asked in ((asked.topic, asked) for asked in topics):
        if topic is not None:
            numbers = (number for number, _ in asked.partitions if 0 <= number < len(topic.leaders) and topic.leaders[number] == node.id)
            found += [(topic, number) for number in numbers if not partitions.is_ready(topic, number)]
    return found


def _open_first(node: "Node", request: Request, unopened: list[tuple[Topic, int]]) -> None:
    """Handles the request when its partitions are open, also when its client has gone: with acks=0 it need not wait."""
    buffer = request.own_buffer()
    request.held_bytes = len(buffer)

    async def open_then_handle() -> None:
        await node.cluster.partitions.open_all(unopened)
        request.buffer = buffer
        try:
            handle(node, request)
        finally:
            request.buffer = memoryview(b"")

    node.cluster.background.start(request, open_then_handle())


def _end_without_answer(request: Request, results: _Results) -> None:
    if any(isinstance(written.outcome, Refused) for _, topic in results for written in topic):
        # The producer waits for no answer: a closed connection is how it learns that something is wrong, as with Kafka.
        raise PeerError("a Produce request with acks=0 was refused")
    request.no_reply()


def _answer_when_durable(node: "Node", request: Request, results: _Results, waiting: _Waiting) -> None:
    """Answers when all the syncs that the request waits for have ended; they are shared with other requests."""

    def answer(outcomes: "asyncio.Future[list[BaseException | None]]") -> None:
        for (written, _), error in zip(waiting, outcomes.result(), strict=True):
            if error is not None:
                code = error.code if isinstance(error, StorageError) else ErrorCode.UNKNOWN_SERVER_ERROR
                written.outcome, written.log_start_offset = Refused(code, str(error)), -1
        request.reply_body([_answer(node, request.version, is_flexible(request.key, request.version), results)])

    asyncio.gather(*(durable for _, durable in waiting), return_exceptions=True).add_done_callback(request.guarded(answer))


def _write_later(node: "Node", request: Request, acks: int, results: _Results, waiting: _Waiting, later: list[_Later]) -> None:
    """Appends what must be read first or is too much at once, and what follows it, one after the other, and answers then."""
    reading = node.cluster.batch_reading
    request.is_one_way = acks == 0
    request.held_bytes = size_bytes = sum(len(each.records) for each in later)

    async def write() -> None:
        reading.waiting_bytes += size_bytes
        try:
            continued_s = monotonic_s()
            for each in later:
                if monotonic_s() - continued_s > SHARE_S:
                    await asyncio.sleep(0)
                    continued_s = monotonic_s()
                each.results[each.at] = await _write_one_later(node, request.version, acks, each, waiting)
            _end(node, request, acks, results, waiting)
        finally:
            reading.waiting_bytes -= size_bytes

    task = node.cluster.background.start(request, write())

    def gone() -> None:
        if reading.waiting_bytes > ABANDONED_BYTES_MAX:
            task.cancel()

    request.gone = gone


async def _write_one_later(node: "Node", version: int, acks: int, each: _Later, waiting: _Waiting) -> _Written:
    unread, read = each.unread, None
    while True:
        if unread is not None:
            read = await node.cluster.batch_reading.read(unread)
        topic = node.cluster.catalogue.topics.get(each.topic.name)
        if topic is None or topic.topic_id != each.topic.topic_id:
            return _Written(each.number, Refused(_missing(version), _NOT_HERE))
        if topic.leaders[each.number] != node.id:
            return _not_led(topic, each.number)
        written = _write(node, acks, topic, each.number, each.records, waiting, None if unread is None or read is None else (unread, read))
        if isinstance(written, _Written):
            return written
        unread = written


def _missing(version: int) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if version >= FIRST_VERSION_WITH_TOPIC_IDS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _not_led(topic: Topic, number: int) -> _Written:
    leader = (topic.leaders[number], topic.leader_epochs[number])
    return _Written(number, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, _NOT_LED), leader=leader)


def _write_topic(
    node: "Node", version: int, acks: int, asked: TopicRecords, waiting: _Waiting, later: list[_Later], at_once_max: int
) -> list[_Written]:
    """Appends to the first `at_once_max` partitions, unless one must be read first; what is left goes to `later`."""
    topic = asked.topic
    if topic is None:
        return [_Written(number, Refused(_missing(version), _NOT_HERE)) for number, _ in asked.partitions]
    is_usual = version >= FIRST_VERSION_WITH_ZSTD and acks in (-1, 0, 1) and not topic.internal
    results: list[_Written] = []
    for number, records in asked.partitions:
        refused = None
        if not 0 <= number < len(topic.leaders):
            refused = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE)
        elif not is_usual:
            refused = refusal_of_partition(version, acks, topic, records)
        if refused is not None:
            results.append(_Written(number, refused))
        elif topic.leaders[number] != node.id:
            results.append(_not_led(topic, number))
        else:
            written = None if later or len(results) >= at_once_max else _write(node, acks, topic, number, records, waiting)
            if not isinstance(written, _Written):
                later.append(_copied(results, topic, number, records, written))
                written = _Written(number, _NOT_READ)
            results.append(written)
    return results


def _copied(results: list[_Written], topic: Topic, number: int, records: memoryview, unread: UnreadBatch | None) -> _Later:
    """Records for later: the request's buffer is only valid now."""
    unread = None if unread is None else unread.copy()
    return _Later(results, len(results), topic, number, memoryview(bytearray(records)) if unread is None else unread.batch, unread)


def _write(
    node: "Node",
    acks: int,
    topic: Topic,
    number: int,
    records: memoryview,
    waiting: _Waiting,
    read: tuple[UnreadBatch, Accepted | Refused] | None = None,
) -> _Written | UnreadBatch:
    """Appends `records`, or what was `read` of them; an UnreadBatch where they must be read first."""
    partition: Partition | None = None
    try:
        partition = node.cluster.partitions.get(topic, number)
        assert partition is not None, "a number below the topic's partitions"
        now_ms = node.cluster.clock()
        outcome = partition.log.append(records, now_ms=now_ms) if read is None else partition.log.append_read(*read, now_ms=now_ms)
        if isinstance(outcome, UnreadBatch):
            at_once = node.cluster.batch_reading.read_now(outcome)
            outcome = outcome if at_once is None else partition.log.append_read(outcome, at_once, now_ms=now_ms)
            if isinstance(outcome, UnreadBatch):
                return outcome
    except StorageError as error:
        if partition is not None:
            partition.report(error)
        return _Written(number, Refused(error.code, str(error)))
    if isinstance(outcome, Refused):
        says_nothing = outcome.before_log or outcome.error in _SAYS_NOTHING
        return _Written(number, outcome, -1 if says_nothing else partition.log.log_start_offset)
    partition.grew()
    result = _Written(number, outcome, outcome.log_start_offset)
    durable = partition.when_durable() if acks != 0 else None
    if durable is not None:
        waiting.append((result, durable))
    return result


def _answer(node: "Node", version: int, flexible: bool, results: list[tuple[bytes | str, list[_Written]]]) -> bytearray:
    out = Packer(flexible).array(len(results))
    for key, partitions in results:
        if isinstance(key, bytes):
            out.raw(key)
        else:
            out.string(key)
        out.array(len(partitions))
        for written in partitions:
            _pack_partition(out, version, written)
        out.end()
    out.int32(NO_THROTTLE_MS)
    if version < _FIRST_VERSION_WITH_LEADERS:
        return out.end().data
    pack_endpoints(out, [written.leader[0] for _, topic in results for written in topic if written.leader], node.cluster.endpoint)
    return out.data


def _pack_partition(out: Packer, version: int, written: _Written) -> None:
    outcome = written.outcome
    out.int32(written.number)
    if isinstance(outcome, Appended):
        out.int16(ErrorCode.NONE).int64(outcome.base_offset).int64(outcome.log_append_time_ms)
        message = None
    else:
        out.int16(outcome.error).int64(-1).int64(-1)
        message = outcome.message
    if version >= 5:
        out.int64(written.log_start_offset)
    if version >= 8:
        _pack_record_errors(out, outcome)
        out.nullable_string(message)
    if version >= _FIRST_VERSION_WITH_LEADERS and written.leader is not None:
        pack_leader(out, _LEADER_TAG, *written.leader)
    else:
        out.end()


def _pack_record_errors(out: Packer, outcome: Appended | Refused) -> None:
    """The single records at fault, by their number in the batch (v8+, KIP-467)."""
    errors = outcome.record_errors if isinstance(outcome, Refused) else ()
    out.array(len(errors))
    for number, message in errors:
        out.int32(number).nullable_string(message).end()


API = Api(key=0, versions=range(14), handle=handle, decodes_itself=True, refused=range(3))
