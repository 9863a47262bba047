"""The compiled checks on single cases; tests/properties/test_record_checks.py holds them equal to the reference implementation."""

import pytest

from ottla.columnar.record_checks.checks import check_records, find_timestamp, load_kernels
from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.batch import HEADER_BYTES, encode_batch, read_header
from ottla.core.records.record_checks import Checks, Fault, Findings

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
