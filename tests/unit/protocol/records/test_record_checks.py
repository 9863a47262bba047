"""Checks of single records, and the search for a timestamp. The errors that clients get for them are tested in test_validation.py."""

import pytest

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader, encode_batch, read_header
from ottla.protocol.records.record_checks import FAULTS_MAX, Checks, Fault, Findings, check_records, find_timestamp

TIMES = Checks(needs_key=False, checks_time=True, earliest_ms=10, latest_ms=20)
KEYS = Checks(needs_key=True, checks_time=False, earliest_ms=0, latest_ms=0)


def of(*records: Record, **given: object) -> tuple[bytearray, BatchHeader]:
    batch = encode_batch(records, **given)  # type: ignore[arg-type]
    return batch[HEADER_BYTES:], read_header(batch)


def record(number: int, timestamp_ms: int = 15, key: bytes | None = b"k") -> Record:
    return Record(number, timestamp_ms, key, b"v", (Header("h", None), Header("", b"x")))


def test_nothing_is_wrong() -> None:
    assert check_records(*of(record(0), record(1, -1), record(2, 20)), TIMES._replace(needs_key=True)) == Findings()


def test_faults_of_single_records() -> None:
    section, header = of(record(0, 9), record(1, 15, None), record(2, 21))
    late = ((0, Fault.TIMESTAMP_OUT_OF_RANGE, 9), (2, Fault.TIMESTAMP_OUT_OF_RANGE, 21))
    assert check_records(section, header, TIMES) == Findings(faults=late, has_bad_timestamp=True)
    assert check_records(section, header, KEYS) == Findings(faults=((1, Fault.NO_KEY, 15),))
    both = check_records(section, header, TIMES._replace(needs_key=True))
    assert [(number, fault) for number, fault, _ in both.faults] == [(0, 2), (1, 1), (2, 2)]


def test_the_clients_log_append_time() -> None:
    section, header = of(record(0, 9), record(1, 30), is_log_append_time=True)
    assert [fault for _, fault, _ in check_records(section, header, KEYS).faults] == [Fault.LOG_APPEND_TIME] * 2
    assert check_records(section, header, TIMES).faults == tuple((number, Fault.TIMESTAMP_OUT_OF_RANGE, 30) for number in range(2))


def test_the_first_faults_are_listed_and_all_count() -> None:
    keyless = [record(number, key=None) for number in range(FAULTS_MAX + 5)]
    found = check_records(*of(*keyless, record(len(keyless), 5)), TIMES._replace(needs_key=True))
    assert [number for number, _, _ in found.faults] == list(range(FAULTS_MAX))
    assert found.has_bad_timestamp


def test_offsets_run_from_0() -> None:
    assert check_records(*of(record(0, key=None), record(2)), KEYS) == Findings(out_of_order=(1, 2))


def test_damage_ends_the_search_for_faults() -> None:
    section, header = of(record(0, key=None), record(1))
    assert check_records(section[:-1], header, KEYS).damage == "a record of 14 bytes does not fit into its batch"
    assert check_records(section + b"\0", header, KEYS).damage == "1 bytes follow the last record of a batch"


@pytest.mark.parametrize("damaged", [b"\1", b"\x05", b"\x09"])
def test_headers_are_checked_although_none_is_kept(damaged: bytes) -> None:
    section, header = of(record(0))
    header_key_at = len(section) - 6
    assert section[header_key_at] == 2
    section[header_key_at : header_key_at + 1] = damaged
    assert check_records(section, header, KEYS).damage is not None


def test_a_timestamp_is_found() -> None:
    section, header = of(*(record(number, 10 * number) for number in range(5)), base_offset=0)
    header = header._replace(base_offset=100)
    assert find_timestamp(section, header, 15, 0) == (20, 102)
    assert find_timestamp(section, header, 15, 104) == (40, 104)
    assert find_timestamp(section, header, 41, 0) is None
    section, header = of(record(0, 10), record(1, 50), is_log_append_time=True)
    assert find_timestamp(section, header, 30, 0) == (50, 0)


def test_damage_behind_what_is_found_does_not_matter() -> None:
    section, header = of(record(0, 10), record(1, 50))
    assert find_timestamp(section[:-1], header, 5, 0) == (10, 0)
    with pytest.raises(PeerError):
        find_timestamp(section[:-1], header, 50, 0)
