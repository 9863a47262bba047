"""A section in memory part by part; tests/properties/test_record_checks.py has the records that are read from it."""

import pytest

from ottla.columnar.record_checks.section_window import SectionWindow
from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.record import encode_records


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
