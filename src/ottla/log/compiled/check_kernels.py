"""Numba kernels that walk the decompressed records of one batch: the checks of a client's batch, and the search for a timestamp.

They only read inside the bounds of their arguments and return a status instead of raising: any bytes give a status. They accept
what the plain codec (protocol/records/batch.py) accepts. Arguments are addresses: an array as an argument costs atomic counts.
"""

import numpy as np

from ottla.protocol.arrow.primitives import Int, helper, jit, load, record, store
from ottla.protocol.records.batch import NO_TIMESTAMP
from ottla.protocol.records.record_checks import FAULTS_MAX, OFFSET_DELTA_MAX, Fault

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
