"""Frames of requests and responses, as every connection writes and reads them: lengths, headers, and the bounds of what a broker sends."""

import struct
from typing import Final

from ottla.client.errors import UnsupportedBrokerError
from ottla.core.errors import PeerError
from ottla.core.wire.reader import Reader
from ottla.core.wire.writer import Writer

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest response that is read: above Kafka's default fetch.max.bytes of 55 MiB, plus one batch beyond it."""
LENGTH_BYTES: Final = 4

_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID_BYTES: Final = 4


def request_frame(api_key: int, version: int, correlation_id: int, client_id: str, body: bytes, *, is_flexible: bool) -> bytes:
    """A whole request. `is_flexible`: whether its header has tagged fields (KIP-482)."""
    writer = Writer().int16(api_key).int16(version).int32(correlation_id).string(client_id)
    header = (writer.uvarint(0) if is_flexible else writer).to_bytes()
    return _LENGTH.pack(len(header) + len(body)) + header + body


def next_correlation_id(last: int) -> int:
    """The correlation id of the request after the one with `last`."""
    return (last + 1) & 0x7FFFFFFF


def response_bytes(name: str, head: bytes | bytearray | memoryview) -> int:
    """The length of a response of broker `name`, from its first LENGTH_BYTES. Raises PeerError for an impossible one."""
    (size,) = _LENGTH.unpack(head)
    if not _CORRELATION_ID_BYTES <= size <= FRAME_BYTES_MAX:
        raise PeerError(f"broker {name} announced an answer of {size} bytes (the limit is {FRAME_BYTES_MAX})")
    return int(size)


def response_body(name: str, frame: memoryview, correlation_id: int, *, is_flexible: bool) -> memoryview:
    """A response without its header. Raises PeerError unless it answers the request with this id."""
    reader = Reader(frame, flexible=is_flexible)
    if reader.int32() != correlation_id:
        raise PeerError(f"broker {name} answered out of order")
    reader.skip_tagged_fields()
    return frame[reader.at :]


def unsupported(name: str, api_key: int, version: int, supported: tuple[int, int] | None) -> UnsupportedBrokerError:
    """The error for a version that broker `name` does not support; `supported` are its lowest and highest."""
    speaks = f"it speaks {supported[0]} to {supported[1]}" if supported else "it has no such API"
    return UnsupportedBrokerError(f"broker {name} does not speak version {version} of API {api_key} ({speaks}): a newer one does")
