"""Fields of a message where they lie: functions from (bytes, position) to (value, position), for the requests of the hot path.

They build nothing but the value: `Reader` takes 1.4 to 1.7 times as long for a Heartbeat or SyncGroup request, and a property test holds
the two equal. Callers go through `bounded`, which turns whatever the bytes cause into a PeerError: a position behind the end is found by
the next field that is read, or at last by `bounded` itself.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Final, NamedTuple, TypeVar

from ottla.protocol.errors import PeerError
from ottla.protocol.model import TAGGED_FIELDS_MAX

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")
_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from
_INT64: Final = Struct(">q").unpack_from
_VARINT_BYTES_MAX: Final = 5
ITEMS_MAX: Final = 50_000
"""In one array: they take some 25 ms to read, and no group has so many members, protocols or topics."""


def int32(data: bytes, at: int) -> tuple[int, int]:
    """A signed 32-bit number."""
    return _INT32(data, at)[0], at + 4


def int64(data: bytes, at: int) -> tuple[int, int]:
    """A signed 64-bit number."""
    return _INT64(data, at)[0], at + 8


def uvarint(data: Buffer, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes. Raises IndexError when the bytes are too few."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for position in range(at + 1, at + _VARINT_BYTES_MAX):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise PeerError("a varint of more than 5 bytes")


def skip_tagged_fields(data: Buffer, at: int, end: int) -> int:
    """The position behind a section of tagged fields (KIP-482). Raises PeerError, or IndexError when the bytes are too few."""
    count, at = uvarint(data, at)
    if count > TAGGED_FIELDS_MAX:
        raise PeerError(f"{count} tagged fields in one structure; allowed are {TAGGED_FIELDS_MAX}")
    for _ in range(count):
        _, at = uvarint(data, at)
        size, at = uvarint(data, at)
        at += size
        if at > end:
            raise PeerError("a tagged field that is longer than its message")
    return at


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _INT16(data, at)
    if length < 0:
        raise PeerError("a text that must not be null")
    end = at + 2 + length
    return data[at + 2 : end].decode(), end


def _nullable_text(data: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _INT16(data, at)
    if length < 0:
        if length != -1:
            raise PeerError(f"a text of length {length}")
        return None, at + 2
    end = at + 2 + length
    return data[at + 2 : end].decode(), end


def _compact_text(data: bytes, at: int) -> tuple[str, int]:
    length, at = uvarint(data, at)
    if length == 0:
        raise PeerError("a text that must not be null")
    end = at + length - 1
    return data[at:end].decode(), end


def _compact_nullable_text(data: bytes, at: int) -> tuple[str | None, int]:
    length, at = uvarint(data, at)
    if length == 0:
        return None, at
    end = at + length - 1
    return data[at:end].decode(), end


def _octets(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _INT32(data, at)
    if length < 0:
        raise PeerError("bytes that must not be null")
    end = at + 4 + length
    return data[at + 4 : end], end


def _compact_octets(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = uvarint(data, at)
    if length == 0:
        raise PeerError("bytes that must not be null")
    end = at + length - 1
    return data[at:end], end


def _count(data: bytes, at: int) -> tuple[int, int]:
    (count,) = _INT32(data, at)
    return _believable(data, at + 4, count)


def _compact_count(data: bytes, at: int) -> tuple[int, int]:
    count, at = uvarint(data, at)
    return _believable(data, at, count - 1)


def _believable(data: bytes, at: int, count: int) -> tuple[int, int]:
    # An item has at least one byte.
    if not 0 <= count <= len(data) - at:
        raise PeerError(f"an array of {count} items in {len(data) - at} bytes")
    if count > ITEMS_MAX:
        raise PeerError(f"an array of {count} items; allowed are {ITEMS_MAX}")
    return count, at


def _no_tags(_data: bytes, at: int) -> int:
    return at


def _tags(data: bytes, at: int) -> int:
    return at + 1 if data[at] == 0 else skip_tagged_fields(data, at, len(data))


class Fields(NamedTuple):
    """One way of writing what has no fixed size. Only what is called nullable may be null. `length`: an array's; `end`: over tags."""

    text: Callable[[bytes, int], tuple[str, int]]
    nullable_text: Callable[[bytes, int], tuple[str | None, int]]
    octets: Callable[[bytes, int], tuple[bytes, int]]
    length: Callable[[bytes, int], tuple[int, int]]
    end: Callable[[bytes, int], int]


PLAIN: Final = Fields(_text, _nullable_text, _octets, _count, _no_tags)
COMPACT: Final = Fields(_compact_text, _compact_nullable_text, _compact_octets, _compact_count, _tags)
"""Flexible versions (KIP-482): compact forms and tagged fields, which are skipped."""


def bounded(read: Callable[[bytes, int, int], tuple[T, int]]) -> Callable[[bytes, int, int], T]:
    """`read`, which gives a value and the position behind it, as a function to the value alone that raises nothing but PeerError."""

    def reading(data: bytes, at: int, version: int) -> T:
        try:
            value, end = read(data, at, version)
        except (IndexError, error, UnicodeDecodeError) as problem:
            raise PeerError(f"a request that cannot be read: {problem}") from problem
        if end > len(data):
            raise PeerError("a request that ends in the middle of a field")
        return value

    return reading
