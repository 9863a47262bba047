"""The writer of Kafka's primitive types, for messages and records that are encoded by hand.

It encodes the responses of the hot path too, where kio's writer, plain Python over dataclasses, takes many times as long. Tests hold
each of those responses to kio's bytes.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Self

from ottla.protocol.wire.fields import Buffer

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


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
