"""Kafka's primitive types as bytes: a bounded reader and a writer for the few messages and records that we encode by hand.

Everything read may be hostile: every length is checked against what is left, and the only exception is `PeerError`.
"""

import struct
from typing import Self

from ottla.core.errors import PeerError
from ottla.core.model import TAGGED_FIELDS_MAX

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

Buffer = bytes | bytearray | memoryview


class Reader:
    """Reads primitive values one after another from `buffer`, from `at` on."""

    __slots__ = ("at", "buffer", "end")

    def __init__(self, buffer: Buffer, at: int = 0) -> None:
        self.buffer = buffer
        self.at = at
        self.end = len(buffer)

    def _take(self, count: int) -> int:
        at = self.at
        if count < 0 or at + count > self.end:
            raise PeerError(f"{count} bytes wanted at {at}, but the message ends at {self.end}")
        self.at = at + count
        return at

    def raw(self, count: int) -> bytes:
        """`count` bytes, copied."""
        at = self._take(count)
        return bytes(self.buffer[at : at + count])

    def skip(self, count: int) -> None:
        """Passes over `count` bytes."""
        self._take(count)

    def int8(self) -> int:
        """A signed byte."""
        return int(_INT8.unpack_from(self.buffer, self._take(1))[0])

    def int16(self) -> int:
        """A signed 16-bit number."""
        return int(_INT16.unpack_from(self.buffer, self._take(2))[0])

    def int32(self) -> int:
        """A signed 32-bit number."""
        return int(_INT32.unpack_from(self.buffer, self._take(4))[0])

    def int64(self) -> int:
        """A signed 64-bit number."""
        return int(_INT64.unpack_from(self.buffer, self._take(8))[0])

    def uvarint(self) -> int:
        """An unsigned varint of at most 5 bytes."""
        value = shift = 0
        while shift <= 28:
            byte = self.buffer[self._take(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise PeerError("a varint of more than 5 bytes")

    def _text(self, length: int) -> str:
        try:
            return self.raw(length).decode()
        except UnicodeDecodeError as error:
            raise PeerError("a string that is not UTF-8") from error

    def string(self) -> str:
        """A non-null string with a 16-bit length."""
        return self._text(self.int16())

    def nullable_string(self) -> str | None:
        """A string with a 16-bit length; -1 is null."""
        length = self.int16()
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str:
        """A non-null string with a varint length."""
        return self._text(self.uvarint() - 1)

    def compact_nullable_string(self) -> str | None:
        """A string with a varint length; 0 is null."""
        length = self.uvarint()
        return None if length == 0 else self._text(length - 1)

    def count(self, item_bytes_min: int, *, compact: bool) -> int:
        """The length of an array whose items take at least `item_bytes_min` bytes each; a null array counts 0."""
        count = self.uvarint() - 1 if compact else self.int32()
        if count * item_bytes_min > self.end - self.at:
            raise PeerError(f"an array of {count} items in {self.end - self.at} bytes")
        return max(count, 0)

    def compact_int32s(self) -> tuple[int, ...]:
        """A compact array of 32-bit numbers."""
        return tuple(self.int32() for _ in range(self.count(4, compact=True)))

    def tagged_fields(self) -> None:
        """Skips a section of tagged fields (KIP-482)."""
        count = self.uvarint()
        if count > TAGGED_FIELDS_MAX:
            raise PeerError(f"{count} tagged fields in one structure; allowed are {TAGGED_FIELDS_MAX}")
        for _ in range(count):
            self.uvarint()
            self._take(self.uvarint())


class Writer:
    """Writes primitive values one after another; every method returns the writer, so that fields read as a line."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts = bytearray()

    def raw(self, data: Buffer) -> Self:
        """Bytes as they are."""
        self.parts += data
        return self

    def int8(self, value: int) -> Self:
        """A signed byte."""
        self.parts += _INT8.pack(value)
        return self

    def int16(self, value: int) -> Self:
        """A signed 16-bit number."""
        self.parts += _INT16.pack(value)
        return self

    def int32(self, value: int) -> Self:
        """A signed 32-bit number."""
        self.parts += _INT32.pack(value)
        return self

    def int64(self, value: int) -> Self:
        """A signed 64-bit number."""
        self.parts += _INT64.pack(value)
        return self

    def uvarint(self, value: int) -> Self:
        """An unsigned varint."""
        while value >= 0x80:
            self.parts.append(value & 0x7F | 0x80)
            value >>= 7
        self.parts.append(value)
        return self

    def string(self, text: str) -> Self:
        """A non-null string with a 16-bit length."""
        data = text.encode()
        self.parts += _INT16.pack(len(data))
        self.parts += data
        return self

    def nullable_string(self, text: str | None) -> Self:
        """A string with a 16-bit length; null is -1."""
        return self.int16(-1) if text is None else self.string(text)

    def compact_string(self, text: str) -> Self:
        """A non-null string with a varint length."""
        data = text.encode()
        self.uvarint(len(data) + 1)
        self.parts += data
        return self

    def compact_nullable_string(self, text: str | None) -> Self:
        """A string with a varint length; null is 0."""
        return self.uvarint(0) if text is None else self.compact_string(text)

    def compact_int32s(self, values: tuple[int, ...]) -> Self:
        """A compact array of 32-bit numbers."""
        self.uvarint(len(values) + 1)
        for value in values:
            self.parts += _INT32.pack(value)
        return self

    def to_bytes(self) -> bytes:
        """What has been written."""
        return bytes(self.parts)
