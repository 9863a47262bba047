"""The compiled checks on single cases; tests/properties/test_record_checks.py holds them equal to the reference implementation."""

import os
import threading
from contextlib import suppress

import numpy as np
import pytest

from ottla.log.compiled import record_checks as kernels
from ottla.log.compiled.record_checks import SectionWindow, check_records, find_timestamp, load_kernels
from ottla.log.inflating import Inflating
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import HEADER_BYTES, encode_batch, encode_records, read_header
from ottla.protocol.records.compression import GZIP, LZ4, ZSTD, Codec, Compressed, compress
from ottla.protocol.records.record_checks import Checks, Fault, Findings

BATCH = encode_batch([Record(0, 9, b"k", b"v"), Record(1, 15, None, b"v")])
SECTION, HEADER = BATCH[HEADER_BYTES:], read_header(BATCH)
CHECKS = Checks(needs_key=True, checks_time=True, earliest_ms=10, latest_ms=20)


def test_findings() -> None:
    faults = ((0, Fault.TIMESTAMP_OUT_OF_RANGE, 9), (1, Fault.NO_KEY, 15))
    assert check_records(SECTION, HEADER, CHECKS) == Findings(faults=faults, has_bad_timestamp=True)
    assert check_records(SECTION[:-1], HEADER, CHECKS).damage == "a record of 7 bytes does not fit into its batch"
    assert check_records(SECTION + b"\0\0", HEADER, CHECKS).damage == "2 bytes follow the last record of a batch"
    assert check_records(SECTION[:3], HEADER, CHECKS).damage == "a batch of 3 bytes cannot hold the 2 records that it claims"


def test_a_timestamp() -> None:
    assert find_timestamp(SECTION, HEADER, 10, 0) == (15, 1)
    assert find_timestamp(SECTION, HEADER, 16, 0) is None
    with pytest.raises(PeerError, match="follow the last record"):
        find_timestamp(SECTION + b"\0", HEADER, 16, 0)


def test_warming_up_calls_every_kernel() -> None:
    load_kernels()


def check(section: bytes, count: int, base_timestamp_ms: int = 0) -> tuple[int, list[int]]:
    source, state = np.frombuffer(section, np.uint8), np.zeros(kernels.STATE_WORDS, np.int64)
    faults = np.zeros((4, kernels.FAULT_WORDS), np.int64)
    batch = np.array([count, base_timestamp_ms, 0, 0, 0, 0, 0, 0], np.int64)
    status = kernels.check(source.ctypes.data, len(section), batch.ctypes.data, state.ctypes.data, faults.ctypes.data)
    return status, state.tolist()


KERNEL_SECTION = bytes(encode_records([Record(number, 5, None, None) for number in range(3)], base_offset=0, base_timestamp_ms=0))


@pytest.mark.parametrize(
    ("section", "count", "status", "number", "position"),
    [
        (KERNEL_SECTION, 3, kernels.SOUND, 3, 21),
        (KERNEL_SECTION, 2, kernels.DAMAGED, 2, 14),
        (KERNEL_SECTION[:-1], 3, kernels.DAMAGED, 2, 14),
        (KERNEL_SECTION[7:], 2, kernels.OUT_OF_ORDER, 0, 0),
    ],
)
def test_where_a_check_stops(section: bytes, count: int, status: int, number: int, position: int) -> None:
    found, state = check(section, count)
    assert (found, state[kernels.NUMBER], state[kernels.POSITION]) == (status, number, position)


def test_a_timestamp_beyond_64_bits_is_damage() -> None:
    assert check(KERNEL_SECTION, 3, base_timestamp_ms=(1 << 63) - 5)[0] == kernels.DAMAGED
    assert check(KERNEL_SECTION, 3, base_timestamp_ms=(1 << 63) - 6)[0] == kernels.SOUND


def test_a_search_stops_at_what_it_finds() -> None:
    source, state = np.frombuffer(KERNEL_SECTION[:14] + b"\xff", np.uint8), np.zeros(kernels.STATE_WORDS, np.int64)
    batch = np.array([3, 0, 0, 0, 100, 2, 5, 101], np.int64)
    assert kernels.find(source.ctypes.data, len(source), batch.ctypes.data, state.ctypes.data) == kernels.FOUND
    assert (state[kernels.TIMESTAMP_MS], state[kernels.OFFSET]) == (5, 101)


class Source:
    """A section that comes some bytes at a time."""

    def __init__(self, section: bytes | bytearray, step: int = 7) -> None:
        self.rest = bytes(section)
        self._step = step
        self.largest_buffer = 0

    def read_into(self, buffer: memoryview) -> int:
        self.largest_buffer = max(self.largest_buffer, len(buffer))
        part = self.rest[: min(self._step, len(buffer))]
        buffer[: len(part)] = part
        self.rest = self.rest[len(part) :]
        return len(part)


def section_of(*values: bytes) -> bytearray:
    return encode_records((Record(number, 0, None, value) for number, value in enumerate(values)), base_offset=0, base_timestamp_ms=0)


def test_the_piece_moves_over_the_section() -> None:
    section = bytes(range(256))
    source = Source(section)
    window = SectionWindow(source.read_into, len(section), read_bytes=100)
    assert (bytes(window.view), window.dropped, window.is_all) == (section[:100], 0, False)
    window.advance(90)
    assert (bytes(window.view), window.dropped) == (section[90:190], 90)
    assert window.count_bytes() == 256
    assert (bytes(window.view), window.is_all) == (section[90:190], True)


def test_a_record_that_is_larger_than_a_piece_is_there_as_a_whole() -> None:
    section = section_of(b"small", b"x" * 1000, b"y" * 500)
    first = len(section_of(b"small"))
    window = SectionWindow(Source(section).read_into, len(section), read_bytes=50)
    assert not window.holds_record(first)
    window.advance(first)
    while not window.holds_record(0):  # its length comes before its end is known
        window.advance(0)
    assert len(window.view) < 1200
    assert bytes(window.view).startswith(section[first : first + 1000])


def test_a_length_that_cannot_be_asks_for_no_more_bytes() -> None:
    rest = bytes(300)
    for length in (b"\x01", b"\xff\xff\xff\xff\x0e", b"\xff\xff\xff\xff\xff\xff"):  # -1, 1.8 billion negated, none
        window = SectionWindow(Source(length + rest).read_into, 1000, read_bytes=100)
        assert window.holds_record(0)
    huge = SectionWindow(Source(b"\xfe\xff\xff\xff\x0f" + rest).read_into, 1000, read_bytes=100)
    assert huge.holds_record(0)


def test_no_buffer_is_larger_than_a_piece() -> None:
    source = Source(bytes(100_000), step=1000)
    window = SectionWindow(source.read_into, 1 << 20, read_bytes=2000)
    window.advance(1500)
    assert window.count_bytes() == 100_000
    assert source.largest_buffer == 2000


def test_a_section_that_is_in_memory() -> None:
    section = section_of(b"x")
    window = SectionWindow.whole(section)
    assert (window.view, window.is_all, window.holds_record(0), window.count_bytes()) == (section, True, True, len(section))
    assert SectionWindow.whole(bytearray()).address == 0


def test_what_is_wrong_with_the_source_is_raised() -> None:
    def fail(_buffer: memoryview) -> int:
        raise PeerError("too many")

    with pytest.raises(PeerError, match="too many"):
        SectionWindow(fail, 10)


PLAIN = bytes(range(256)) * 4096
SIZE = len(PLAIN)


def inflated(data: bytes, codec: Codec, bytes_max: int) -> bytes:
    parts, buffer = [], memoryview(bytearray(10_000))
    with Inflating(Compressed(codec, memoryview(data)), output_bytes_max=bytes_max) as source:
        while count := source.read_into(buffer):
            parts.append(bytes(buffer[:count]))
    return b"".join(parts)


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch):
    """The pipes that a test has made are closed at its end; clients of earlier tests open and close others in threads of their own."""
    make, made = os.pipe, []

    def pipe() -> tuple[int, int]:
        ends = make()
        made.extend((number, os.readlink(f"/dev/fd/{number}")) for number in ends)
        return ends

    monkeypatch.setattr(os, "pipe", pipe)
    yield
    for number, name in made:
        with suppress(OSError):  # closed
            assert os.readlink(f"/dev/fd/{number}") != name
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
