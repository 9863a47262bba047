"""Kafka's primitive types, read from and written to bytes: what the records and the embedded consumer protocol are made of.

Reading is bounded: every length is checked against what is left, and anything wrong is a `PeerError`, never another exception.
It knows no record and no version.
"""

import struct
from collections.abc import Callable
from typing import TypeVar

from ottla.core.errors import PeerError

T = TypeVar("T")

STRING_BYTES_MAX = 32_767
_STRING_CHARS_SAFE = STRING_BYTES_MAX // 4
"""UTF-8 takes at most four bytes a character: no shorter string needs to be encoded to be measured."""

_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


class Reader:
    """Reads one value after another from `data`; `PeerError` when the bytes run out or cannot be."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes are still unread."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size < 0 or size > self.left:
            raise PeerError(f"{size} bytes announced, {self.left} left")
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def i8(self) -> int:
        """A signed byte."""
        return int(_I8.unpack(self.take(1))[0])

    def i16(self) -> int:
        """A signed 16-bit number."""
        return int(_I16.unpack(self.take(2))[0])

    def i32(self) -> int:
        """A signed 32-bit number."""
        return int(_I32.unpack(self.take(4))[0])

    def i64(self) -> int:
        """A signed 64-bit number."""
        return int(_I64.unpack(self.take(8))[0])

    def uvarint(self) -> int:
        """An unsigned variable-length number of at most five bytes."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise PeerError("a variable-length number of more than five bytes")

    def text(self, size: int) -> str:
        """`size` bytes of UTF-8."""
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise PeerError("a string that is not UTF-8") from error

    def nullable_string(self) -> str | None:
        """A string with a 16-bit length; -1 is null."""
        size = self.i16()
        return None if size == -1 else self.text(size)

    def string(self) -> str:
        """A string with a 16-bit length that may not be null."""
        return _required(self.nullable_string())

    def nullable_data(self) -> bytes | None:
        """Bytes with a 32-bit length; -1 is null."""
        size = self.i32()
        return None if size == -1 else self.take(size)

    def data(self) -> bytes:
        """Bytes with a 32-bit length that may not be null."""
        return _required(self.nullable_data())

    def compact_nullable_string(self) -> str | None:
        """A string with a variable length plus one; 0 is null."""
        size = self.uvarint()
        return None if size == 0 else self.text(size - 1)

    def compact_string(self) -> str:
        """A string with a variable length plus one that may not be null."""
        return _required(self.compact_nullable_string())

    def compact_data(self) -> bytes:
        """Bytes with a variable length plus one that may not be null."""
        size = self.uvarint()
        if size == 0:
            raise PeerError("null where a value is required")
        return self.take(size - 1)

    def array(self, item: Callable[[], T], *, item_bytes_min: int, compact: bool = False) -> tuple[T, ...]:
        """An array of `item`s; a count that cannot fit into what is left is refused before anything is built."""
        count = self.uvarint() - 1 if compact else self.i32()
        if count < 0 or count * item_bytes_min > self.left:
            raise PeerError(f"{count} items announced, {self.left} bytes left")
        return tuple(item() for _ in range(count))

    def tagged_fields(self) -> dict[int, bytes]:
        """The tagged fields that end a flexible structure, by tag."""
        count = self.uvarint()
        if count * 2 > self.left:
            raise PeerError(f"{count} tagged fields announced, {self.left} bytes left")
        fields = {}
        for _ in range(count):
            tag = self.uvarint()
            fields[tag] = self.take(self.uvarint())
        return fields


def _required(value: T | None) -> T:
    if value is None:
        raise PeerError("null where a value is required")
    return value


def refuse_long_strings(*texts: str | None) -> None:
    """PeerError for a string that no record could hold, whose strings have 16-bit lengths; Kafka's own reader refuses them too."""
    for text in texts:
        if text is not None and len(text) > _STRING_CHARS_SAFE and len(text.encode()) > STRING_BYTES_MAX:
            raise PeerError(f"a string of {len(text)} characters; {STRING_BYTES_MAX} bytes are allowed")


def uvarint(value: int) -> bytes:
    """An unsigned variable-length number."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str | None) -> bytes:
    """A string with a 16-bit length; None is -1."""
    if value is None:
        return b"\xff\xff"
    data = value.encode()
    return _I16.pack(len(data)) + data


def sized_bytes(value: bytes | None) -> bytes:
    """Bytes with a 32-bit length; None is -1."""
    return b"\xff\xff\xff\xff" if value is None else _I32.pack(len(value)) + value


def compact_string(value: str) -> bytes:
    """A string with a variable length plus one."""
    data = value.encode()
    return uvarint(len(data) + 1) + data
