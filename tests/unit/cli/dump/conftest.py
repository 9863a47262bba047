"""A partition's directory with a few records, and one with records of the offsets topic."""

from pathlib import Path

import pytest

from ottla.core.groups.log.records import GroupMetadataRecord, OffsetRecord, OffsetValue, encode_key, encode_value
from ottla.core.model import Header, Record
from ottla.core.records.batch import encode_batch


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """`t-0/00000000000000000000.log`: a record with everything, one with nothing, and a commit marker."""
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    records = [Record(0, 1000, b"k", "ž".encode(), (Header("h1", b""), Header("h2", None))), Record(1, 1001, None, b"\xff\x00", ())]
    batch = encode_batch(records, producer_id=7, producer_epoch=1, base_sequence=2**31 - 1, is_transactional=True)
    marker = Record(2, 1002, b"\0\0\0\1", b"\0\0\0\0\0\7", ())
    control = encode_batch([marker], base_offset=2, producer_id=7, producer_epoch=1, is_transactional=True, is_control=True)
    path.write_bytes(batch + control)
    return path


@pytest.fixture
def offsets_log(tmp_path: Path) -> Path:
    """A log of the offsets topic: a commit, a tombstone, an unknown type, an unknown version, and a damaged value."""
    path = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    path.parent.mkdir()
    value = OffsetValue(offset=42, leader_epoch=5, metadata="m", commit_timestamp_ms=1000)
    commit = OffsetRecord(group_id="g", topic="t", partition=3, value=value)
    gone = GroupMetadataRecord(group_id="g", value=None)
    pairs = [
        (encode_key(commit), encode_value(commit)),
        (encode_key(gone), None),
        (b"\x00\x63", b""),
        (encode_key(gone), b"\x00\x09"),
        (encode_key(gone), b"\x00\x03\x00"),
    ]
    path.write_bytes(encode_batch([Record(n, 1000, key, data, ()) for n, (key, data) in enumerate(pairs)]))
    return path
