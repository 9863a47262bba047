"""A Fetch request's bytes as the partitions that it asks for, in every version (4-18): our own decoder, because Fetch is the hot path.

It decides nothing, and reads nothing behind the forgotten topics. Every length is checked against the bytes that are left; bytes that
are no such request raise PeerError. Tests hold it to what kio reads.
"""

from struct import Struct
from typing import Final, NamedTuple

from ottla.broker.protocol.fetch_partition import FINAL_EPOCH, NO_SESSION, FetchedPartition, PartitionKey
from ottla.core.errors import PeerError
from ottla.core.wire.fields import Buffer
from ottla.core.wire.reader import Reader

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
        raise PeerError(f"a Fetch request with more than {PARTITIONS_MAX} partitions: name fewer at a time")
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
