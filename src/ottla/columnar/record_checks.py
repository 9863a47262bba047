"""The compiled implementations of CheckRecords and FindTimestamp: the interpreter is not held while records are read.

Held equal to those in core/records/record_checks.py. Importing it loads NumPy and Numba (the extra `arrow`).
"""

import numpy as np

from ottla.columnar import record_check_kernels as kernels
from ottla.columnar.kernels import Array
from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.batch import HEADER_BYTES, BatchHeader, encode_batch, read_header
from ottla.core.records.record import check_count, iter_records, read_record
from ottla.core.records.record_checks import FAULTS_MAX, OFFSET_DELTA_MAX, Checks, Fault, Findings


def check_records(section: bytearray, header: BatchHeader, checks: Checks) -> Findings:
    """As the reference implementation."""
    try:
        check_count(header.record_count, len(section))
    except PeerError as error:
        return Findings(damage=str(error))
    state, faults = np.zeros(kernels.STATE_WORDS, np.int64), np.empty((FAULTS_MAX, kernels.FAULT_WORDS), np.int64)
    batch = _batch(header, (int(checks.needs_key), int(checks.checks_time), checks.earliest_ms, checks.latest_ms))
    source = np.frombuffer(section, np.uint8) if section else state.view(np.uint8)
    status = kernels.check(source.ctypes.data, len(section), batch.ctypes.data, state.ctypes.data, faults.ctypes.data)
    number, position, offset_delta, fault_count, has_bad_timestamp = state.tolist()
    if status == kernels.DAMAGED:
        return Findings(damage=_damage(section, header, number, position, last_offset_delta=OFFSET_DELTA_MAX))
    if status == kernels.OUT_OF_ORDER:
        return Findings(out_of_order=(number, offset_delta))
    listed = ((number, Fault(fault), timestamp_ms) for number, fault, timestamp_ms in faults[:fault_count].tolist())
    return Findings(faults=tuple(listed), has_bad_timestamp=bool(has_bad_timestamp))


def find_timestamp(section: bytearray, header: BatchHeader, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """As the reference implementation."""
    check_count(header.record_count, len(section))
    state = np.zeros(kernels.STATE_WORDS, np.int64)
    words = _batch(header, (header.base_offset, header.last_offset_delta, timestamp_ms, from_offset))
    source = np.frombuffer(section, np.uint8) if section else state.view(np.uint8)
    status = kernels.find(source.ctypes.data, len(section), words.ctypes.data, state.ctypes.data)
    if status == kernels.DAMAGED:
        number, position = state[: kernels.POSITION + 1].tolist()
        raise PeerError(_damage(section, header, number, position, last_offset_delta=header.last_offset_delta))
    if status == kernels.SOUND:
        return None
    return int(state[kernels.TIMESTAMP_MS]), int(state[kernels.OFFSET])


def _batch(header: BatchHeader, rest: tuple[int, int, int, int]) -> Array:
    words = (header.record_count, header.base_timestamp_ms, header.max_timestamp_ms, int(header.is_log_append_time), *rest)
    return np.array(words, np.int64)


def _damage(section: bytearray, header: BatchHeader, number: int, position: int, *, last_offset_delta: int) -> str:
    """What the reference implementation says of the record that the kernel stopped at, or of the bytes behind the last one."""
    rest = bytes(memoryview(section)[position:])
    try:
        if number == header.record_count:
            for _ in iter_records(rest, count=0, base_offset=0, last_offset_delta=0, base_timestamp_ms=0):
                pass
        else:
            read_record(rest, 0, 0, last_offset_delta, header.base_timestamp_ms)
    except PeerError as error:
        return str(error)
    raise AssertionError("the compiled code found damage where the reference implementation finds none")


def warm_up() -> None:
    """Call every kernel once: compiled once on a machine, which takes seconds, and read from the cache later."""
    batch = encode_batch([Record(0, 0, b"k", b"v")])
    header, section = read_header(batch), batch[HEADER_BYTES:]
    findings = check_records(section, header, Checks(needs_key=True, checks_time=True, earliest_ms=0, latest_ms=0))
    assert findings == Findings(), "the batch of our own making is sound"
    assert find_timestamp(section, header, 0, 0) == (0, 0), "it holds this record"
