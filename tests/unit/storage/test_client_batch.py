"""What a client sent, as the log stores it."""

from ottla.core.errors import ErrorCode
from ottla.core.model import Record
from ottla.core.records.batch import decode_batch, encode_batch
from ottla.core.records.compression import GZIP
from ottla.storage.client_batch import accept
from ottla.storage.settings import LogSettings
from ottla.storage.validation import Refused

NOW_MS = 1_700_000_000_000
RECORDS = [Record(number, NOW_MS, b"k", b"v") for number in range(3)]


def test_a_sound_batch_is_stored_where_it_lies_without_what_follows() -> None:
    batch = encode_batch(RECORDS)
    sent = bytearray(batch + batch[:-1])
    accepted = accept(memoryview(sent), LogSettings(), NOW_MS)
    assert not isinstance(accepted, Refused)
    header, view = accepted
    assert header.size_bytes == len(view) == len(batch)
    assert view.obj is sent


def test_the_topics_codec() -> None:
    accepted = accept(memoryview(encode_batch(RECORDS)), LogSettings(compression_type="gzip"), NOW_MS)
    assert not isinstance(accepted, Refused)
    header, view = accepted
    assert header.codec is GZIP
    assert decode_batch(view) == RECORDS


def test_refused_at_each_step() -> None:
    def error(batch: bytes | bytearray, **settings: object) -> ErrorCode:
        accepted = accept(memoryview(bytearray(batch)), LogSettings(**settings), NOW_MS)  # type: ignore[arg-type]
        assert isinstance(accepted, Refused)
        return accepted.error

    assert error(b"") is ErrorCode.INVALID_RECORD
    assert error(encode_batch(RECORDS), max_message_bytes=20) is ErrorCode.MESSAGE_TOO_LARGE
    large = encode_batch([Record(0, NOW_MS, b"k", bytes(1000))], codec=GZIP)
    assert error(large, max_message_bytes=500, compression_type="uncompressed") is ErrorCode.MESSAGE_TOO_LARGE
