"""The four codecs of the record batch, by their numbers on the wire: bytes to bytes, never more of them than the caller allows.

It decides nothing about batches. Snappy is read both raw and in Kafka's "xerial" blocks, and written in those blocks; LZ4 is written as
frames of independent blocks, because Kafka's Java reader refuses linked ones.
"""

import mmap
import struct
from enum import IntEnum
from typing import Any, Final, NamedTuple

import cramjam

from ottla.protocol.errors import PeerError

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")

# First guess of a frame's inflated size.
_GUESS_BYTES_MIN: Final = 64 * 1024
_GUESS_RATIO: Final = 4
# More than this is inflated into a mapping.
_HEAP_BYTES_MAX: Final = 2 * 1024 * 1024
_TOO_SMALL: Final = "failed to write whole buffer"


# The start of the frames of Kafka's own client and of librdkafka: independent blocks of at most 64 kB, no other checksum than that of
# these bytes. Their blocks can be inflated one by one, in half the time that reading the frame takes.
_LZ4_COMMON: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES_MAX: Final = 64 * 1024
_LZ4_PIECE_BYTES: Final = 4 * 1024 * 1024
_LZ4_BLOCK_SIZE: Final = struct.Struct("<I")
_LZ4_STORED: Final = 1 << 31


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_INTO: Final = {Codec.GZIP: cramjam.gzip.decompress_into, Codec.LZ4: cramjam.lz4.decompress_into, Codec.ZSTD: cramjam.zstd.decompress_into}
NONE: Final = Codec.NONE
GZIP: Final = Codec.GZIP
SNAPPY: Final = Codec.SNAPPY
LZ4: Final = Codec.LZ4
ZSTD: Final = Codec.ZSTD


STREAMED: Final = (GZIP, LZ4, ZSTD)
"""What can be inflated into a file; a block of snappy is inflated as a whole."""

Inflated = bytearray | memoryview
"""Bytes that were decompressed: a few in a bytearray, many in a mapping of their own."""


class Compressed(NamedTuple):
    """The records of a batch as they are stored: bytes of a codec, which may be none."""

    codec: Codec
    data: memoryview

    def inflate(self, output_bytes_max: int) -> Inflated:
        """All of them; PeerError when they are damaged or inflate to more than `output_bytes_max` bytes."""
        output = inflate(self.codec, self.data, output_bytes_max=output_bytes_max)
        if output is None:
            raise too_much(self.codec, output_bytes_max)
        return output


def compress(codec: Codec, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """`data` compressed as Kafka's own clients write and read it.

    `level`: gzip 0 to 9, lz4 0 to 12 (0 the fastest), zstd -131072 to 22; None the library's own; none and snappy have no levels.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level))
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            frame = cramjam.lz4.Compressor(level=level, block_linked=False, content_checksum=False)
            for start in range(0, len(data), _LZ4_PIECE_BYTES):
                frame.compress(bytes(data[start : start + _LZ4_PIECE_BYTES]))  # it accepts no other type
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level))


def decompress(codec: Codec, data: bytes | bytearray | memoryview, *, output_bytes_max: int) -> bytes:
    """`data` inflated; PeerError when it is no such frame or would inflate to more than `output_bytes_max` bytes."""
    output = inflate(codec, data, output_bytes_max=output_bytes_max)
    if output is None:
        raise too_much(codec, output_bytes_max)
    return bytes(output)


def inflated_section(codec: Codec, data: bytes | bytearray | memoryview, *, output_bytes_max: int) -> bytes | mmap.mmap:
    """As `decompress`; many bytes are in a mapping, whose slices are bytes, without another copy of them."""
    output = inflate(codec, data, output_bytes_max=output_bytes_max)
    if output is None:
        raise too_much(codec, output_bytes_max)
    if not isinstance(output, memoryview) or not output:
        return bytes(output)
    mapping, size_bytes = output.obj, len(output)
    assert isinstance(mapping, mmap.mmap)
    output.release()
    try:
        mapping.resize(size_bytes)
    except SystemError:  # an operating system without mremap
        return mapping[:size_bytes]
    return mapping


def inflate(codec: Codec, data: bytes | bytearray | memoryview, *, output_bytes_max: int) -> Inflated | None:
    """As `decompress`, in memory that is allocated once; None when it would inflate to more than `output_bytes_max` bytes."""
    guess = max(_GUESS_BYTES_MIN, _GUESS_RATIO * len(data))
    if guess <= _HEAP_BYTES_MAX and guess < output_bytes_max and (output := _inflate_on_heap(codec, data, guess)) is not None:
        return output
    if output_bytes_max <= _HEAP_BYTES_MAX:
        return _inflate_on_heap(codec, data, output_bytes_max)
    # Pages of a mapping that are not written take no memory, and all of them are freed at once; a buffer that grows leaves the smaller
    # ones in the C library's heap.
    view = memoryview(mmap.mmap(-1, output_bytes_max))
    written = decompress_into(codec, data, view)
    return None if written is None else view[:written]


def _inflate_on_heap(codec: Codec, data: bytes | bytearray | memoryview, size: int) -> bytearray | None:
    output = bytearray(size)
    with memoryview(output) as view:
        written = decompress_into(codec, data, view)
    if written is None:
        return None
    del output[written:]
    return output


def inflate_to(codec: Codec, data: bytes | bytearray | memoryview, file: Any) -> None:
    """`data` of one of the STREAMED codecs inflated into a `cramjam.File`; PeerError when it is no such frame or the file takes no more."""
    try:
        _INTO[codec](data, file)
    except cramjam.DecompressionError as error:
        raise _undecodable(codec, error) from error


def decompress_into(codec: Codec, data: bytes | bytearray | memoryview, output: memoryview) -> int | None:
    """`data` inflated into `output`: the number of bytes, None when there is no space for them. PeerError when it is no such frame."""
    if codec is Codec.NONE:
        if len(data) > len(output):
            return None
        output[: len(data)] = data
        return len(data)
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), output)
        if codec is Codec.LZ4 and (written := _decompress_common_lz4(memoryview(data), output)) is not None:
            return written
        return int(_INTO[codec](data, output))
    except cramjam.DecompressionError as error:
        if _TOO_SMALL in str(error):
            return None
        raise _undecodable(codec, error) from error


def _undecodable(codec: Codec, error: Exception) -> PeerError:
    return PeerError(f"the batch's {codec.name.lower()} data cannot be decompressed: {error}")


def _decompress_common_lz4(data: memoryview, output: memoryview) -> int | None:
    """As `decompress_into`; None for any frame that is not of the common form, or not sound: the frame's own reader has the last word."""
    at, written, end = len(_LZ4_COMMON), 0, len(data)
    if bytes(data[:at]) != _LZ4_COMMON:
        return None
    while end - at >= _LZ4_BLOCK_SIZE.size:
        (size,) = _LZ4_BLOCK_SIZE.unpack_from(data, at)
        at += _LZ4_BLOCK_SIZE.size
        if size == 0:
            return written if at == end else None
        space = output[written : written + _LZ4_BLOCK_BYTES_MAX]
        block = data[at : at + (size & ~_LZ4_STORED)]
        at += len(block)
        if size & _LZ4_STORED:
            if len(block) > len(space):
                return None
            space[: len(block)] = block
            written += len(block)
            continue
        try:
            written += int(cramjam.lz4.decompress_block_into(block, space, output_len=len(space)))
        except cramjam.DecompressionError:
            return None
    return None


def too_much(codec: Codec, output_bytes_max: int) -> PeerError:
    """The error for data that inflates to more than the caller allows."""
    return PeerError(f"the batch's {codec.name.lower()} data holds more than {output_bytes_max} bytes")


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, output: memoryview) -> int | None:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_blocks([data], output)
    at, blocks = len(_XERIAL_HEADER), []
    while at != len(data):
        if at + _BLOCK_LENGTH.size > len(data):
            raise PeerError("the batch's snappy data ends inside a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, at)
        at += _BLOCK_LENGTH.size
        if not 0 < length <= len(data) - at:
            raise PeerError(f"the batch's snappy data names a block of {length} bytes where {len(data) - at} are left")
        blocks.append(data[at : at + length])
        at += length
    return _decompress_snappy_blocks(blocks, output)


def _decompress_snappy_blocks(blocks: list[memoryview], output: memoryview) -> int | None:
    # Each block has its inflated size, so the sum is known before a byte is written.
    sizes = [int(cramjam.snappy.decompress_raw_len(block)) for block in blocks]
    if sum(sizes) > len(output):
        return None
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        at += int(cramjam.snappy.decompress_raw_into(block, output[at : at + size]))
    return at
