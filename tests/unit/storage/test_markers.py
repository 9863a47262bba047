"""Control batches in the log: markers, other kinds, damage."""

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.records.control import ControlType
from ottla.core.records.end_marker import EndMarker, encode_end_marker
from ottla.storage.markers import read_end_marker


def test_a_marker_is_read_from_its_batch() -> None:
    marker = EndMarker(ControlType.ABORT, 4)
    batch = encode_batch(
        [Record(0, 1, *encode_end_marker(marker))], producer_id=9, producer_epoch=0, is_transactional=True, is_control=True
    )
    assert read_end_marker(batch) == marker


def test_another_kind_is_none_and_damage_is_told() -> None:
    assert read_end_marker(encode_batch([Record(0, 1, b"\0\0\0\2", b"")], is_control=True)) is None
    with pytest.raises(StorageError, match="cannot be read"):
        read_end_marker(encode_batch([Record(0, 1, b"\0", b"")], is_control=True))
