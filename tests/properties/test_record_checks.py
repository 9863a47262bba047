"""The compiled checks of a batch's records against the reference implementation: the same findings for any bytes."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.log.compiled import record_checks as compiled
from ottla.log.compiled.record_checks import SectionWindow
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records import record_checks as reference
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader, encode_batch, encode_records, read_header
from ottla.protocol.records.record_checks import FAULTS_MAX, Checks

NOW_MS = 1_700_000_000_000
INT64_MAX = (1 << 63) - 1
TIMES = st.sampled_from([-1, 0, NOW_MS - 1, NOW_MS, NOW_MS + 1, INT64_MAX, -INT64_MAX - 1]) | st.integers(NOW_MS - 10, NOW_MS + 10)
DELTAS_MS = st.integers(-20, 20) | st.sampled_from([-NOW_MS - 1, INT64_MAX, -INT64_MAX - 1])
SMALL_BYTES = st.none() | st.binary(max_size=200)
PARTS = st.tuples(DELTAS_MS, SMALL_BYTES, SMALL_BYTES, st.lists(st.tuples(st.text(max_size=3), SMALL_BYTES), max_size=3))
CHECKS = st.builds(Checks, needs_key=st.booleans(), checks_time=st.booleans(), earliest_ms=TIMES, latest_ms=TIMES)


def header_of(count: int, base_timestamp_ms: int, max_timestamp_ms: int, *, is_log_append_time: bool, last_delta: int, base_offset: int):
    header = read_header(encode_batch([Record(0, 0, None, None)], is_log_append_time=is_log_append_time))
    return header._replace(
        record_count=count,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        last_offset_delta=last_delta,
        base_offset=base_offset,
    )


@st.composite
def sections(draw: st.DrawFn) -> tuple[bytearray, BatchHeader]:
    """Records that are mostly sound, under a header that mostly is theirs; some bytes damaged."""
    parts = draw(st.lists(PARTS, min_size=1, max_size=12))
    offsets = list(range(len(parts)))
    if draw(st.integers(0, 3)) == 0:
        offsets[draw(st.integers(0, len(offsets) - 1))] = draw(st.integers(0, 1 << 31))
    records = [
        Record(offset, delta_ms, key, value, tuple(Header(*header) for header in headers))
        for offset, (delta_ms, key, value, headers) in zip(offsets, parts, strict=True)
    ]
    section = encode_records(records, base_offset=0, base_timestamp_ms=0)
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        section[draw(st.integers(0, len(section) - 1))] = draw(st.integers(0, 255))
    section = section[: draw(st.sampled_from([len(section), len(section), len(section) - 1]))]
    section += draw(st.sampled_from([b"", b"", b"\0"]))
    header = header_of(
        draw(st.sampled_from([len(parts), len(parts), len(parts) + 1, len(parts) - 1])),
        draw(TIMES),
        draw(TIMES),
        is_log_append_time=draw(st.booleans()),
        last_delta=draw(st.sampled_from([len(parts) - 1, (1 << 31) - 1])),
        base_offset=draw(st.integers(0, 1 << 40)),
    )
    return section, header


def read_in_parts(section: bytearray, read_bytes: int) -> SectionWindow:
    """The section as it comes from a pipe, in parts that are smaller than most of its records."""
    rest = memoryview(bytes(section))

    def read_into(buffer: memoryview) -> int:
        nonlocal rest
        count = min(len(buffer), len(rest), read_bytes)
        buffer[:count] = rest[:count]
        rest = rest[count:]
        return count

    return SectionWindow(read_into, max(1, len(section)), read_bytes=read_bytes)


@given(sections(), CHECKS, st.integers(1, 300))
def test_checks_find_the_same(batch: tuple[bytearray, BatchHeader], checks: Checks, read_bytes: int) -> None:
    expected = reference.check_records(*batch, checks)
    assert compiled.check_records(*batch, checks) == expected
    assert compiled.check_records(read_in_parts(batch[0], read_bytes), batch[1], checks) == expected


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 9), CHECKS)
@example(b"", 0, Checks(True, True, 0, 0))
def test_checks_of_any_bytes_find_the_same(data: bytes, count: int, checks: Checks) -> None:
    header = header_of(count, NOW_MS, NOW_MS, is_log_append_time=False, last_delta=count, base_offset=0)
    expected = reference.check_records(bytearray(data), header, checks)
    assert compiled.check_records(bytearray(data), header, checks) == expected
    assert compiled.check_records(read_in_parts(bytearray(data), 7), header, checks) == expected


def found(find, section: bytearray, header: BatchHeader, timestamp_ms: int, from_offset: int):
    try:
        return find(section, header, timestamp_ms, from_offset)
    except PeerError as error:
        return str(error)


@given(sections(), TIMES, st.integers(-1, 12), st.integers(1, 300))
def test_searches_find_the_same(batch: tuple[bytearray, BatchHeader], timestamp_ms: int, past: int, read_bytes: int) -> None:
    section, header = batch
    wanted = (section, header, timestamp_ms, header.base_offset + past)
    expected = found(reference.find_timestamp, *wanted)
    assert found(compiled.find_timestamp, *wanted) == expected
    assert found(compiled.find_timestamp, read_in_parts(section, read_bytes), *wanted[1:]) == expected


@pytest.mark.parametrize("count", [FAULTS_MAX - 1, FAULTS_MAX, FAULTS_MAX + 5])
def test_more_faults_than_are_listed(count: int) -> None:
    records = [Record(number, NOW_MS, None, None) for number in range(count)]
    records.append(Record(count, NOW_MS - 50, b"k", None))
    batch = encode_batch(records)
    checks = Checks(needs_key=True, checks_time=True, earliest_ms=NOW_MS - 10, latest_ms=NOW_MS)
    expected = reference.check_records(batch[HEADER_BYTES:], read_header(batch), checks)
    assert (len(expected.faults), expected.has_bad_timestamp) == (min(count + 1, FAULTS_MAX), True)
    assert compiled.check_records(batch[HEADER_BYTES:], read_header(batch), checks) == expected
    assert compiled.check_records(read_in_parts(batch[HEADER_BYTES:], 5000), read_header(batch), checks) == expected
