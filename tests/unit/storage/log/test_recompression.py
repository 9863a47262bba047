"""The topic's codec: what is stored, what stays as it is, and what is refused. The table is Apache Kafka 4.3.0's."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.model import Header, Record
from ottla.core.records.batch import HEADER_BYTES, BatchHeader, crc_is_valid, decode_batch, encode_batch, join_batch, read_header
from ottla.core.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Codec, inflate
from ottla.storage.log.client_batch import UnreadBatch, accept
from ottla.storage.log.recompression import needs_recompression, recompress
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import LogRefusal

NOW_MS = 1_700_000_000_000
NAMES = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
RECORDS = [Record(number, NOW_MS + number, b"k%d" % number, b"v" * 50, (Header("h", None),)) for number in range(3)]


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
    batch = encode_batch(RECORDS, codec=sent, producer_id=77, producer_epoch=2, base_sequence=9)
    before = read_header(batch)
    header, data = stored(batch, LogSettings(compression_type=name))
    assert header == read_header(data)
    assert header.codec is codec
    assert (data.obj is batch) == (sent is codec)
    assert crc_is_valid(data, 0, len(data))
    assert decode_batch(data) == RECORDS
    assert header._replace(batch_length=0, crc=0, attributes=0) == before._replace(batch_length=0, crc=0, attributes=0)


def test_producer_keeps_what_came() -> None:
    batch = encode_batch(RECORDS, codec=LZ4)
    assert stored(batch, LogSettings())[1].obj is batch


def test_the_kind_of_timestamp_stays_and_meaningless_bits_go() -> None:
    batch = encode_batch(RECORDS, codec=LZ4, is_log_append_time=True, is_transactional=True)
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
    header = read_header(encode_batch(RECORDS, codec=GZIP))
    torn = join_batch(header, bytes(encode_batch(RECORDS, codec=GZIP)[61:-10]))
    refused = brought(torn, settings)
    assert isinstance(refused, LogRefusal)
    assert refused.error is ErrorCode.UNKNOWN_SERVER_ERROR
    lying = join_batch(header._replace(record_count=1000, last_offset_delta=999), bytes(encode_batch(RECORDS, codec=GZIP)[61:]))
    refused = brought(lying, settings)
    assert isinstance(refused, LogRefusal)
    assert refused.error is ErrorCode.INVALID_RECORD
