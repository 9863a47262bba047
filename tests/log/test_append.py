"""What a client may append. Unless it says otherwise, each answer in these tables is what Apache Kafka 4.3.0 gave to the same bytes."""

import struct

import pytest

from ottla.log.append import Accepted, LogRefusal, UnreadBatch, accept, assign, needs_recompression, own_batches, recompress
from ottla.log.settings import LogSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Header, Record
from ottla.protocol.records import record_checks
from ottla.protocol.records.batch import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    BatchHeader,
    crc_is_valid,
    decode_batch,
    encode_batch,
    encode_records,
    join_batch,
    read_header,
    seal,
)
from ottla.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Codec, compress, inflate
from ottla.protocol.records.record_checks import FAULTS_MAX, Checks, Findings

NOW_MS = 1_700_000_000_000
RECORDS = [Record(number, NOW_MS, b"k", b"v") for number in range(3)]
SETTINGS = LogSettings(segment_bytes=1 << 20)
GOOD = bytes(encode_batch(RECORDS))
LOG_APPEND = LogSettings(message_timestamp_type="LogAppendTime")
COMPACTED = LogSettings(cleanup_policy="compact")
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
WITHIN_A_DAY = LogSettings(message_timestamp_before_max_ms=DAY_MS)
OUT_OF_RANGE = "INVALID_TIMESTAMP"


def good(**given: object) -> bytes:
    return bytes(encode_batch(RECORDS, **given))  # type: ignore[arg-type]


def with_field(at: int, layout: str, value: int, *, sealed: bool = True) -> bytes:
    batch = bytearray(GOOD)
    struct.pack_into(layout, batch, at, value)
    if sealed:
        seal(batch)
    return bytes(batch)


def judge(data: bytes, settings: LogSettings = SETTINGS) -> LogRefusal | None:
    accepted = accept(memoryview(bytearray(data)), settings, NOW_MS)
    outcome = accepted.read() if isinstance(accepted, UnreadBatch) else accepted
    return outcome if isinstance(outcome, LogRefusal) else None


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
        ("length 2^31-1", with_field(8, ">i", (1 << 31) - 1), "UNKNOWN_SERVER_ERROR"),
        ("length 2^31-13", with_field(8, ">i", (1 << 31) - 13), "INVALID_RECORD"),
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
        ("a producer below zero", good(producer_id=-2, base_sequence=-1), "NONE"),
        ("codec 5", with_field(21, ">h", 5), "UNKNOWN_SERVER_ERROR"),
        ("codec 7", with_field(21, ">h", 7), "UNKNOWN_SERVER_ERROR"),
        ("codec 5 and a wrong checksum", with_field(21, ">h", 5, sealed=False), "CORRUPT_MESSAGE"),
        ("a bit without a meaning", with_field(21, ">h", 0x80), "NONE"),
        ("a transactional batch", good(is_transactional=True, producer_id=5, producer_epoch=0, base_sequence=0), "NONE"),
        ("a transactional control batch", good(is_transactional=True, is_control=True), "INVALID_RECORD"),
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


def test_a_large_batch_is_judged_by_its_records_before_its_segment() -> None:
    late = bytes(encode_batch([Record(0, NOW_MS + 3_600_001, b"k", bytes(1 << 20))]))
    assert error(late, LogSettings(segment_bytes=1 << 20, max_message_bytes=1 << 21)) == "INVALID_TIMESTAMP"


def section(*deltas: int) -> bytes:
    return bytes(encode_records([Record(delta, NOW_MS, b"k", b"v") for delta in deltas], base_offset=0, base_timestamp_ms=NOW_MS))


def batch_with(data: bytes, *, count: int = 3, codec: Codec = NONE, compressed: bool = True) -> bytes:
    """A sound header over any records section."""
    data = compress(codec, data) if compressed else data
    header = BatchHeader(0, 0, 0, 2, 0, codec, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)
    return bytes(join_batch(header, data))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_section_that_does_not_begin_as_its_codec_does_is_not_stored(codec: Codec) -> None:
    assert error(batch_with(section(0, 1, 2), codec=codec)) == "NONE"
    junk = batch_with(b"\xff" * 50, codec=codec, compressed=False)
    # Snappy has no sign of its own: what it holds is seen where records are read.
    assert error(junk) == ("NONE" if codec is SNAPPY else "UNKNOWN_SERVER_ERROR")
    assert error(junk, COMPACTED) == "UNKNOWN_SERVER_ERROR"
    assert error(batch_with(b"", codec=codec, compressed=False), COMPACTED) == "UNKNOWN_SERVER_ERROR"


def test_a_frame_to_be_skipped_may_come_first() -> None:
    assert error(batch_with(b"\x5a\x2a\x4d\x18\x00\x00\x00\x00" + compress(ZSTD, section(0, 1, 2)), codec=ZSTD, compressed=False)) == "NONE"


def test_more_records_than_fit_are_refused_without_a_look() -> None:
    assert error(batch_with(section(0, 1, 2), count=1000)) == "INVALID_RECORD"
    assert error(batch_with(b"")) == "INVALID_RECORD"
    assert error(batch_with(bytes(20), count=3)) == "INVALID_RECORD"
    assert error(batch_with(bytes(21), count=3)) == "NONE"


@pytest.mark.parametrize(
    ("name", "data", "plain", "compressed"),
    [
        ("sound", section(0, 1, 2), "NONE", "NONE"),
        ("fewer records", section(0, 1), "INVALID_RECORD", "INVALID_RECORD"),
        ("more records", section(0, 1, 2, 3), "INVALID_RECORD", "INVALID_RECORD"),
        ("a byte too many", section(0, 1, 2) + b"\0", "INVALID_RECORD", "INVALID_RECORD"),
        ("junk", b"\xff" * 50, "INVALID_RECORD", "INVALID_RECORD"),
        ("zeros", bytes(50), "INVALID_RECORD", "INVALID_RECORD"),
        # Kafka takes these three where the batch is not compressed, and stores two records with one offset
        ("the same offset", section(0, 0, 0), "INVALID_RECORD", "UNKNOWN_SERVER_ERROR"),
        ("out of order", section(0, 2, 1), "INVALID_RECORD", "UNKNOWN_SERVER_ERROR"),
        ("not from 0", section(1, 2, 3), "INVALID_RECORD", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_what_lies_inside_where_records_are_read(name: str, data: bytes, plain: str, compressed: str) -> None:
    assert error(batch_with(data), COMPACTED) == plain, name
    assert error(batch_with(data, codec=GZIP), COMPACTED) == compressed, name


def at(*ahead_ms: int | None, **given: object) -> bytes:
    """Records so far ahead of the broker's clock; None: without a time."""
    times = [-1 if ahead is None else NOW_MS + ahead for ahead in ahead_ms]
    return bytes(encode_batch([Record(number, ms, b"k", b"v") for number, ms in enumerate(times)], **given))  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize(
    ("name", "ahead_ms", "is_log_append_time", "settings", "answer", "numbers"),
    [
        ("an hour ahead", (HOUR_MS,), False, SETTINGS, "NONE", []),
        ("one more than an hour ahead", (0, HOUR_MS + 1, 0), False, SETTINGS, OUT_OF_RANGE, [1]),
        ("all of them", (HOUR_MS + 1, HOUR_MS + 2), False, SETTINGS, OUT_OF_RANGE, [0, 1]),
        ("any time, when the broker's counts", (HOUR_MS + 1, -2 * DAY_MS), False, LOG_APPEND, "NONE", []),
        ("no time", (None, None), False, WITHIN_A_DAY, "NONE", []),
        ("one has no time", (0, None), False, WITHIN_A_DAY, "NONE", []),
        ("long ago", (5 - NOW_MS,), False, SETTINGS, "NONE", []),
        ("before 1970", (-5 - NOW_MS, -7 - NOW_MS), False, SETTINGS, "NONE", []),
        ("before 1970 is too long ago", (-5 - NOW_MS, -7 - NOW_MS), False, WITHIN_A_DAY, OUT_OF_RANGE, [0, 1]),
        ("a day ago", (-DAY_MS,), False, WITHIN_A_DAY, "NONE", []),
        ("the first is too long ago", (-DAY_MS - 1, 0, 0), False, WITHIN_A_DAY, OUT_OF_RANGE, [0]),
        ("one behind the first is too long ago", (0, -DAY_MS - 1, 0), False, WITHIN_A_DAY, OUT_OF_RANGE, [1]),
        ("too long ago and too far ahead", (0, -DAY_MS - 1, 0, HOUR_MS + 1), False, WITHIN_A_DAY, OUT_OF_RANGE, [1, 3]),
        ("LogAppendTime from a client", (0, 1), True, SETTINGS, "NONE", []),
        ("LogAppendTime: the batch's time is each record's", (0, HOUR_MS + 1, 0), True, SETTINGS, OUT_OF_RANGE, [0, 1, 2]),
        ("LogAppendTime: the largest time counts", (-2 * DAY_MS, 0), True, WITHIN_A_DAY, "NONE", []),
        ("LogAppendTime without a time", (None, None), True, SETTINGS, OUT_OF_RANGE, [0, 1]),
        ("LogAppendTime to a topic of that kind", (0, 1), True, LOG_APPEND, OUT_OF_RANGE, [0, 1]),
    ],
)
def test_timestamps(
    name: str,
    ahead_ms: tuple[int | None, ...],
    is_log_append_time: bool,
    settings: LogSettings,
    answer: str,
    numbers: list[int],
    codec: Codec,
) -> None:
    refused = judge(at(*ahead_ms, is_log_append_time=is_log_append_time, codec=codec), settings)
    assert (refused.error.name if refused else "NONE") == answer, name
    assert [number for number, _ in refused.record_errors] == numbers if refused else not numbers


def test_a_header_whose_largest_time_is_none_of_its_records_is_refused() -> None:
    # Kafka corrects the header.
    lying = bytearray(at(0, 1))
    struct.pack_into(">q", lying, 35, NOW_MS + HOUR_MS + 1)
    seal(lying)
    refused = judge(bytes(lying))
    assert refused is not None
    assert (refused.error, refused.record_errors) == (ErrorCode.INVALID_TIMESTAMP, ())


def test_records_of_a_compacted_topic_need_keys() -> None:
    keyless = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v"), Record(2, NOW_MS, b"", b"v"), Record(3, NOW_MS, None, None)]
    assert judge(bytes(encode_batch(keyless))) is None
    assert judge(bytes(encode_batch(keyless[:1], codec=GZIP)), COMPACTED) is None
    refused = judge(bytes(encode_batch(keyless, codec=GZIP)), COMPACTED)
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_RECORD
    assert [number for number, _ in refused.record_errors] == [1, 3]


@pytest.mark.parametrize("settings", [COMPACTED, LogSettings(cleanup_policy="compact", message_timestamp_type="LogAppendTime")])
def test_a_wrong_time_among_keyless_records_gives_the_error_and_the_key_comes_first(settings: LogSettings) -> None:
    records = [Record(0, NOW_MS, None, b"v"), Record(1, NOW_MS + 2 * HOUR_MS, b"k", b"v"), Record(2, NOW_MS + 2 * HOUR_MS, None, b"v")]
    refused = judge(bytes(encode_batch(records, is_log_append_time=settings.is_log_append_time)), settings)
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_TIMESTAMP
    assert [sentence.split()[0] for _, sentence in refused.record_errors] == [
        "Compacted",
        "Producer" if settings.is_log_append_time else "Timestamp",
        "Compacted",
    ]


def test_not_every_record_of_a_huge_batch_is_named() -> None:
    count = FAULTS_MAX + 5
    batch = bytes(encode_batch([Record(number, NOW_MS, None, None) for number in range(count)], codec=ZSTD))
    refused = judge(batch, COMPACTED)
    assert refused is not None
    assert len(refused.record_errors) == FAULTS_MAX


@pytest.mark.parametrize(
    ("name", "data", "before_log"),
    [
        ("nothing", b"", True),
        ("two batches", GOOD * 2, True),
        ("format 1", with_field(16, ">b", 1), True),
        ("length 3", with_field(8, ">i", 3), True),
        ("a base offset", with_field(0, ">q", 5), False),
        ("a control batch", good(is_control=True), False),
    ],
)
def test_a_refusal_says_whether_the_log_was_asked(name: str, data: bytes, before_log: bool) -> None:
    refused = judge(data)
    assert refused is not None
    assert refused.before_log is before_log


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


NAMES = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
REPEATED = [Record(number, NOW_MS + number, b"k%d" % number, b"v" * 50, (Header("h", None),)) for number in range(3)]


def brought(batch: bytearray, settings: LogSettings) -> tuple[BatchHeader, memoryview] | LogRefusal:
    """The batch in the topic's codec; as it is where that is its own."""
    found = accept(memoryview(batch), settings, NOW_MS)
    assert isinstance(found, UnreadBatch) == needs_recompression(read_header(batch), settings), found
    return found.read() if isinstance(found, UnreadBatch) else found


def inflated(batch: bytearray) -> bytearray:
    section = inflate(read_header(batch).codec, batch[HEADER_BYTES:], output_bytes_max=1 << 20)
    assert section is not None
    return section


def stored(batch: bytearray, settings: LogSettings) -> tuple[BatchHeader, memoryview]:
    found = brought(batch, settings)
    assert not isinstance(found, LogRefusal), found
    return found


@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize(("name", "codec"), NAMES.items())
def test_every_codec_becomes_the_topics(sent: Codec, name: str, codec: Codec) -> None:
    batch = encode_batch(REPEATED, codec=sent, producer_id=77, producer_epoch=2, base_sequence=9)
    before = read_header(batch)
    header, data = stored(batch, LogSettings(compression_type=name))
    assert header == read_header(data)
    assert header.codec is codec
    assert (data.obj is batch) == (sent is codec)
    assert crc_is_valid(data, 0, len(data))
    assert decode_batch(data) == REPEATED
    assert header._replace(batch_length=0, crc=0, attributes=0) == before._replace(batch_length=0, crc=0, attributes=0)


def test_producer_keeps_what_came() -> None:
    batch = encode_batch(REPEATED, codec=LZ4)
    assert stored(batch, LogSettings())[1].obj is batch


def test_the_kind_of_timestamp_stays_and_meaningless_bits_go() -> None:
    batch = encode_batch(REPEATED, codec=LZ4, is_log_append_time=True, is_transactional=True)
    header = read_header(batch)
    odd = join_batch(header._replace(attributes=header.attributes | 0x40 | 0x80 | 0x4000), bytes(batch[61:]))
    sound = recompress(read_header(odd), inflated(odd), LogSettings(compression_type="zstd"))
    assert not isinstance(sound, LogRefusal)
    found, data = sound
    assert found.attributes == 0x10 | 0x08 | ZSTD
    assert [record.timestamp_ms for record in decode_batch(data)] == [NOW_MS + 2] * 3


def test_levels() -> None:
    text = b"".join(b"%d squared is %d; " % (number, number * number) for number in range(20_000))
    batch = encode_batch([Record(0, NOW_MS, b"k", text)])
    sizes = {}
    for codec, levels in (("gzip", (-1, 1, 6, 9)), ("lz4", (1, 9, 12, 17)), ("zstd", (-5, 1, 3, 19))):
        for level in levels:
            settings = LogSettings(compression_type=codec, **{f"compression_{codec}_level": level})  # type: ignore[arg-type]
            header, data = stored(batch, settings)
            sizes[codec, level] = len(data)
            assert decode_batch(data)[0].value == text
            assert header.codec is NAMES[codec]
    assert sizes["gzip", 6] == sizes["gzip", -1]
    assert len({sizes["gzip", level] for level in (1, 6, 9)}) == 3
    assert sizes["zstd", -5] > sizes["zstd", 1] > sizes["zstd", 19]
    # Kafka's default for lz4, 9, is its fast compressor, which has no level.
    assert sizes["lz4", 9] > sizes["lz4", 12] == sizes["lz4", 17]


def test_a_batch_that_grows_too_large_is_refused() -> None:
    batch = encode_batch([Record(0, NOW_MS, b"k", bytes(6000))], codec=GZIP)
    limit = LogSettings(compression_type="uncompressed", max_message_bytes=5000)
    refused = brought(batch, limit)
    assert isinstance(refused, LogRefusal)
    assert refused.error is ErrorCode.MESSAGE_TOO_LARGE
    small_segments = LogSettings(compression_type="uncompressed", segment_bytes=5000)
    refused = brought(batch, small_segments)
    assert isinstance(refused, LogRefusal)
    assert refused.error is ErrorCode.RECORD_LIST_TOO_LARGE


def test_what_cannot_be_inflated_or_holds_too_few_bytes_is_refused() -> None:
    settings = LogSettings(compression_type="uncompressed")
    header = read_header(encode_batch(REPEATED, codec=GZIP))
    torn = join_batch(header, bytes(encode_batch(REPEATED, codec=GZIP)[61:-10]))
    refused = brought(torn, settings)
    assert isinstance(refused, LogRefusal)
    assert refused.error is ErrorCode.UNKNOWN_SERVER_ERROR
    lying = join_batch(header._replace(record_count=1000, last_offset_delta=999), bytes(encode_batch(REPEATED, codec=GZIP)[61:]))
    refused = brought(lying, settings)
    assert isinstance(refused, LogRefusal)
    assert refused.error is ErrorCode.INVALID_RECORD
