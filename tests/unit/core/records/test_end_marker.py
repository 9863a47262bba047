"""Transaction markers: Kafka's bytes, and what is no marker."""

import pytest

from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.control import ControlType
from ottla.core.records.end_marker import EndMarker, decode_end_marker, encode_end_marker


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(7, 0, key, value)


def test_markers_are_kafkas_bytes() -> None:
    key, value = encode_end_marker(EndMarker(ControlType.COMMIT, 5))
    assert (key.hex(), value.hex()) == ("00000001", "000000000005")
    assert decode_end_marker(record(key, value)) == EndMarker(ControlType.COMMIT, 5)
    assert decode_end_marker(record(*encode_end_marker(EndMarker(ControlType.ABORT, 0)))) == EndMarker(ControlType.ABORT, 0)


def test_other_control_records_are_no_markers() -> None:
    assert decode_end_marker(record(bytes.fromhex("00000002"), b"")) is None


@pytest.mark.parametrize(("key", "value"), [(None, None), (b"\0\0\0", b"\0" * 6), (b"\0\0\0\0", None), (b"\0\0\0\1", b"\0" * 5)])
def test_damaged_control_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(PeerError):
        decode_end_marker(record(key, value))
