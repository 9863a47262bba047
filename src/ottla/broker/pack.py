"""Our own encoders for the answers of the hot path: kio's writer is plain Python and many times slower. Tests hold each to kio's bytes.

A `Packer` writes one version's way of strings, arrays and tagged fields, so that a handler reads as one list of fields.
"""

import struct
from typing import Self

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Packer:
    """Collects the fields of an answer; `flexible` chooses compact forms and tagged sections (KIP-482)."""

    __slots__ = ("data", "flexible")

    def __init__(self, flexible: bool) -> None:
        self.data = bytearray()
        self.flexible = flexible

    def raw(self, data: bytes) -> Self:
        """Bytes as they are."""
        self.data += data
        return self

    def boolean(self, value: bool) -> Self:
        """One byte."""
        self.data.append(value)
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

    def _length(self, value: int, width: struct.Struct) -> None:
        if not self.flexible:
            self.data += width.pack(value)
        elif value < 0x7F:
            self.data.append(value + 1)
        else:
            self.data += uvarint(value + 1)

    def string(self, text: str) -> Self:
        """A string that is never null."""
        encoded = text.encode()
        self._length(len(encoded), _INT16)
        self.data += encoded
        return self

    def nullable_string(self, text: str | None) -> Self:
        """A string or null."""
        if text is None:
            self._length(-1, _INT16)
            return self
        return self.string(text)

    def octets(self, value: bytes) -> Self:
        """Bytes that are never null."""
        self._length(len(value), _INT32)
        self.data += value
        return self

    def octets_length(self, length: int) -> Self:
        """The length of bytes that follow from somewhere else; -1 is null."""
        self._length(length, _INT32)
        return self

    def array(self, count: int) -> Self:
        """The length of an array; -1 is null."""
        self._length(count, _INT32)
        return self

    def end(self) -> Self:
        """The end of a structure: an empty section of tagged fields, where there are any."""
        if self.flexible:
            self.data.append(0)
        return self
