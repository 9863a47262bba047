"""Fetch's responses as bytes, in every version (4-18): a few small heads around whole ranges of a log's bytes, which are not copied.

It decides nothing. Tests hold it to what kio writes. Source: KIP-74, KIP-98, KIP-227, KIP-392, KIP-516, KIP-595, KIP-951.
"""

from collections.abc import Callable, Iterable
from functools import cache
from struct import Struct
from typing import Final

from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.current_leader import Leader, pack_endpoints, pack_leader
from ottla.broker.protocol.fetch_partition import FetchedPartition, FetchPartitionData
from ottla.broker.protocol.requests.fetch import FIRST_FLEXIBLE_VERSION, FIRST_VERSION_WITH_SESSIONS
from ottla.core.errors import ErrorCode
from ottla.core.wire.fields import Buffer
from ottla.core.wire.writer import Writer

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
    version: int, error: ErrorCode, session_id: int, found: list[FetchPartitionData], leader_of: Callable[[int], Leader | None]
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
        for each in parts:
            _pack_head(out, version, each)
            if each.aborted:
                _pack_aborted(out, version, each)
            else:
                out.data += _nothing_aborted(version, each.aborted is None)
            if each.records:
                out.octets_length(len(each.records))
                pieces += (out.data, each.records)
                out.data = bytearray()
            else:
                out.data += b"\1" if flexible else _NO_BYTES
            if each.diverging is None and each.error not in _ASKED_ANOTHER:
                if flexible:
                    out.data.append(0)
            elif _pack_tagged(out, version, each) and each.part.partition is not None:
                named.add(each.part.partition.leader)
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
