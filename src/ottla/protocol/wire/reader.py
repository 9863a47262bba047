"""The reader of Kafka's primitive types, for messages and records that are decoded by hand.

Every length is checked against the bytes that are left, and the only exception is `PeerError`. The requests of the hot path are read by
the functions of `fields`, which are faster; a property test holds the two equal.
"""

import struct
from collections.abc import Iterator

from ottla.protocol.errors import PeerError
from ottla.protocol.wire.fields import Buffer, skip_tagged_fields, uvarint

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


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
