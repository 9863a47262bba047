"""The compiled implementations of CheckRecords and FindTimestamp: the interpreter is not held while records are read.

Held equal to those in protocol/records/record_checks.py. Importing it loads NumPy and Numba (the extra `arrow`).
"""

from collections.abc import Callable
from typing import NoReturn, cast

import numpy as np

from ottla.log.compiled import check_kernels as kernels
from ottla.log.compiled.section_window import SectionWindow
from ottla.protocol.arrow.primitives import Array
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader, bytes_left, check_count, encode_batch, read_header, read_record
from ottla.protocol.records.compression import Inflated
from ottla.protocol.records.record_checks import FAULTS_MAX, OFFSET_DELTA_MAX, Checks, Fault, Findings


def check_records(section: Inflated | SectionWindow, header: BatchHeader, checks: Checks) -> Findings:
    """As the reference implementation."""
    window = section if isinstance(section, SectionWindow) else SectionWindow.whole(section)
    state, faults = np.zeros(kernels.STATE_WORDS, np.int64), np.empty((FAULTS_MAX, kernels.FAULT_WORDS), np.int64)
    batch = _batch(header, (int(checks.needs_key), int(checks.checks_time), checks.earliest_ms, checks.latest_ms))

    def check(address: int, size: int) -> int:
        return int(kernels.check(address, size, batch.ctypes.data, state.ctypes.data, faults.ctypes.data))

    try:
        status = _read(check, window, header, state, last_offset_delta=OFFSET_DELTA_MAX)
    except _Damage as damage:
        return Findings(damage=str(damage))
    number, _, offset_delta, fault_count, has_bad_timestamp = state.tolist()
    if status == kernels.OUT_OF_ORDER:
        return Findings(out_of_order=(number, offset_delta))
    listed = ((number, Fault(fault), timestamp_ms) for number, fault, timestamp_ms in faults[:fault_count].tolist())
    return Findings(faults=tuple(listed), has_bad_timestamp=bool(has_bad_timestamp))


def find_timestamp(section: Inflated | SectionWindow, header: BatchHeader, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """As the reference implementation."""
    window = section if isinstance(section, SectionWindow) else SectionWindow.whole(section)
    state = np.zeros(kernels.STATE_WORDS, np.int64)
    words = _batch(header, (header.base_offset, header.last_offset_delta, timestamp_ms, from_offset))

    def find(address: int, size: int) -> int:
        return int(kernels.find(address, size, words.ctypes.data, state.ctypes.data))

    status = _read(find, window, header, state, last_offset_delta=header.last_offset_delta)
    return (int(state[kernels.TIMESTAMP_MS]), int(state[kernels.OFFSET])) if status == kernels.FOUND else None


def _batch(header: BatchHeader, rest: tuple[int, int, int, int]) -> Array:
    words = (header.record_count, header.base_timestamp_ms, header.max_timestamp_ms, int(header.is_log_append_time), *rest)
    return np.array(words, np.int64)


class _Damage(PeerError):
    """The section can be decompressed, but does not hold the records of its batch."""


def _read(kernel: Callable[[int, int], int], window: SectionWindow, header: BatchHeader, state: Array, *, last_offset_delta: int) -> int:
    """The kernel's status for the whole section, read window by window. PeerError where it cannot be decompressed, _Damage otherwise."""
    status = kernel(window.address, len(window.view))
    while status == kernels.DAMAGED:
        number, position = state[: kernels.POSITION + 1].tolist()
        if number == header.record_count or window.holds_record(position):
            break
        window.advance(position)
        status = kernel(window.address, len(window.view))
    section_bytes = window.count_bytes()
    number, position = state[: kernels.POSITION + 1].tolist()
    try:
        check_count(header.record_count, section_bytes)
        if status == kernels.DAMAGED and number != header.record_count:
            _raise_damage(window.view[position:], header, last_offset_delta)
        left = section_bytes - window.dropped - position
        if status in (kernels.SOUND, kernels.DAMAGED) and left:
            raise bytes_left(left)
    except PeerError as error:
        raise _Damage(str(error)) from error
    return status


def _raise_damage(rest: memoryview, header: BatchHeader, last_offset_delta: int) -> NoReturn:
    """The reference implementation's result for the record that the kernel stopped at."""
    read_record(cast(bytes, rest), 0, 0, last_offset_delta, header.base_timestamp_ms, with_headers=False)
    raise AssertionError("the compiled code found damage where the reference implementation finds none")


def load_kernels() -> None:
    """Call every kernel once: compiled once on a machine, which takes seconds, and read from the cache later."""
    batch = encode_batch([Record(0, 0, b"k", b"v")])
    header, section = read_header(batch), batch[HEADER_BYTES:]
    findings = check_records(section, header, Checks(needs_key=True, checks_time=True, earliest_ms=0, latest_ms=0))
    assert findings == Findings(), "the batch of our own making is sound"
    assert find_timestamp(section, header, 0, 0) == (0, 0), "it holds this record"
