"""Rows of records that are no commits; what the columns look like in Arrow is test_group_records.py's."""

import json

import pytest

from ottla.columnar.group_records.rows import row_of
from ottla.core.groups.log.records import GroupMetadataRecord, GroupMetadataValue, encode_key, encode_value


def _value(state_timestamp_ms: int) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="connect", generation=-1, protocol=None, leader=None, current_state_timestamp_ms=state_timestamp_ms, members=()
    )


@pytest.mark.parametrize(("time_ms", "time_us"), [(-1, None), (2**63 - 1, None), (-(2**63), None), (5, 5000)])
def test_a_time_that_is_not_there_or_does_not_fit_is_none(time_ms: int, time_us: int | None):
    record = GroupMetadataRecord(group_id="g", value=_value(time_ms))
    row = row_of(encode_key(record), encode_value(record))
    assert row["state_timestamp"] == time_us
    assert (row["is_known"], row["protocol"], row["members"]) == (True, None, [])


def test_a_tombstone_has_nothing_but_its_key():
    assert row_of(b"\0\x02\0\x01g", None) == {"is_known": True}
    assert json.loads(row_of(b"\0\x03\0\x01g", None)["record"]) == {"key": {"type": "3", "data": {"groupId": "g"}}, "value": None}


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"\0", None), (b"\0\x02", None), (b"\0\x02\0\x01g", b""), (b"\0\x03\0\x01g", b"\0\x09"), (b"\0\x63", None)],
)
def test_what_cannot_be_read_is_not_known(key: bytes | None, value: bytes | None):
    assert row_of(key, value) == {"is_known": False}
