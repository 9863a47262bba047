"""Checks of each record of a batch that a client sends, which the batch's header cannot show: keys, timestamps, offsets.

This is the reference implementation; log/compiled/record_checks.py is held equal to it. It decides nothing: which findings refuse a
batch, and with which error, is decided in log/append.py.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple, cast

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import DECOMPRESSED_BYTES_MAX, NO_TIMESTAMP, BatchHeader, iter_records
from ottla.protocol.records.compression import Compressed, Inflated

FAULTS_MAX: Final = 10_000
"""The first faults are listed, up to this many: a compressed batch can hold millions of records."""

OFFSET_DELTA_MAX: Final = (1 << 31) - 1


class Fault(IntEnum):
    """The error of a single record."""

    NO_KEY = 1
    TIMESTAMP_OUT_OF_RANGE = 2
    LOG_APPEND_TIME = 3


class Checks(NamedTuple):
    """What a topic requires of each record: a key; with `checks_time`, a timestamp (or none, -1) from `earliest_ms` to `latest_ms`."""

    needs_key: bool
    checks_time: bool
    earliest_ms: int
    latest_ms: int


class Findings(NamedTuple):
    """The findings before the first record that is damaged or out of order, or in all records.

    damage: why the section does not hold these records. out_of_order: (number, offset delta) of a record whose delta is not its number.
    faults: (number, fault, timestamp) of single records, at most FAULTS_MAX; `has_bad_timestamp` counts those beyond them, too.
    """

    damage: str | None = None
    out_of_order: tuple[int, int] | None = None
    faults: tuple[tuple[int, Fault, int], ...] = ()
    has_bad_timestamp: bool = False


Section = Inflated | Compressed
"""The records of a batch, decompressed or not."""

CheckRecords = Callable[[Section, BatchHeader, Checks], Findings]
"""From a section, its batch's header and the checks to the findings. PeerError when the section cannot be decompressed."""

FindTimestamp = Callable[[Section, BatchHeader, int, int], tuple[int, int] | None]
"""From a section, its batch's header, a timestamp and an offset to (timestamp, offset) of the first record at or after both.

None when there is none. PeerError when the section cannot be decompressed or is damaged before that record.
"""


def check_records(section: Section, header: BatchHeader, checks: Checks) -> Findings:
    """The reference implementation of CheckRecords."""
    section = _whole(section)
    faults: list[tuple[int, Fault, int]] = []
    has_bad_timestamp = False
    is_header_time = header.is_log_append_time
    try:
        for number, record in enumerate(_records(section, header, base_offset=0, last_offset_delta=OFFSET_DELTA_MAX)):
            if record.offset != number:
                return Findings(out_of_order=(number, record.offset))
            timestamp_ms = header.max_timestamp_ms if is_header_time else record.timestamp_ms
            fault = _fault(checks, record.key is not None, timestamp_ms, is_header_time)
            if fault is not None:
                has_bad_timestamp = has_bad_timestamp or fault is not Fault.NO_KEY
                if len(faults) < FAULTS_MAX:
                    faults.append((number, fault, timestamp_ms))
    except PeerError as error:
        return Findings(damage=str(error))
    return Findings(faults=tuple(faults), has_bad_timestamp=has_bad_timestamp)


def _whole(section: Section) -> Inflated:
    return section.inflate(DECOMPRESSED_BYTES_MAX) if isinstance(section, Compressed) else section


def _records(section: Inflated, header: BatchHeader, *, base_offset: int, last_offset_delta: int) -> Iterator[Record]:
    return iter_records(
        cast(bytes, section),  # it reads as bytes do, and no record is kept
        count=header.record_count,
        base_offset=base_offset,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
        with_headers=False,
    )


def _fault(checks: Checks, has_key: bool, timestamp_ms: int, is_header_time: bool) -> Fault | None:
    if checks.needs_key and not has_key:
        return Fault.NO_KEY
    if checks.checks_time and timestamp_ms != NO_TIMESTAMP:
        return None if checks.earliest_ms <= timestamp_ms <= checks.latest_ms else Fault.TIMESTAMP_OUT_OF_RANGE
    return Fault.LOG_APPEND_TIME if is_header_time else None


def find_timestamp(section: Section, header: BatchHeader, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """The reference implementation of FindTimestamp."""
    section = _whole(section)
    for record in _records(section, header, base_offset=header.base_offset, last_offset_delta=header.last_offset_delta):
        found_ms = header.max_timestamp_ms if header.is_log_append_time else record.timestamp_ms
        if found_ms >= timestamp_ms and record.offset >= from_offset:
            return found_ms, record.offset
    return None
