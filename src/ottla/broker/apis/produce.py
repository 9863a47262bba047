"""Produce (0), v3-13: appends record batches. They are validated and written in the receive buffer; records are parsed only if needed.

Records are parsed if the topic is compacted (each record needs a key), if `compression.type` is another codec than the producer's (the
batch is recompressed), and if `message.timestamp.before.max.ms` or `.after.max.ms` limits timestamps that the batch header does not
decide. Unless they are small, such batches are read in a worker thread: the request and the connection's later ones are parked, and the
rest of the request is appended after them. The batches of a client that disconnects meanwhile may be appended.
Version notes: v0-2 are advertised and refused, as in Kafka, because clients conclude from them that compression works; v5+ returns the
log start offset; v7+ takes zstd (KIP-110); v8+ returns an error message; v9+ is flexible; v10+ returns the current leader
(KIP-951); v13+ takes topics by id (KIP-516). acks=0 has no response; -1 and 1 are the same. If the topic's `flush.messages` requires it,
the response waits until the records are durable.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from ottla.broker.clock import monotonic_s
from ottla.broker.cluster.brokers import Node, pack_endpoints, pack_leader
from ottla.broker.coordination.producer_transactions import ProducerTransaction
from ottla.broker.coordination.transactions import TransactionalIds
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Endpoint, Request, Session
from ottla.broker.network.scheduling import SHARE_S, Background
from ottla.broker.partitions.batch_reading import ABANDONED_BYTES_MAX, BatchReading
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.effects import Producer
from ottla.log.append import Accepted, Appended, LogRefusal, UnreadBatch, read_client_batch, whole_batch
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic
from ottla.protocol.errors import ErrorCode, PeerError, RequestTooLarge, StorageError
from ottla.protocol.model import TopicPartition
from ottla.protocol.records.batch import CODEC_MASK, HEADER, HEADER_BYTES, MAGIC, TRANSACTIONAL_BIT, BatchHeader
from ottla.protocol.records.compression import ZSTD
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import is_flexible
from ottla.protocol.wire.primitives import Reader, Writer
from ottla.security.access import Operation, ResourceType

FIRST_VERSION_WITH_ZSTD: Final = 7
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
PARTITIONS_MAX: Final = 20_000
"""Partitions, and topics, in one request. A producer's default request, 1 MiB, holds 14,000 batches of the smallest size."""
_TOPIC_BYTES_MIN: Final = 3
_PARTITION_BYTES_MIN: Final = 5
# A batch's length, its format and the low byte of its attributes.
_SIGNS: Final = Struct(">8xi4xb5xB")
_PLAUSIBLE_LENGTHS: Final = range(14, (1 << 31) - 12)


class TopicRecords(NamedTuple):
    """One topic of a request: what it is called there, what is known by that name, and number and records of each partition."""

    key: bytes | str
    topic: Topic | None
    partitions: list[tuple[int, memoryview]]


def read_topics(read: Reader, version: int, by_name: Mapping[str, Topic], by_id: Mapping[bytes, Topic]) -> tuple[list[TopicRecords], bool]:
    """The topics of a request from version 3 on, and whether `refusal_of_all` must be asked; PeerError where it ends too early.

    The records are views into the reader's buffer.
    """
    buffer = read.buffer
    assert isinstance(buffer, memoryview)
    topics, needs_request_check = [], False
    left = PARTITIONS_MAX
    for _ in range(_bounded(read.count(_TOPIC_BYTES_MIN), PARTITIONS_MAX)):
        key: bytes | str
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            key = read.raw(16)
            topic = by_id.get(key)
        else:
            key = read.string()
            topic = by_name.get(key)
        partitions = []
        count = _bounded(read.count(_PARTITION_BYTES_MIN), left)
        left -= count
        for _ in range(count):
            number = read.int32()
            length = read.length()
            start = read.at
            read.skip(max(length, 0))
            partitions.append((number, buffer[start : read.at]))
            needs_request_check = needs_request_check or length < _SIGNS.size or _needs_request_check(*_SIGNS.unpack_from(buffer, start))
            read.skip_tagged_fields()
        read.skip_tagged_fields()
        topics.append(TopicRecords(key, topic, partitions))
    return topics, needs_request_check


def _bounded(count: int, at_most: int) -> int:
    if count > at_most:
        raise RequestTooLarge(f"a Produce request with more than {PARTITIONS_MAX} topics or partitions: send fewer at a time")
    return count


def _needs_request_check(length: int, magic: int, attributes: int) -> bool:
    return magic != MAGIC or bool(attributes & TRANSACTIONAL_BIT) or attributes & CODEC_MASK > ZSTD or length not in _PLAUSIBLE_LENGTHS


def refusal_of_all(version: int, transactional_id: str | None, topics: list[TopicRecords]) -> LogRefusal | None:
    """Why nothing of a request may be appended, because of one of its batches; None when each partition is judged alone."""
    for topic in topics:
        for _, records in topic.partitions:
            refused = _request_error(version, transactional_id, records)
            if refused is not None:
                return refused
    return None


def _request_error(version: int, transactional_id: str | None, records: memoryview) -> LogRefusal | None:
    """Kafka looks for transactional records first, and walks the batches for that; only then it looks at codecs, in old versions."""
    size = whole_batch(records, 0)
    if size is None or isinstance(size, LogRefusal):
        return size
    if size < _SIGNS.size:
        return None
    _, magic, attributes = _SIGNS.unpack_from(records)
    if magic != MAGIC:
        return None
    if attributes & TRANSACTIONAL_BIT and transactional_id is None:
        message = "Transactional records came in a request without a transactional id"
        return LogRefusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message, before_log=True)
    if attributes & CODEC_MASK > ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {attributes & CODEC_MASK}", before_log=True)
    return None


def refusal_of_partition(version: int, acks: int, topic: Topic, records: memoryview) -> LogRefusal | None:
    """Why a partition's records may not even come to its log; None when the log is to judge.

    It need not be asked for a topic of users in version 7 or later with one of the three acks that there are.
    """
    header = read_client_batch(records)
    if isinstance(header, LogRefusal):
        return header
    if version < FIRST_VERSION_WITH_ZSTD and header.attributes & CODEC_MASK == ZSTD:
        message = "Produce requests with version less than 7 are not allowed to use ZStandard compression"
        return LogRefusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message, before_log=True)
    if acks not in (-1, 0, 1):
        return LogRefusal(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1", before_log=True)
    if topic.is_internal:
        return LogRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}", before_log=True)
    return None


_FIRST_FLEXIBLE_VERSION: Final = 9
_FIRST_VERSION_WITH_LEADERS: Final = 10
_LEADER_TAG: Final = 0


@dataclass(slots=True)
class PartitionResult:
    """One partition's result. `log_start_offset`: -1 where nothing is said of the log; `leader`: id and epoch of another broker."""

    number: int
    outcome: Appended | LogRefusal
    log_start_offset: int = -1
    leader: tuple[int, int] | None = None


ProduceResults = list[tuple[bytes | str, list[PartitionResult]]]
"""Topics, by name or id as the request names them, with their partitions in the request's order."""


def encode_produce_response(version: int, results: ProduceResults, leader_of: Callable[[int], Endpoint | None]) -> bytearray:
    """The body, with a result for each partition by topic. `leader_of` knows brokers by id."""
    out = Writer(version >= _FIRST_FLEXIBLE_VERSION).array(len(results))
    for key, partitions in results:
        if isinstance(key, bytes):
            out.raw(key)
        else:
            out.string(key)
        out.array(len(partitions))
        for result in partitions:
            _pack_partition(out, version, result)
        out.end()
    out.int32(NO_THROTTLE_MS)
    if version < _FIRST_VERSION_WITH_LEADERS:
        return out.end().data
    pack_endpoints(out, [result.leader[0] for _, topic in results for result in topic if result.leader], leader_of)
    return out.data


def _pack_partition(out: Writer, version: int, result: PartitionResult) -> None:
    outcome = result.outcome
    out.int32(result.number)
    if isinstance(outcome, Appended):
        out.int16(ErrorCode.NONE).int64(outcome.base_offset).int64(outcome.log_append_time_ms)
        message = None
    else:
        out.int16(outcome.error).int64(-1).int64(-1)
        message = outcome.message
    if version >= 5:
        out.int64(result.log_start_offset)
    if version >= 8:
        _pack_record_errors(out, outcome)
        out.nullable_string(message)
    if version >= _FIRST_VERSION_WITH_LEADERS and result.leader is not None:
        pack_leader(out, _LEADER_TAG, *result.leader)
    else:
        out.end()


def _pack_record_errors(out: Writer, outcome: Appended | LogRefusal) -> None:
    """The single records at fault, by their number in the batch (v8+, KIP-467)."""
    errors = outcome.record_errors if isinstance(outcome, LogRefusal) else ()
    out.array(len(errors))
    for number, message in errors:
        out.int32(number).nullable_string(message).end()


# Refused for these errors, the response has no log start offset, as in Kafka.
_SAYS_NOTHING = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR)
_NOT_HERE = "This server does not host this topic-partition."
PARTITIONS_AT_ONCE_MAX = 128
"""A request that names more is appended over several iterations of the event loop: the first record of a partition makes its files."""
_NOT_READ = LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The records were not read.")
"""A placeholder for the result."""
_NOT_AUTHORIZED = LogRefusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
_NOT_LED = "Another broker leads this partition: ask for metadata again."


_Waiting = list[tuple[PartitionResult, asyncio.Future[None]]]
"""Appended partitions that must not be acknowledged before their future is done."""


class _Later(NamedTuple):
    """A partition's records that are appended when those before them in the request are: the result goes to `results[at]`.

    `unread`: None where nothing is known of the records yet. Both have bytes of their own.
    """

    results: list[PartitionResult]
    at: int
    topic: Topic
    number: int
    records: memoryview
    unread: UnreadBatch | None


class Produce:
    """What Produce uses of one broker."""

    __slots__ = ("_background", "_batch_reading", "_clock", "_cluster_metadata", "_node_id", "_partitions", "_transactional_ids")

    def __init__(
        self,
        *,
        background: Background,
        batch_reading: BatchReading,
        clock: Callable[[], int],
        cluster_metadata: ClusterMetadata,
        node: Node,
        partitions: Partitions,
        transactional_ids: TransactionalIds,
    ) -> None:
        self._transactional_ids = transactional_ids
        self._background = background
        self._batch_reading = batch_reading
        self._clock = clock
        self._cluster_metadata = cluster_metadata
        self._node_id = node.id
        self._partitions = partitions

    def handle(self, request: Request) -> None:
        """Append partition by partition, in the request's order, then answer for all."""
        version = request.version
        read = Reader(request.buffer, request.body_at, is_flexible(request.key, version))
        transactional_id = read.nullable_string()
        acks = read.int16()
        read.int32()  # timeout: nothing here waits for a replica
        topics, needs_request_check = read_topics(read, version, self._cluster_metadata.topics, self._cluster_metadata.topics_by_id)
        refused = refusal_of_all(version, transactional_id, topics) if needs_request_check else None
        if self._partitions.unopened and refused is None and (unopened := self._unopened(topics)):
            request.is_one_way = acks == 0
            self._open_first(request, unopened)
            return
        transaction = None
        if needs_request_check and refused is None and transactional_id is not None:
            transaction, refused = self._transaction(request, transactional_id, topics)
        results: ProduceResults = []
        waiting: _Waiting = []
        later: list[_Later] = []
        at_once_max = PARTITIONS_AT_ONCE_MAX
        is_checked = request.session.authorizer is not None
        for asked in topics:
            if refused is not None:
                results.append((asked.key, [PartitionResult(number, refused) for number, _ in asked.partitions]))
            elif is_checked and not _may_write(request.session, asked):
                results.append((asked.key, [PartitionResult(number, _NOT_AUTHORIZED) for number, _ in asked.partitions]))
            else:
                results.append((asked.key, self._write_topic(version, acks, asked, waiting, later, at_once_max, transaction)))
                at_once_max -= len(asked.partitions)
        if later:
            self._write_later(request, acks, results, waiting, later, transaction)
        else:
            self._end(request, acks, results, waiting)

    def _end(self, request: Request, acks: int, results: ProduceResults, waiting: _Waiting) -> None:
        if acks == 0:
            _end_without_answer(request, results)
        elif waiting:
            self._answer_when_durable(request, results, waiting)
        else:
            request.reply_body([encode_produce_response(request.version, results, request.session.endpoint)])

    def _unopened(self, topics: list[TopicRecords]) -> list[tuple[Topic, int]]:
        """The partitions that must be opened before anything is appended."""
        partitions, found = self._partitions, []
        for topic, asked in ((asked.topic, asked) for asked in topics):
            if topic is not None:
                numbers = (
                    number for number, _ in asked.partitions if 0 <= number < len(topic.leaders) and topic.leaders[number] == self._node_id
                )
                found += [(topic, number) for number in numbers if not partitions.is_ready(topic, number)]
        return found

    def _open_first(self, request: Request, unopened: list[tuple[Topic, int]]) -> None:
        """Handle the request when its partitions are open, also when its client has gone: with acks=0 it need not wait."""
        buffer = request.own_buffer()
        request.held_bytes = len(buffer)

        async def open_then_handle() -> None:
            await self._partitions.open_all(unopened)
            request.buffer = buffer
            try:
                self.handle(request)
            finally:
                request.buffer = memoryview(b"")

        self._background.start(request, open_then_handle())

    def _answer_when_durable(self, request: Request, results: ProduceResults, waiting: _Waiting) -> None:
        """Answer when all the syncs that the request waits for have ended; they are shared with other requests."""

        def answer(outcomes: "asyncio.Future[list[BaseException | None]]") -> None:
            for (written, _), error in zip(waiting, outcomes.result(), strict=True):
                if error is not None:
                    code = error.code if isinstance(error, StorageError) else ErrorCode.UNKNOWN_SERVER_ERROR
                    written.outcome, written.log_start_offset = LogRefusal(code, str(error)), -1
            request.reply_body([encode_produce_response(request.version, results, request.session.endpoint)])

        asyncio.gather(*(durable for _, durable in waiting), return_exceptions=True).add_done_callback(request.guarded(answer))

    def _transaction(
        self, request: Request, transactional_id: str, topics: list[TopicRecords]
    ) -> tuple[ProducerTransaction | None, LogRefusal | None]:
        """The transaction that a request writes in, or why all of it is refused; neither where no batch is transactional."""
        producers = {
            (header.producer_id, header.producer_epoch)
            for asked in topics
            for _, records in asked.partitions
            if (header := _transactional(records)) is not None
        }
        if not producers:
            return None, None
        if not request.session.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            message = "Transactional Id authorization failed."
            return None, LogRefusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message, before_log=True)
        if len(producers) > 1:
            message = "Transactional records contained more than one producer ID"
            return None, LogRefusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message, before_log=True)
        ((producer_id, epoch),) = producers
        transaction = ProducerTransaction(self._transactional_ids, transactional_id, Producer(producer_id, epoch), version=request.version)
        led = [
            (TopicPartition(asked.topic.name, number), partition.log)
            for asked in topics
            if asked.topic is not None and not asked.topic.is_internal and _may_write(request.session, asked)
            for number, records in asked.partitions
            if 0 <= number < len(asked.topic.leaders)
            and asked.topic.leaders[number] == self._node_id
            and _transactional(records) is not None
            and (partition := self._partitions.in_use(TopicPartition(asked.topic.name, number))) is not None
        ]
        transaction.check_all(led)
        return transaction, None

    def _write_later(
        self,
        request: Request,
        acks: int,
        results: ProduceResults,
        waiting: _Waiting,
        later: list[_Later],
        transaction: ProducerTransaction | None,
    ) -> None:
        """Append what must be read first or is too much at once, and what follows it, one after the other and answer then."""
        reading = self._batch_reading
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
                    each.results[each.at] = await self._write_one_later(request.version, acks, each, waiting, transaction)
                self._end(request, acks, results, waiting)
            finally:
                reading.waiting_bytes -= size_bytes

        task = self._background.start(request, write())

        def on_disconnect() -> None:
            if reading.waiting_bytes > ABANDONED_BYTES_MAX:
                task.cancel()

        request.on_disconnect = on_disconnect

    async def _write_one_later(
        self, version: int, acks: int, each: _Later, waiting: _Waiting, transaction: ProducerTransaction | None
    ) -> PartitionResult:
        unread, read = each.unread, None
        while True:
            if unread is not None:
                read = await self._batch_reading.read(unread)
            topic = self._cluster_metadata.topics.get(each.topic.name)
            if topic is None or topic.topic_id != each.topic.topic_id:
                return PartitionResult(each.number, LogRefusal(_missing(version), _NOT_HERE))
            if topic.leaders[each.number] != self._node_id:
                return _not_led(topic, each.number)
            if transaction is not None:
                transaction.forget()  # it may have ended while the records were read
            written = self._write(
                acks, topic, each.number, each.records, waiting, transaction, None if unread is None or read is None else (unread, read)
            )
            if isinstance(written, PartitionResult):
                return written
            unread = written

    def _write_topic(
        self,
        version: int,
        acks: int,
        asked: TopicRecords,
        waiting: _Waiting,
        later: list[_Later],
        at_once_max: int,
        transaction: ProducerTransaction | None,
    ) -> list[PartitionResult]:
        """Append to the first `at_once_max` partitions, unless one must be read first; what is left goes to `later`."""
        topic = asked.topic
        if topic is None:
            return [PartitionResult(number, LogRefusal(_missing(version), _NOT_HERE)) for number, _ in asked.partitions]
        is_usual = version >= FIRST_VERSION_WITH_ZSTD and acks in (-1, 0, 1) and not topic.is_internal
        results: list[PartitionResult] = []
        for number, records in asked.partitions:
            refused = None
            if not 0 <= number < len(topic.leaders):
                refused = LogRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE)
            elif not is_usual:
                refused = refusal_of_partition(version, acks, topic, records)
            if refused is not None:
                results.append(PartitionResult(number, refused))
            elif topic.leaders[number] != self._node_id:
                results.append(_not_led(topic, number))
            else:
                is_later = later or len(results) >= at_once_max
                written = None if is_later else self._write(acks, topic, number, records, waiting, transaction)
                if not isinstance(written, PartitionResult):
                    later.append(_copied(results, topic, number, records, written))
                    written = PartitionResult(number, _NOT_READ)
                results.append(written)
        return results

    def _write(
        self,
        acks: int,
        topic: Topic,
        number: int,
        records: memoryview,
        waiting: _Waiting,
        transaction: ProducerTransaction | None,
        read: tuple[UnreadBatch, Accepted | LogRefusal] | None = None,
    ) -> PartitionResult | UnreadBatch:
        """Append `records`, or what was `read` of them; an UnreadBatch where they must be read first."""
        try:
            partition = self._partitions.get(topic, number)
            assert partition is not None, "a number below the topic's partitions"
            if transaction is not None and (header := _transactional(records)) is not None:
                refused = transaction.refusal(partition.name, partition.log, header.base_sequence)
                if refused is not None:
                    return PartitionResult(number, refused)
            now_ms = self._clock()
            outcome, durable = partition.append(records, now_ms=now_ms, read=read, is_acknowledged=acks != 0)
            if isinstance(outcome, UnreadBatch):
                at_once = self._batch_reading.read_now(outcome)
                if at_once is None:
                    return outcome
                outcome, durable = partition.append(records, now_ms=now_ms, read=(outcome, at_once), is_acknowledged=acks != 0)
                if isinstance(outcome, UnreadBatch):
                    return outcome
        except StorageError as error:
            return PartitionResult(number, LogRefusal(error.code, str(error)))
        if isinstance(outcome, LogRefusal):
            says_nothing = outcome.before_log or outcome.error in _SAYS_NOTHING
            return PartitionResult(number, outcome, -1 if says_nothing else partition.log.log_start_offset)
        result = PartitionResult(number, outcome, outcome.log_start_offset)
        if durable is not None:
            waiting.append((result, durable))
        return result


def _transactional(records: memoryview) -> BatchHeader | None:
    """The header of a batch that belongs to a transaction; what is wrong with the others is said by the log."""
    if len(records) < HEADER_BYTES:
        return None
    header = BatchHeader._make(HEADER.unpack_from(records))
    return header if header.magic == MAGIC and header.attributes & TRANSACTIONAL_BIT else None


def _end_without_answer(request: Request, results: ProduceResults) -> None:
    if any(isinstance(written.outcome, LogRefusal) for _, topic in results for written in topic):
        # The producer waits for no answer: a closed connection is how it learns that something is wrong, as with Kafka.
        raise PeerError("a Produce request with acks=0 was refused")
    request.no_reply()


def _missing(version: int) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if version >= FIRST_VERSION_WITH_TOPIC_IDS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _not_led(topic: Topic, number: int) -> PartitionResult:
    leader = (topic.leaders[number], topic.leader_epochs[number])
    return PartitionResult(number, LogRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, _NOT_LED), leader=leader)


def _copied(results: list[PartitionResult], topic: Topic, number: int, records: memoryview, unread: UnreadBatch | None) -> _Later:
    """Records for later: the request's buffer is only valid now."""
    unread = None if unread is None else unread.copy()
    return _Later(results, len(results), topic, number, memoryview(bytearray(records)) if unread is None else unread.batch, unread)


def _may_write(session: Session, asked: TopicRecords) -> bool:
    """A topic that is named by an id that no topic has is missing rather than refused, as in Kafka: ids are no secret."""
    name = asked.topic.name if asked.topic is not None else asked.key
    return isinstance(name, bytes) or session.may(Operation.WRITE, ResourceType.TOPIC, name)


API = Api(
    key=ApiKey.PRODUCE,
    versions=range(14),
    handle=Produce,
    decodes_itself=True,
    refused=range(3),
    access=(
        Access(Operation.WRITE, ResourceType.TOPIC, "topic_data[].name"),
        Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
    ),
)
