"""Kafka's primitive types as bytes: `Reader` and `Writer` for what is decoded and encoded by hand, and functions for the hot path.

The functions go from (bytes, position) to (value, position), and build nothing but the value: `Reader` takes 1.4 to 1.7 times as long for
a Heartbeat or SyncGroup request, and a property test holds the two equal. Callers go through `bounded`, which turns whatever the bytes
cause into a PeerError: a position behind the end is found by the next field that is read, or at last by `bounded` itself.

`Reader` checks every length against the bytes that are left, and its only exception is `PeerError`. `Writer` encodes the responses of the
hot path too, where kio's writer, plain Python over dataclasses, takes many times as long. Tests hold each of those responses to kio's
bytes.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct, error
from typing import Final, NamedTuple, Self, TypeVar

from ottla.protocol.errors import PeerError, RequestTooLarge
from ottla.protocol.model import TAGGED_FIELDS_MAX

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")
_unpack_int16: Final = Struct(">h").unpack_from
_unpack_int32: Final = Struct(">i").unpack_from
_unpack_int64: Final = Struct(">q").unpack_from
_VARINT_BYTES_MAX: Final = 5
ITEMS_MAX: Final = 50_000
"""In one array: they take some 25 ms to read, and no group has so many members, protocols or topics."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def int32(data: bytes, at: int) -> tuple[int, int]:
    """A signed 32-bit number."""
    return _unpack_int32(data, at)[0], at + 4


def int64(data: bytes, at: int) -> tuple[int, int]:
    """A signed 64-bit number."""
    return _unpack_int64(data, at)[0], at + 8


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
    (length,) = _unpack_int16(data, at)
    if length < 0:
        raise PeerError("a text that must not be null")
    end = at + 2 + length
    return data[at + 2 : end].decode(), end


def _nullable_text(data: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _unpack_int16(data, at)
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
    (length,) = _unpack_int32(data, at)
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
    (count,) = _unpack_int32(data, at)
    return _believable(data, at + 4, count)


def _compact_count(data: bytes, at: int) -> tuple[int, int]:
    count, at = uvarint(data, at)
    return _believable(data, at, count - 1)


def _believable(data: bytes, at: int, count: int) -> tuple[int, int]:
    # An item has at least one byte.
    if not 0 <= count <= len(data) - at:
        raise PeerError(f"an array of {count} items in {len(data) - at} bytes")
    if count > ITEMS_MAX:
        raise RequestTooLarge(f"an array of {count} items; allowed are {ITEMS_MAX}")
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


class Reader:
    """Reads primitive values one after another from `buffer`, from `at` on.

    `flexible` chooses compact lengths and sections of tagged fields (KIP-482). It may be set later, where the bytes themselves name their
    version.
    """

    __slots__ = ("at", "buffer", "end", "flexible")

    def __init__(self, buffer: Buffer, at: int = 0, flexible: bool = False) -> None:
        self.buffer = buffer
        self.at = at
        self.end = len(buffer)
        self.flexible = flexible

    def _too_few(self, count: int) -> PeerError:
        return PeerError(f"{count} bytes wanted at {self.at}, but the message ends at {self.end}")

    def raw(self, count: int) -> bytes:
        """Copy `count` bytes."""
        at, end = self.at, self.at + count
        if count < 0 or end > self.end:
            raise self._too_few(count)
        self.at = end
        return bytes(self.buffer[at:end])

    def skip(self, count: int) -> None:
        """Skip `count` bytes."""
        if count < 0 or self.at + count > self.end:
            raise self._too_few(count)
        self.at += count

    def int8(self) -> int:
        """A signed byte."""
        at = self.at
        if at + 1 > self.end:
            raise self._too_few(1)
        self.at = at + 1
        value: int = _INT8.unpack_from(self.buffer, at)[0]
        return value

    def int16(self) -> int:
        """A signed 16-bit number."""
        at = self.at
        if at + 2 > self.end:
            raise self._too_few(2)
        self.at = at + 2
        value: int = _INT16.unpack_from(self.buffer, at)[0]
        return value

    def int32(self) -> int:
        """A signed 32-bit number."""
        at = self.at
        if at + 4 > self.end:
            raise self._too_few(4)
        self.at = at + 4
        value: int = _INT32.unpack_from(self.buffer, at)[0]
        return value

    def int64(self) -> int:
        """A signed 64-bit number."""
        at = self.at
        if at + 8 > self.end:
            raise self._too_few(8)
        self.at = at + 8
        value: int = _INT64.unpack_from(self.buffer, at)[0]
        return value

    def uvarint(self) -> int:
        """An unsigned varint of at most 5 bytes."""
        try:
            value, self.at = uvarint(self.buffer, self.at)
        except IndexError as error:
            raise PeerError(f"a varint at {self.at} that ends behind the message's end at {self.end}") from error
        return value

    def length(self) -> int:
        """The length of bytes or of an array; -1 is null."""
        return self.uvarint() - 1 if self.flexible else self.int32()

    def count(self, item_bytes_min: int) -> int:
        """The length of an array whose items take at least `item_bytes_min` bytes each; a null array counts 0."""
        count = self.length()
        if count * item_bytes_min > self.end - self.at:
            raise PeerError(f"an array of {count} items in {self.end - self.at} bytes")
        return max(count, 0)

    def _text(self, length: int) -> str:
        try:
            return self.raw(length).decode()
        except UnicodeDecodeError as error:
            raise PeerError("a string that is not UTF-8") from error

    def string(self) -> str:
        """A string that is never null."""
        return self._text(self.uvarint() - 1 if self.flexible else self.int16())

    def nullable_string(self) -> str | None:
        """A string or null."""
        length = self.uvarint() - 1 if self.flexible else self.int16()
        return None if length == -1 else self._text(length)

    def octets(self) -> bytes:
        """Bytes that are never null, copied."""
        return self.raw(self.length())

    def int32s(self) -> tuple[int, ...]:
        """An array of 32-bit numbers; a null array is empty."""
        return tuple(self.int32() for _ in range(self.count(4)))

    def tagged_fields(self) -> Iterator[tuple[int, "Reader"]]:
        """The tags of a section of tagged fields, each with a reader of its field alone; nothing where there is no such section."""
        if not self.flexible:
            return
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            at = self.at
            self.skip(size)
            yield tag, Reader(self.buffer[at : at + size], 0, True)

    def skip_tagged_fields(self) -> None:
        """Skip a section of tagged fields, where there is one."""
        if not self.flexible:
            return
        at = self.at
        if at < self.end and self.buffer[at] == 0:
            self.at = at + 1
            return
        try:
            self.at = skip_tagged_fields(self.buffer, at, self.end)
        except IndexError as error:
            raise PeerError(f"tagged fields at {at} that end behind the message's end at {self.end}") from error


def encode_uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Writer:
    """Appends primitive values to `data`; every method returns the writer, so that the fields of a structure read as a line.

    `flexible` chooses compact lengths and sections of tagged fields (KIP-482).
    """

    __slots__ = ("data", "flexible")

    def __init__(self, flexible: bool = False) -> None:
        self.data = bytearray()
        self.flexible = flexible

    def raw(self, data: Buffer) -> Self:
        """Bytes as they are."""
        self.data += data
        return self

    def boolean(self, value: bool) -> Self:
        """One byte."""
        self.data.append(value)
        return self

    def int8(self, value: int) -> Self:
        """A signed byte."""
        self.data += _INT8.pack(value)
        return self

    def int16(self, value: int) -> Self:
        """A signed 16-bit number; error codes too."""
        self.data += _INT16.pack(value)
        return self

    def int32(self, value: int) -> Self:
        """A signed 32-bit number."""
        self.data += _INT32.pack(value)
        return self

    def int64(self, value: int) -> Self:
        """A signed 64-bit number."""
        self.data += _INT64.pack(value)
        return self

    def uvarint(self, value: int) -> Self:
        """An unsigned varint."""
        if value < 0x80:
            self.data.append(value)
        else:
            self.data += encode_uvarint(value)
        return self

    def string(self, text: str) -> Self:
        """A string that is never null."""
        encoded = text.encode()
        size = len(encoded)
        if not self.flexible:
            self.data += _INT16.pack(size)
        elif size < 0x7F:
            self.data.append(size + 1)
        else:
            self.data += encode_uvarint(size + 1)
        self.data += encoded
        return self

    def nullable_string(self, text: str | None) -> Self:
        """A string or null."""
        return self.string_length(-1) if text is None else self.string(text)

    def string_length(self, length: int) -> Self:
        """The length of a string whose bytes come from elsewhere; -1 is null."""
        if not self.flexible:
            self.data += _INT16.pack(length)
        elif length < 0x7F:
            self.data.append(length + 1)
        else:
            self.data += encode_uvarint(length + 1)
        return self

    def octets(self, value: Buffer) -> Self:
        """Bytes that are never null."""
        size = len(value)
        if not self.flexible:
            self.data += _INT32.pack(size)
        elif size < 0x7F:
            self.data.append(size + 1)
        else:
            self.data += encode_uvarint(size + 1)
        self.data += value
        return self

    def octets_length(self, length: int) -> Self:
        """The length of bytes that come from elsewhere; -1 is null."""
        return self.array(length)

    def array(self, count: int) -> Self:
        """The length of an array; -1 is null."""
        if not self.flexible:
            self.data += _INT32.pack(count)
        elif count < 0x7F:
            self.data.append(count + 1)
        else:
            self.data += encode_uvarint(count + 1)
        return self

    def int32s(self, values: Sequence[int]) -> Self:
        """An array of 32-bit numbers."""
        self.array(len(values))
        for value in values:
            self.data += _INT32.pack(value)
        return self

    def tagged_fields(self, fields: Mapping[int, Buffer]) -> Self:
        """A section of tagged fields, in the order of their tags; only flexible versions have one."""
        assert self.flexible
        self.uvarint(len(fields))
        for tag in sorted(fields):
            self.uvarint(tag).uvarint(len(fields[tag])).raw(fields[tag])
        return self

    def end(self) -> Self:
        """The end of a structure: an empty section of tagged fields, where there are any."""
        if self.flexible:
            self.data.append(0)
        return self

    def to_bytes(self) -> bytes:
        """What has been written, copied."""
        return bytes(self.data)
