"""What a client may append. Unless it says otherwise, each answer in these tables is what Apache Kafka 4.3.0 gave to the same bytes."""

import struct

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, seal
from ottla.core.records.compression import GZIP
from ottla.storage.settings import LogSettings
from ottla.storage.validation import Refused, read_client_batch, refusal

NOW_MS = 1_700_000_000_000
RECORDS = [Record(number, NOW_MS, b"k", b"v") for number in range(3)]
SETTINGS = LogSettings(segment_bytes=1 << 20)
GOOD = bytes(encode_batch(RECORDS))


def good(**given: object) -> bytes:
    return bytes(encode_batch(RECORDS, **given))  # type: ignore[arg-type]


def with_field(at: int, layout: str, value: int, *, sealed: bool = True) -> bytes:
    batch = bytearray(GOOD)
    struct.pack_into(layout, batch, at, value)
    if sealed:
        seal(batch)
    return bytes(batch)


def judge(data: bytes, settings: LogSettings = SETTINGS) -> Refused | None:
    view = memoryview(bytearray(data))
    header = read_client_batch(view)
    return header if isinstance(header, Refused) else refusal(header, view[: header.size_bytes], settings, NOW_MS)


def error(data: bytes, settings: LogSettings = SETTINGS) -> str:
    refused = judge(data, settings)
    return "NONE" if refused is None else refused.error.name


@pytest.mark.parametrize(
    ("name", "data", "answer"),
    [
        ("whole", GOOD, "NONE"),
        ("nothing", b"", "INVALID_RECORD"),
        ("ten bytes", GOOD[:10], "INVALID_RECORD"),
        ("a piece of the header", GOOD[:40], "INVALID_RECORD"),
        ("cut by one byte", GOOD[:-1], "INVALID_RECORD"),
        ("a few bytes more", GOOD + b"12345", "NONE"),
        ("a partial second batch", GOOD + GOOD[:-1], "NONE"),
        ("zeros behind it", GOOD + bytes(70), "CORRUPT_MESSAGE"),
        ("two batches", GOOD * 2, "INVALID_RECORD"),
        ("format 0", with_field(16, ">b", 0), "INVALID_RECORD"),
        ("format 1", with_field(16, ">b", 1), "INVALID_RECORD"),
        ("format 3", with_field(16, ">b", 3), "CORRUPT_MESSAGE"),
        ("format -1", with_field(16, ">b", -1), "CORRUPT_MESSAGE"),
        ("length 0", with_field(8, ">i", 0), "CORRUPT_MESSAGE"),
        ("length 20", with_field(8, ">i", 20), "CORRUPT_MESSAGE"),
        ("length -1", with_field(8, ">i", -1), "CORRUPT_MESSAGE"),
        # Kafka: UNKNOWN_SERVER_ERROR, from an overflow
        ("length 2^31-1", with_field(8, ">i", (1 << 31) - 1), "INVALID_RECORD"),
    ],
)
def test_one_whole_batch_of_format_2(name: str, data: bytes, answer: str) -> None:
    assert error(data) == answer, name


def test_a_short_batch_of_its_own_length_is_corrupt() -> None:
    assert error(with_field(8, ">i", 20)[:32]) == "CORRUPT_MESSAGE"


@pytest.mark.parametrize(
    ("name", "data", "answer"),
    [
        ("a wrong checksum", with_field(30, ">b", 1, sealed=False), "CORRUPT_MESSAGE"),
        ("a base offset", with_field(0, ">q", 5), "INVALID_RECORD"),
        ("a leader epoch", with_field(12, ">i", -1), "NONE"),
        ("count 4 of 3", with_field(57, ">i", 4), "INVALID_RECORD"),
        ("count 0", with_field(57, ">i", 0), "INVALID_RECORD"),
        ("count -1", with_field(57, ">i", -1), "INVALID_RECORD"),
        ("last offset -1", with_field(23, ">i", -1), "INVALID_RECORD"),
        ("last offset 5", with_field(23, ">i", 5), "INVALID_RECORD"),
        ("a control batch", good(is_control=True), "INVALID_RECORD"),
        ("a producer without sequence", good(producer_id=5, producer_epoch=0), "INVALID_RECORD"),
        ("a producer without epoch", good(producer_id=5, base_sequence=0), "NONE"),
        # Kafka: UNKNOWN_SERVER_ERROR
        ("codec 5", with_field(21, ">h", 5), "UNSUPPORTED_COMPRESSION_TYPE"),
        ("codec 7", with_field(21, ">h", 7), "UNSUPPORTED_COMPRESSION_TYPE"),
    ],
)
def test_headers(name: str, data: bytes, answer: str) -> None:
    assert error(data) == answer, name


def batch_of(size: int) -> bytes:
    """One record in a batch of exactly `size` bytes."""
    batch = bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(size - 61 - 14))]))
    return bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(size - 61 - 14 + size - len(batch)))]))


def test_sizes() -> None:
    assert len(batch_of(1_048_588)) == 1_048_588
    large = LogSettings()
    assert error(batch_of(1_048_588), large) == "NONE"
    assert error(batch_of(1_048_589), large) == "MESSAGE_TOO_LARGE"
    assert error(batch_of(1_048_588)) == "RECORD_LIST_TOO_LARGE"
    assert error(batch_of(1 << 20)) == "NONE"


LOG_APPEND = LogSettings(message_timestamp_type="LogAppendTime")
FUTURE = bytes(encode_batch([Record(0, NOW_MS + 3_600_001, b"k", b"v")]))
PAST = bytes(encode_batch([Record(0, 5, b"k", b"v")]))


@pytest.mark.parametrize(
    ("name", "data", "settings", "answer"),
    [
        ("an hour ahead", bytes(encode_batch([Record(0, NOW_MS + 3_600_000, b"k", b"v")])), SETTINGS, "NONE"),
        ("more than an hour ahead", FUTURE, SETTINGS, "INVALID_TIMESTAMP"),
        ("any time, when the broker's counts", FUTURE, LOG_APPEND, "NONE"),
        ("no time", bytes(encode_batch([Record(0, -1, b"k", b"v")])), SETTINGS, "NONE"),
        ("long ago", PAST, SETTINGS, "NONE"),
        ("longer ago than allowed", PAST, LogSettings(message_timestamp_before_max_ms=86_400_000), "INVALID_TIMESTAMP"),
        ("LogAppendTime from a client", good(is_log_append_time=True), SETTINGS, "NONE"),
        ("LogAppendTime from a client to a topic of that kind", good(is_log_append_time=True), LOG_APPEND, "INVALID_TIMESTAMP"),
    ],
)
def test_timestamps(name: str, data: bytes, settings: LogSettings, answer: str) -> None:
    assert error(data, settings) == answer, name


def test_records_of_a_compacted_topic_need_keys() -> None:
    compacted = LogSettings(cleanup_policy="compact")
    keyless = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v"), Record(2, NOW_MS, b"", b"v"), Record(3, NOW_MS, None, None)]
    assert judge(bytes(encode_batch(keyless))) is None
    assert judge(bytes(encode_batch(keyless[:1], codec=GZIP)), compacted) is None
    refused = judge(bytes(encode_batch(keyless, codec=GZIP)), compacted)
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_RECORD
    assert [number for number, _ in refused.record_errors] == [1, 3]
    # Kafka: UNKNOWN_SERVER_ERROR
    assert error(with_field(21, ">h", 1), compacted) == "CORRUPT_MESSAGE"
