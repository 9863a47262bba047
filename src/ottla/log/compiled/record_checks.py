"""The compiled implementations of CheckRecords and FindTimestamp: the interpreter is not held while records are read.

Held equal to those in protocol/records/record_checks.py. Importing it loads NumPy and Numba (the extra `arrow`).

The kernels walk the decompressed records of one batch. They only read inside the bounds of their arguments and return a status instead of
raising: any bytes give a status. They accept what the plain codec (protocol/records/batch.py) accepts. Arguments are addresses: an array
as an argument costs atomic counts.

The records section is in memory whole, or in a window: what was read is overwritten by what follows. However large the section, memory
holds a part of it, or one record if that is larger.
"""

import mmap
from collections.abc import Callable
from typing import Final, NoReturn, cast

import numpy as np

from ottla.protocol.arrow.primitives import Array, Int, helper, jit, load, record, store
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import (
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    bytes_left,
    check_count,
    encode_batch,
    read_header,
    read_record,
    read_varint,
)
from ottla.protocol.records.compression import Inflated
from ottla.protocol.records.record_checks import FAULTS_MAX, OFFSET_DELTA_MAX, Checks, Fault, Findings

READ_BYTES: Final = 2 * 1024 * 1024
# The bytes that show a record to be damaged may lie this far behind its end: its numbers are read before they are found to be outside.
_BEHIND_BYTES: Final = 64

ReadInto = Callable[[memoryview], int]
"""Read the next bytes of a section into a buffer: how many, 0 behind the last one. PeerError when there can be no more."""

SOUND, DAMAGED, OUT_OF_ORDER, FOUND = range(4)

# The batch: fields of its header; the first four are those of every call.
COUNT, BASE_TIMESTAMP_MS, HEADER_TIMESTAMP_MS, IS_HEADER_TIME = range(4)
NEEDS_KEY, CHECKS_TIME, EARLIEST_MS, LATEST_MS = range(4, 8)
BASE_OFFSET, LAST_OFFSET_DELTA, WANTED_MS, FROM_OFFSET = range(4, 8)

# The state after a call: how many records were sound, where the next one begins, and the details of its status. The next call, with the
# bytes from there on, continues from it; the first one begins with zeros.
NUMBER, POSITION, OFFSET_DELTA, FAULTS, HAS_BAD_TIMESTAMP = range(5)
TIMESTAMP_MS, OFFSET = range(2, 4)
STATE_WORDS = 5

FAULT_WORDS = 3
"""Of each fault: the record's number, the fault, the timestamp."""

_NO_KEY, _OUT_OF_RANGE, _LOG_APPEND_TIME = int(Fault.NO_KEY), int(Fault.TIMESTAMP_OUT_OF_RANGE), int(Fault.LOG_APPEND_TIME)


class SectionWindow:
    """`view` holds the bytes from `dropped` on that were not read yet; `is_all`: they are the last ones.

    `read_into` returns at most `bytes_max` bytes in all.
    """

    def __init__(self, read_into: ReadInto, bytes_max: int, *, read_bytes: int = READ_BYTES) -> None:
        # Pages of a mapping that are not written take no memory. One byte more than can come: there is always space to ask for more.
        self._memory = memoryview(mmap.mmap(-1, bytes_max + 1))
        self._read_into = read_into
        self._bytes_max = bytes_max
        self._read_bytes = read_bytes
        self._size = 0
        self.dropped = 0
        self.is_all = False
        self._fill(read_bytes)

    @classmethod
    def whole(cls, section: Inflated) -> "SectionWindow":
        """A section that is in memory."""
        window = cls.__new__(cls)
        window._memory = memoryview(section)
        window._size = len(section)
        window.dropped = 0
        window.is_all = True
        return window

    @property
    def view(self) -> memoryview:
        return self._memory[: self._size]

    @property
    def address(self) -> int:
        """Where `view` begins, for compiled code; any address where it is empty."""
        return int(np.frombuffer(self._memory, np.uint8).ctypes.data) if len(self._memory) else 0

    def holds_record(self, position: int) -> bool:
        """Whether `view` has all by which the record at `position` can be judged."""
        return self.is_all or self._size - position >= self._needed(position)

    def advance(self, position: int) -> None:
        """Drop the bytes before `position`: `view` begins there from now on, and has more bytes at its end."""
        rest = self._size - position
        needed = self._needed(position)
        self._memory[:rest] = self._memory[position : self._size]
        self._size = rest
        self.dropped += position
        self._fill(max(needed, self._read_bytes))

    def count_bytes(self) -> int:
        """The size of the section in bytes; those behind `view` are read and dropped."""
        behind = 0
        while not self.is_all:
            count = self._read_into(self._memory[self._size : self._size + self._read_bytes])
            behind += count
            self.is_all = count == 0
        return self.dropped + self._size + behind

    def _needed(self, position: int) -> int:
        if self._size - position < _BEHIND_BYTES:
            return _BEHIND_BYTES
        try:
            length, start = read_varint(cast(bytes, self._memory), position)
        except PeerError:
            return 0
        end = start - position + length + _BEHIND_BYTES
        # A length that is negative or larger than all that can come is a fault that needs no more bytes.
        return end if 0 <= length <= self._bytes_max - self.dropped - start else 0

    def _fill(self, size: int) -> None:
        while self._size < size and not self.is_all:
            count = self._read_into(self._memory[self._size : size])
            self._size += count
            self.is_all = count == 0


@helper
def _timestamp(base_ms: Int, delta_ms: Int) -> tuple[Int, Int]:
    """A record's timestamp, and whether it fits into 64 bits."""
    # Unsigned numbers wrap around; of signed ones the compiler supposes that they do not.
    timestamp_ms = np.int64(np.uint64(base_ms) + np.uint64(delta_ms))
    return timestamp_ms, ((base_ms ^ timestamp_ms) & (delta_ms ^ timestamp_ms)) >= 0


@helper
def _fault(batch_at: Int, has_key: Int, timestamp_ms: Int) -> Int:
    """The error of a record, 0 for none."""
    fault = np.int64(0)
    if load(batch_at, NEEDS_KEY) != 0 and not has_key:
        fault = np.int64(_NO_KEY)
    elif load(batch_at, CHECKS_TIME) != 0 and timestamp_ms != NO_TIMESTAMP:
        if timestamp_ms < load(batch_at, EARLIEST_MS) or timestamp_ms > load(batch_at, LATEST_MS):
            fault = np.int64(_OUT_OF_RANGE)
    elif load(batch_at, IS_HEADER_TIME) != 0:
        fault = np.int64(_LOG_APPEND_TIME)
    return fault


@jit
def check(section_at: Int, size: Int, batch_at: Int, state_at: Int, faults_at: Int) -> Int:
    """Check the records of a section of `size` bytes: SOUND, also with faults; DAMAGED or OUT_OF_ORDER at the record NUMBER."""
    at, end = section_at, section_at + size
    base_ms, header_ms, is_header_time = (
        load(batch_at, BASE_TIMESTAMP_MS),
        load(batch_at, HEADER_TIMESTAMP_MS),
        load(batch_at, IS_HEADER_TIME),
    )
    faults, status = load(state_at, FAULTS), np.int64(SOUND)
    count, number = load(batch_at, COUNT), load(state_at, NUMBER)
    while number < count:
        delta_ms, offset_delta, key, _, _, record_end = record(at, end, np.int64(OFFSET_DELTA_MAX))
        timestamp_ms, fits = _timestamp(base_ms, delta_ms)
        if record_end < 0 or not fits:
            status = np.int64(DAMAGED)
            break
        if offset_delta != number:
            status = np.int64(OUT_OF_ORDER)
            store(state_at, OFFSET_DELTA, offset_delta)
            break
        timestamp_ms = header_ms if is_header_time != 0 else timestamp_ms
        fault = _fault(batch_at, key[1] >= 0, timestamp_ms)
        if fault != 0:
            if fault != _NO_KEY:
                store(state_at, HAS_BAD_TIMESTAMP, 1)
            if faults < FAULTS_MAX:
                store(faults_at, FAULT_WORDS * faults, number)
                store(faults_at, FAULT_WORDS * faults + 1, fault)
                store(faults_at, FAULT_WORDS * faults + 2, timestamp_ms)
                faults += 1
        at = record_end
        number += 1
    if status == SOUND and at != end:
        status = np.int64(DAMAGED)
    store(state_at, NUMBER, number)
    store(state_at, POSITION, at - section_at)
    store(state_at, FAULTS, faults)
    return status


@jit
def find(section_at: Int, size: Int, batch_at: Int, state_at: Int) -> Int:
    """Look for the first record at or after WANTED_MS and FROM_OFFSET: FOUND, SOUND without one, or DAMAGED before it."""
    at, end = section_at, section_at + size
    base_ms, header_ms, is_header_time = (
        load(batch_at, BASE_TIMESTAMP_MS),
        load(batch_at, HEADER_TIMESTAMP_MS),
        load(batch_at, IS_HEADER_TIME),
    )
    base_offset, last_delta = load(batch_at, BASE_OFFSET), load(batch_at, LAST_OFFSET_DELTA)
    wanted_ms, from_offset = load(batch_at, WANTED_MS), load(batch_at, FROM_OFFSET)
    count, number, status = load(batch_at, COUNT), load(state_at, NUMBER), np.int64(SOUND)
    while number < count:
        delta_ms, offset_delta, _, _, _, record_end = record(at, end, last_delta)
        timestamp_ms, fits = _timestamp(base_ms, delta_ms)
        if record_end < 0 or not fits:
            status = np.int64(DAMAGED)
            break
        timestamp_ms = header_ms if is_header_time != 0 else timestamp_ms
        if timestamp_ms >= wanted_ms and base_offset + offset_delta >= from_offset:
            store(state_at, TIMESTAMP_MS, timestamp_ms)
            store(state_at, OFFSET, base_offset + offset_delta)
            status = np.int64(FOUND)
            break
        at = record_end
        number += 1
    if status == SOUND and at != end:
        status = np.int64(DAMAGED)
    store(state_at, NUMBER, number)
    store(state_at, POSITION, at - section_at)
    return status


def check_records(section: Inflated | SectionWindow, header: BatchHeader, checks: Checks) -> Findings:
    """As the reference implementation."""
    window = section if isinstance(section, SectionWindow) else SectionWindow.whole(section)
    state, faults = np.zeros(STATE_WORDS, np.int64), np.empty((FAULTS_MAX, FAULT_WORDS), np.int64)
    batch = _batch(header, (int(checks.needs_key), int(checks.checks_time), checks.earliest_ms, checks.latest_ms))

    def call(address: int, size: int) -> int:
        return int(check(address, size, batch.ctypes.data, state.ctypes.data, faults.ctypes.data))

    try:
        status = _read(call, window, header, state, last_offset_delta=OFFSET_DELTA_MAX)
    except _Damage as damage:
        return Findings(damage=str(damage))
    number, _, offset_delta, fault_count, has_bad_timestamp = state.tolist()
    if status == OUT_OF_ORDER:
        return Findings(out_of_order=(number, offset_delta))
    listed = ((number, Fault(fault), timestamp_ms) for number, fault, timestamp_ms in faults[:fault_count].tolist())
    return Findings(faults=tuple(listed), has_bad_timestamp=bool(has_bad_timestamp))


def find_timestamp(section: Inflated | SectionWindow, header: BatchHeader, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """As the reference implementation."""
    window = section if isinstance(section, SectionWindow) else SectionWindow.whole(section)
    state = np.zeros(STATE_WORDS, np.int64)
    words = _batch(header, (header.base_offset, header.last_offset_delta, timestamp_ms, from_offset))

    def call(address: int, size: int) -> int:
        return int(find(address, size, words.ctypes.data, state.ctypes.data))

    status = _read(call, window, header, state, last_offset_delta=header.last_offset_delta)
    return (int(state[TIMESTAMP_MS]), int(state[OFFSET])) if status == FOUND else None


def _batch(header: BatchHeader, rest: tuple[int, int, int, int]) -> Array:
    words = (header.record_count, header.base_timestamp_ms, header.max_timestamp_ms, int(header.is_log_append_time), *rest)
    return np.array(words, np.int64)


class _Damage(PeerError):
    """The section can be decompressed, but does not hold the records of its batch."""


def _read(kernel: Callable[[int, int], int], window: SectionWindow, header: BatchHeader, state: Array, *, last_offset_delta: int) -> int:
    """The kernel's status for the whole section, read window by window. PeerError where it cannot be decompressed, _Damage otherwise."""
    status = kernel(window.address, len(window.view))
    while status == DAMAGED:
        number, position = state[: POSITION + 1].tolist()
        if number == header.record_count or window.holds_record(position):
            break
        window.advance(position)
        status = kernel(window.address, len(window.view))
    section_bytes = window.count_bytes()
    number, position = state[: POSITION + 1].tolist()
    try:
        check_count(header.record_count, section_bytes)
        if status == DAMAGED and number != header.record_count:
            _raise_damage(window.view[position:], header, last_offset_delta)
        left = section_bytes - window.dropped - position
        if status in (SOUND, DAMAGED) and left:
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
