"""Fetch, version 12, for one partition: our own bytes, because the records inside must not be copied.

It knows the message's layout and nothing of brokers or retries. The answer's record bytes are a view into the frame.
Source: KIP-227 (sessions, unused here), KIP-595 (version 12).
"""

from typing import Final, NamedTuple

from ottla.consumer.errors import error_code
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.wire import Reader, Writer

API_KEY: Final = 1
VERSION: Final = 12

_CONSUMER: Final = -1
_NO_EPOCH: Final = -1
_NO_SESSION: Final = (0, -1)
_READ_UNCOMMITTED: Final = 0
_ABORTED_BYTES_MIN: Final = 17


class Fetched(NamedTuple):
    """One partition's part of a Fetch answer; `records` are whole record batches but for the last, which may be cut."""

    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    records: memoryview


def encode_fetch(topic: str, partition: int, offset: int, *, bytes_max: int, wait_ms_max: int) -> bytes:
    """The body of a request for the records of one partition from `offset` on; it waits up to `wait_ms_max` for the first byte."""
    body = Writer().int32(_CONSUMER).int32(wait_ms_max).int32(1).int32(bytes_max).int8(_READ_UNCOMMITTED)
    body.int32(_NO_SESSION[0]).int32(_NO_SESSION[1])
    body.uvarint(2).compact_string(topic)
    body.uvarint(2).int32(partition).int32(_NO_EPOCH).int64(offset).int32(_NO_EPOCH).int64(-1).int32(bytes_max).uvarint(0)
    body.uvarint(0)
    return body.uvarint(1).compact_string("").uvarint(0).to_bytes()


def decode_fetch(answer: memoryview, topic: str, partition: int) -> Fetched:
    """The answer's part about the one partition that was asked for. Raises PeerError when it is about anything else."""
    reader = Reader(answer)
    reader.int32()  # throttle time: the broker has waited already
    top_level = error_code(reader.int16())
    reader.int32()
    if top_level is not ErrorCode.NONE:
        return Fetched(top_level, -1, -1, answer[:0])
    if reader.uvarint() != 2 or reader.compact_string() != topic or reader.uvarint() != 2 or reader.int32() != partition:
        raise PeerError(f"a Fetch answer that is not about partition {partition} of {topic}, and of it alone")
    error = error_code(reader.int16())
    high_watermark = reader.int64()
    reader.int64()  # last stable offset: nothing is hidden from readers of uncommitted records
    log_start_offset = reader.int64()
    for _ in range(reader.count(_ABORTED_BYTES_MIN, compact=True)):
        reader.skip(16)
        reader.tagged_fields()
    reader.int32()  # preferred read replica: only clients that name their rack are sent to one
    size = max(reader.uvarint() - 1, 0)
    start = reader.at
    reader.skip(size)
    return Fetched(error, high_watermark, log_start_offset, answer[start : start + size])
