"""Record batches that are small on the wire and hold as many records as they can."""

import time
from functools import cache

import numpy as np

from ottla.core.records.batch import DECOMPRESSED_BYTES_MAX, frame_batch
from ottla.core.records.compression import Codec
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.attacks.target import Target

MAX_TIMESTAMP = -3
_AHEAD_MS = 2 * 3_600_000
_NULL_KEY, _EMPTY_KEY = 1, 0
_RECORD_BYTES = 7
"""A record's length, attributes, time, key, value and headers: all but its offset, each in one byte."""


def minimal_records(count: int, key: int) -> bytes:
    """`count` records without a value, with a null or an empty key, as they lie in a batch."""
    parts = []
    first = 0
    for offset_bytes in range(1, 6):
        end = min(count, 1 << (7 * offset_bytes - 1))
        deltas = np.arange(first, end, dtype=np.uint64) << np.uint64(1)
        rows = np.zeros((len(deltas), _RECORD_BYTES - 1 + offset_bytes), np.uint8)
        rows[:, 0] = (_RECORD_BYTES - 2 + offset_bytes) * 2
        for byte in range(offset_bytes):
            more = 0x80 if byte < offset_bytes - 1 else 0
            rows[:, 3 + byte] = (deltas >> np.uint64(7 * byte)) & np.uint64(0x7F) | np.uint64(more)
        rows[:, 3 + offset_bytes] = key
        rows[:, 4 + offset_bytes] = 1
        parts.append(rows.tobytes())
        first = end
        if end == count:
            break
    return b"".join(parts)


@cache
def hostile_batch(count: int, key: int, ahead_ms: int) -> bytes:
    """A batch in zstd of `count` minimal records, with timestamps so far in the future."""
    batch, _ = frame_batch(minimal_records(count, key), count, timestamp_ms=int(time.time() * 1000) + ahead_ms, codec=Codec.ZSTD)
    return bytes(batch)


def produce(target: Target, topic: str, batch: bytes) -> int:
    """Produce the batch to the topic's partition 0."""
    topic_data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    return target.send([target.frame(ApiKey.PRODUCE, 9, acks=1, timeout=60_000, topic_data=topic_data)])


def times_ahead(target: Target) -> int:
    """A batch of a million records whose largest time lies two hours ahead."""
    return produce(target, target.topic("ahead", 1), hostile_batch(target.count(1_000_000), _NULL_KEY, _AHEAD_MS))


def records_of_a_compacted_topic(target: Target) -> int:
    """As many records as a batch may hold on a compacted topic, then ListOffsets for their largest time."""
    topic = target.topic("compacted", 1, {"cleanup.policy": "compact", "max.message.bytes": "100000000"})
    count = target.count(DECOMPRESSED_BYTES_MAX // (_RECORD_BYTES + 3) - 1)
    sent = produce(target, topic, hostile_batch(count, _EMPTY_KEY, 0))
    asked = [{"partition_index": 0, "timestamp": MAX_TIMESTAMP, "current_leader_epoch": -1}]
    return sent + target.send([target.frame(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": topic, "partitions": asked}])])


def records_without_keys(target: Target) -> int:
    """The same without keys: each record is invalid."""
    topic = target.topic("keyless", 1, {"cleanup.policy": "compact", "max.message.bytes": "100000000"})
    return produce(target, topic, hostile_batch(target.count(4_000_000), _NULL_KEY, 0))


def records_in_another_codec(target: Target) -> int:
    """As many records as a batch may hold on a topic that stores them in gzip."""
    topic = target.topic("gzip", 1, {"compression.type": "gzip", "max.message.bytes": "100000000"})
    return produce(target, topic, hostile_batch(target.count(4_000_000), _NULL_KEY, 0))
