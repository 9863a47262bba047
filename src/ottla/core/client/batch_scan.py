"""Boundaries of fetched record batches: offsets and lengths from the headers, without decoding records.

It checks only what is needed to find the next batch; decoders check checksums. Source: KIP-98.
"""

from struct import Struct
from typing import Final, NamedTuple

from ottla.core.errors import PeerError
from ottla.core.records.batch import BATCH_LENGTH_MIN, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC

_HEAD: Final = Struct(">qi4xb6xi")  # base offset, length, (leader epoch), magic, (checksum, attributes), last offset delta
_OFFSET_MAX: Final = 2**63 - 2


class WholeBatches(NamedTuple):
    """The first `size_bytes` bytes are whole batches; `next_offset` follows the last of them, -1 when there is none."""

    size_bytes: int
    next_offset: int


def scan_batches(records: memoryview) -> WholeBatches:
    """Find whole batches; the last one may be cut, and is left out. Raises PeerError for bytes that are no batches of format 2."""
    at, next_offset, size = 0, -1, len(records)
    while at + HEADER_BYTES <= size:
        base, length, magic, delta = _HEAD.unpack_from(records, at)
        if magic != MAGIC:
            raise PeerError(f"a batch of format {magic}: only format {MAGIC} is read (Kafka 0.11 and later)")
        if length < BATCH_LENGTH_MIN or base < 0 or delta < 0 or base + delta > _OFFSET_MAX:
            raise PeerError("a batch header with an impossible length or offset")
        following = at + LENGTH_OVERHEAD_BYTES + length
        if following > size:
            break
        next_offset = base + delta + 1
        at = following
    return WholeBatches(at, next_offset)
