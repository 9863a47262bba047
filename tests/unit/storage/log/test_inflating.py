"""Compressed records that are read while another thread decompresses them."""

import os
import threading

import pytest

from ottla.core.errors import PeerError
from ottla.core.records.compression import GZIP, LZ4, ZSTD, Codec, Compressed, compress
from ottla.storage.log.inflating import Inflating

PLAIN = bytes(range(256)) * 4096
SIZE = len(PLAIN)


def inflated(data: bytes, codec: Codec, bytes_max: int) -> bytes:
    parts, buffer = [], memoryview(bytearray(10_000))
    with Inflating(Compressed(codec, memoryview(data)), output_bytes_max=bytes_max) as source:
        while count := source.read_into(buffer):
            parts.append(bytes(buffer[:count]))
    return b"".join(parts)


@pytest.fixture(autouse=True)
def _nothing_is_left():
    descriptors = set(os.listdir("/dev/fd"))
    yield
    assert set(os.listdir("/dev/fd")) == descriptors
    assert not [thread for thread in threading.enumerate() if thread.name == "ottla-inflating"]


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_all_bytes(codec: Codec) -> None:
    assert inflated(compress(codec, PLAIN), codec, SIZE) == PLAIN


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_damaged_bytes(codec: Codec) -> None:
    for data in (b"none of these", compress(codec, PLAIN)[:-9]):
        with pytest.raises(PeerError, match=f"the batch's {codec.name.lower()} data cannot be decompressed: "):
            inflated(data, codec, SIZE)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_too_many_bytes(codec: Codec) -> None:
    with pytest.raises(PeerError, match=f"the batch's {codec.name.lower()} data holds more than {SIZE - 1} bytes"):
        inflated(compress(codec, PLAIN), codec, SIZE - 1)


def test_reading_may_end_early() -> None:
    with Inflating(Compressed(ZSTD, memoryview(compress(ZSTD, PLAIN))), output_bytes_max=SIZE) as source:
        assert source.read_into(memoryview(bytearray(10))) == 10
