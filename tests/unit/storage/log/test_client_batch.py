"""What a client sent, as the log stores it."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.model import Record
from ottla.core.records import record_checks
from ottla.core.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, decode_batch, encode_batch, join_batch, read_header
from ottla.core.records.compression import GZIP, ZSTD, compress
from ottla.core.records.record_checks import Checks, Findings
from ottla.storage.log.client_batch import Accepted, UnreadBatch, accept
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import LogRefusal

NOW_MS = 1_700_000_000_000
RECORDS = [Record(number, NOW_MS, b"k", b"v") for number in range(3)]
COMPACTED = LogSettings(cleanup_policy="compact")


def accepted(outcome: object) -> Accepted:
    assert type(outcome) is tuple, outcome
    return outcome


def unread(batch: bytes | bytearray, settings: LogSettings) -> UnreadBatch:
    outcome = accept(memoryview(bytearray(batch)), settings, NOW_MS)
    assert isinstance(outcome, UnreadBatch), outcome
    return outcome


def test_a_sound_batch_is_stored_where_it_lies_without_what_follows() -> None:
    batch = encode_batch(RECORDS)
    sent = bytearray(batch + batch[:-1])
    header, view = accepted(accept(memoryview(sent), LogSettings(), NOW_MS))
    assert header.size_bytes == len(view) == len(batch)
    assert view.obj is sent


def test_a_batch_whose_records_were_read_is_stored_where_it_lies() -> None:
    found = unread(encode_batch(RECORDS, codec=GZIP), COMPACTED)
    header, view = accepted(found.read())
    assert (header, view.obj) == (found.header, found.batch.obj)


def test_the_topics_codec() -> None:
    header, view = accepted(unread(encode_batch(RECORDS), LogSettings(compression_type="gzip")).read())
    assert header.codec is GZIP
    assert decode_batch(view) == RECORDS


def test_a_copy_has_bytes_of_its_own() -> None:
    sent = bytearray(encode_batch(RECORDS))
    found = accept(memoryview(sent), COMPACTED, NOW_MS)
    assert isinstance(found, UnreadBatch)
    copy = found.copy()
    sent[:] = bytes(len(sent))
    assert decode_batch(accepted(copy.read())[1]) == RECORDS


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_records_that_take_more_than_is_allowed_here_are_not_read(codec) -> None:
    found = unread(encode_batch([Record(0, NOW_MS, b"k", bytes(100_000))], codec=codec), COMPACTED)
    assert found.decompress(bytes_max=1000) is None
    section = found.decompress(bytes_max=200_000)
    assert isinstance(section, bytearray)
    assert len(section) > 100_000
    assert accepted(found.read(section))[0] == found.header


def test_no_batch_is_decompressed_beyond_the_limit() -> None:
    batch = join_batch(read_header(encode_batch(RECORDS, codec=ZSTD)), compress(ZSTD, bytes(DECOMPRESSED_BYTES_MAX + 1)))
    refused = unread(batch, COMPACTED).read()
    assert isinstance(refused, LogRefusal)
    assert (refused.error, refused.message) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"the batch's zstd data holds more than {DECOMPRESSED_BYTES_MAX} bytes",
    )


def test_records_are_checked_by_what_is_given_and_only_where_the_topic_asks() -> None:
    asked: list[Checks] = []

    def check(section: bytearray, header: BatchHeader, checks: Checks) -> Findings:
        asked.append(checks)
        return record_checks.check_records(section, header, checks)

    accepted(unread(encode_batch(RECORDS), COMPACTED).read(check=check))
    assert asked == [Checks(needs_key=True, checks_time=True, earliest_ms=NOW_MS - (1 << 63) + 1, latest_ms=NOW_MS + 3_600_000)]
    accepted(unread(encode_batch(RECORDS), LogSettings(compression_type="lz4")).read(check=check))
    assert len(asked) == 1


def test_refused_at_each_step() -> None:
    def error(batch: bytes | bytearray, **settings: object) -> ErrorCode:
        outcome = accept(memoryview(bytearray(batch)), LogSettings(**settings), NOW_MS)  # type: ignore[arg-type]
        refused = outcome.read() if isinstance(outcome, UnreadBatch) else outcome
        assert isinstance(refused, LogRefusal)
        return refused.error

    assert error(b"") is ErrorCode.INVALID_RECORD
    assert error(encode_batch(RECORDS), max_message_bytes=20) is ErrorCode.MESSAGE_TOO_LARGE
    assert error(encode_batch(RECORDS), segment_bytes=20) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert error(encode_batch(RECORDS), segment_bytes=20, cleanup_policy="compact") is ErrorCode.RECORD_LIST_TOO_LARGE
    assert error(encode_batch([Record(0, NOW_MS, None, b"v")]), cleanup_policy="compact") is ErrorCode.INVALID_RECORD
    large = encode_batch([Record(0, NOW_MS, b"k", bytes(1000))], codec=GZIP)
    assert error(large, max_message_bytes=500, compression_type="uncompressed") is ErrorCode.MESSAGE_TOO_LARGE
