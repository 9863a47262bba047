"""Fetch on the wire, in every version (4-18): our own decoder and encoder, because Fetch is the hot path; and one partition of both.

They decide nothing. The decoder reads nothing behind the forgotten topics and checks every length against the bytes that are left; bytes
that are no such request raise PeerError. A response is a few small heads around whole ranges of a log's bytes, which are not copied. Tests
hold both to what kio reads and writes. Source: KIP-74, KIP-98, KIP-227, KIP-392, KIP-516, KIP-595, KIP-951.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.cluster.brokers import pack_endpoints, pack_leader
from ottla.broker.network.request import NO_THROTTLE_MS, Endpoint
from ottla.protocol.errors import ErrorCode, PeerError, RequestTooLarge
from ottla.protocol.wire.primitives import Buffer, Reader, Writer

if TYPE_CHECKING:
    from ottla.broker.partitions.partition import Partition
    from ottla.log.index import AbortedTransaction
    from ottla.log.leader_epochs import EpochEnd


NO_SESSION: Final = 0
FULL_EPOCH: Final = 0
"""A full request that asks for a session."""
FINAL_EPOCH: Final = -1
"""A full request without a session."""

PartitionKey = tuple[str | bytes, int]
"""A topic's name or id, as the request names it, and the partition's number."""


class FetchedPartition:
    """One partition of a request. In a session it is kept, with the offsets of the last response (-1: none yet)."""

    __slots__ = (
        "bytes_max", "current_leader_epoch", "high_watermark", "key", "last_fetched_epoch", "log_start_offset", "offset", "partition",
        "topic_name",
    )  # fmt: skip

    def __init__(self, key: PartitionKey, current_leader_epoch: int, offset: int, last_fetched_epoch: int, bytes_max: int) -> None:
        self.key = key
        self.offset = offset
        self.bytes_max = bytes_max
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = self.log_start_offset = -1
        self.topic_name: str | None = None
        self.partition: Partition | None = None

    def update(self, asked: "FetchedPartition") -> None:
        """Take the position and limits of a later request."""
        self.offset = asked.offset
        self.bytes_max = asked.bytes_max
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def record_sent(self, high_watermark: int, log_start_offset: int, *, is_error: bool) -> bool:
        """Keep the offsets of a response; return whether they differ from the last ones, as they always do after an error."""
        is_changed = is_error or high_watermark != self.high_watermark or log_start_offset != self.log_start_offset
        self.high_watermark = -1 if is_error else high_watermark
        self.log_start_offset = log_start_offset
        return is_changed


class FetchPartitionData:
    """One partition of a response. `aborted` is None where it was not requested; `diverging` is where the client's log leaves ours."""

    __slots__ = ("aborted", "diverging", "error", "high_watermark", "last_stable_offset", "log_start_offset", "part", "records")

    def __init__(
        self,
        part: FetchedPartition,
        error: ErrorCode = ErrorCode.NONE,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        aborted: "Sequence[AbortedTransaction] | None" = None,
    ) -> None:
        self.part = part
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.aborted = aborted
        self.records: Buffer = b""
        self.diverging: EpochEnd | None = None


FIRST_VERSION_WITH_SESSIONS: Final = 7
FIRST_FLEXIBLE_VERSION: Final = 12
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_FIRST_VERSION_WITHOUT_REPLICA_ID: Final = 15
PARTITIONS_MAX: Final = 20_000
"""Partitions, and topics, in one request: so many take some 50 ms, and 350 bytes each as long as the request waits."""
_TOPIC_ID_BYTES: Final = 16
_TOPIC_BYTES_MIN: Final = 3
_FORGOTTEN_PARTITION_BYTES: Final = 4
_FIXED: Final = Struct(">iiib")
"""Longest wait, fewest bytes, most bytes, isolation level."""
_SESSION: Final = Struct(">ii")
_BEFORE_5: Final = Struct(">iqi")
_BEFORE_9: Final = Struct(">iqqi")
_BEFORE_12: Final = Struct(">iiqqi")
_FROM_12: Final = Struct(">iiqiqi")


class FetchRequest(NamedTuple):
    """What a request asks for. A partition that is named twice counts once, as it is named last."""

    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: dict[PartitionKey, FetchedPartition]
    forgotten: list[PartitionKey]


def decode_fetch_request(buffer: Buffer, at: int, version: int) -> FetchRequest:
    """The request whose body begins at `at`. Raises PeerError."""
    read = Reader(buffer, at, version >= FIRST_FLEXIBLE_VERSION)
    if version < _FIRST_VERSION_WITHOUT_REPLICA_ID:
        read.skip(4)
    start = read.at
    read.skip(_FIXED.size)
    wait_ms_max, bytes_min, bytes_max, isolation_level = _FIXED.unpack_from(buffer, start)
    session_id, session_epoch = NO_SESSION, FINAL_EPOCH
    if version >= FIRST_VERSION_WITH_SESSIONS:
        start = read.at
        read.skip(_SESSION.size)
        session_id, session_epoch = _SESSION.unpack_from(buffer, start)
    partitions = _partitions(read, version)
    forgotten = _forgotten(read, version) if version >= FIRST_VERSION_WITH_SESSIONS else []
    return FetchRequest(wait_ms_max, bytes_min, bytes_max, isolation_level, session_id, session_epoch, partitions, forgotten)


def _bounded(count: int) -> int:
    if count > PARTITIONS_MAX:
        raise RequestTooLarge(f"a Fetch request with more than {PARTITIONS_MAX} partitions: name fewer at a time")
    return count


def _topic(read: Reader, version: int) -> str | bytes:
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return read.raw(_TOPIC_ID_BYTES)
    return read.string()


def _partitions(read: Reader, version: int) -> dict[PartitionKey, FetchedPartition]:
    flexible = read.flexible
    fields = _FROM_12 if flexible else _BEFORE_12 if version >= 9 else _BEFORE_9 if version >= 5 else _BEFORE_5
    size, unpack, buffer = fields.size, fields.unpack_from, read.buffer
    partitions = {}
    leader_epoch = fetched_epoch = -1
    topics = _bounded(read.count(_TOPIC_BYTES_MIN))
    total = 0
    for _ in range(topics):
        topic = _topic(read, version)
        count = read.count(size + flexible)  # so many are there, but for tagged fields
        total = _bounded(total + count)
        at = read.at
        for _ in range(count):
            if flexible:
                if at + size >= read.end:
                    raise PeerError("a Fetch request that ends in the middle of a partition")
                number, leader_epoch, offset, fetched_epoch, _, bytes_max = unpack(buffer, at)
            elif version >= 9:
                number, leader_epoch, offset, _, bytes_max = unpack(buffer, at)
            elif version >= 5:
                number, offset, _, bytes_max = unpack(buffer, at)
            else:
                number, offset, bytes_max = unpack(buffer, at)
            at += size
            if flexible:
                if buffer[at]:
                    read.at = at
                    read.skip_tagged_fields()
                    at = read.at
                else:
                    at += 1
            key = (topic, number)
            partitions[key] = FetchedPartition(key, leader_epoch, offset, fetched_epoch, bytes_max)
        read.at = at
        read.skip_tagged_fields()
    return partitions


def _forgotten(read: Reader, version: int) -> list[PartitionKey]:
    forgotten: list[PartitionKey] = []
    for _ in range(_bounded(read.count(_TOPIC_BYTES_MIN))):
        topic = _topic(read, version)
        count = read.count(_FORGOTTEN_PARTITION_BYTES)
        _bounded(len(forgotten) + count)
        forgotten += [(topic, read.int32()) for _ in range(count)]
        read.skip_tagged_fields()
    return forgotten


_FIRST_VERSION_WITH_LOG_START: Final = 5
_FIRST_VERSION_WITH_PREFERRED_REPLICA: Final = 11
_FIRST_VERSION_WITH_LEADERS: Final = 16
_START_4: Final = NO_THROTTLE_MS.to_bytes(4, "big")
_START: Final = Struct(">ihi")
_NO_BYTES: Final = bytes(4)
_HEAD_4: Final = Struct(">ihqq")
_HEAD: Final = Struct(">ihqqq")
_NO_PREFERRED_REPLICA: Final = b"\xff\xff\xff\xff"
_DIVERGING: Final = Struct(">BBiqB")
_DIVERGING_TAG, _LEADER_TAG = 0, 1
_DIVERGING_BYTES = 13
_ASKED_ANOTHER: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NO_PARTITION: Final = FetchedPartition(("", 0), -1, 0, -1, 0)


def encode_fetch_response(
    version: int, error: ErrorCode, session_id: int, found: list[FetchPartitionData], leader_of: Callable[[int], Endpoint | None]
) -> list[Buffer]:
    """The body as pieces: heads, and between them the records. Neighbours of one topic share its head. `leader_of` knows brokers by id."""
    flexible = version >= FIRST_FLEXIBLE_VERSION
    out = Writer(flexible)
    out.data += _START.pack(NO_THROTTLE_MS, error, session_id) if version >= FIRST_VERSION_WITH_SESSIONS else _START_4
    topics = _by_topic(found)
    out.array(len(topics))
    pieces: list[Buffer] = []
    named: set[int] = set()
    for key, parts in topics:
        if isinstance(key, bytes):
            out.raw(key)
        else:
            out.string(key)
        out.array(len(parts))
        for part in parts:
            _pack_head(out, version, part)
            if part.aborted:
                _pack_aborted(out, version, part)
            else:
                out.data += _nothing_aborted(version, part.aborted is None)
            if part.records:
                out.octets_length(len(part.records))
                pieces += (out.data, part.records)
                out.data = bytearray()
            else:
                out.data += b"\1" if flexible else _NO_BYTES
            if part.diverging is None and part.error not in _ASKED_ANOTHER:
                if flexible:
                    out.data.append(0)
            elif _pack_tagged(out, version, part) and part.part.partition is not None:
                named.add(part.part.partition.leader)
        out.end()
    pack_endpoints(out, named, leader_of)
    pieces.append(out.data)
    return pieces


@cache
def _nothing_aborted(version: int, is_null: bool) -> bytes:
    """What stands between the head of a partition and its records when no transaction was aborted."""
    out = Writer(version >= FIRST_FLEXIBLE_VERSION)
    _pack_aborted(out, version, FetchPartitionData(_NO_PARTITION, aborted=None if is_null else ()))
    return bytes(out.data)


def _by_topic(found: Iterable[FetchPartitionData]) -> list[tuple[str | bytes, list[FetchPartitionData]]]:
    topics: list[tuple[str | bytes, list[FetchPartitionData]]] = []
    last: str | bytes | None = None
    for each in found:
        topic = each.part.key[0]
        if topic != last:
            topics.append((topic, []))
            last = topic
        topics[-1][1].append(each)
    return topics


def _pack_head(out: Writer, version: int, found: FetchPartitionData) -> None:
    number = found.part.key[1]
    if version < _FIRST_VERSION_WITH_LOG_START:
        out.data += _HEAD_4.pack(number, found.error, found.high_watermark, found.last_stable_offset)
    else:
        out.data += _HEAD.pack(number, found.error, found.high_watermark, found.last_stable_offset, found.log_start_offset)


def _pack_aborted(out: Writer, version: int, found: FetchPartitionData) -> None:
    """From the head to the length of the records."""
    if found.aborted is None:
        out.array(-1)
    else:
        out.array(len(found.aborted))
        for transaction in found.aborted:
            out.int64(transaction.producer_id).int64(transaction.first_offset).end()
    if version >= _FIRST_VERSION_WITH_PREFERRED_REPLICA:
        out.data += _NO_PREFERRED_REPLICA


def _pack_tagged(out: Writer, version: int, found: FetchPartitionData) -> bool:
    """The tagged fields of a partition whose reader has other epochs than ours. Whether they name the leader."""
    if found.diverging is not None:
        out.data.append(1)
        out.data += _DIVERGING.pack(_DIVERGING_TAG, _DIVERGING_BYTES, *found.diverging, 0)
        return False
    if version < _FIRST_VERSION_WITH_LEADERS or found.part.partition is None:
        out.end()
        return False
    pack_leader(out, _LEADER_TAG, found.part.partition.leader, found.part.partition.log.leader_epoch)
    return True
