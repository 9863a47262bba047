"""Offsets and epochs written into batches; the broker's own batches are whole and sound, or refused."""

from ottla.core.errors import ErrorCode
from ottla.core.model import Record
from ottla.core.records.batch import crc_is_valid, decode_batch, encode_batch, read_header
from ottla.storage.log.offset_assignment import assign, own_batches
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import LogRefusal


def two_batches() -> bytearray:
    return encode_batch([Record(0, 5, None, b"a"), Record(1, 6, None, b"b")]) + encode_batch([Record(0, 7, None, b"c")])


def test_batches_are_numbered_one_behind_the_other() -> None:
    data = two_batches()
    headers = own_batches(memoryview(data))
    assert not isinstance(headers, LogRefusal)
    stored = assign(memoryview(data), headers, offset=40, leader_epoch=3, settings=LogSettings(), now_ms=99)
    assert [(header.base_offset, header.leader_epoch) for header in stored] == [(40, 3), (42, 3)]
    assert read_header(data, 0) == stored[0]
    assert [record.offset for record in decode_batch(data, stored[0].size_bytes)] == [42]


def test_log_append_time_is_sealed_again() -> None:
    data = two_batches()
    headers = own_batches(memoryview(data))
    assert not isinstance(headers, LogRefusal)
    settings = LogSettings(message_timestamp_type="LogAppendTime")
    stored = assign(memoryview(data), headers, offset=0, leader_epoch=0, settings=settings, now_ms=99)
    assert all(header.is_log_append_time and header.max_timestamp_ms == 99 for header in stored)
    assert crc_is_valid(data, 0, stored[0].size_bytes)
    assert [record.timestamp_ms for record in decode_batch(data)] == [99, 99]


def test_what_is_not_whole_and_sound_is_refused() -> None:
    data = two_batches()
    for wrong in (b"", data[:-1], data[:30]):
        refused = own_batches(memoryview(wrong))
        assert isinstance(refused, LogRefusal)
        assert refused.error is ErrorCode.CORRUPT_MESSAGE
    data[-1] ^= 1
    assert isinstance(own_batches(memoryview(data)), LogRefusal)
