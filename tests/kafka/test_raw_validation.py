"""What may be appended, with both brokers: the same odd batches go in, the same refusals and the same stored batches come out.

Two differences are meant, and not asked here: bytes inside a batch that no client writes are only looked at where the topic makes it
necessary, and there records with wrong offsets are refused even where they are not compressed.
"""

import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import BatchHeader, decode_batch, encode_batch, encode_records, join_batch, seal, split_batches
from ottla.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Codec, compress
from ottla.protocol.wire.api_keys import ApiKey

NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
SEQUENCE_MAX = (1 << 31) - 1
VERSIONS = (3, 6, 7, 8, 9, 12)

pytestmark = pytest.mark.kafka


def batch(*values: bytes, **options: Any) -> bytes:
    records = [Record(number, NOW_MS, b"k%d" % number, value, (Header("h", None),)) for number, value in enumerate(values)]
    return bytes(encode_batch(records, **options))


def changed(data: bytes, at: int, layout: str, value: int, *, sealed: bool = True) -> bytes:
    other = bytearray(data)
    struct.pack_into(layout, other, at, value)
    if sealed:
        seal(other)
    return bytes(other)


def with_codec(data: bytes, codec: int) -> bytes:
    return changed(data, 21, ">h", codec)


def around(section: bytes, *, count: int, codec: Codec = NONE) -> bytes:
    """A sound header around any records."""
    header = BatchHeader(0, 0, 0, 2, 0, codec, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)
    return bytes(join_batch(header, compress(codec, section)))


def section(*deltas: int) -> bytes:
    return bytes(encode_records([Record(delta, NOW_MS, b"k", b"v") for delta in deltas], base_offset=0, base_timestamp_ms=NOW_MS))


def send(talk: Any, topic: str, *partitions: bytes, **values: Any) -> None:
    """One request with records for as many partitions; of the answer, all but sentences and times is compared."""
    data = [{"index": number, "records": records} for number, records in enumerate(partitions)]
    topic_data = [{"name": topic, "partition_data": data}]
    answer = talk.quietly(ApiKey.PRODUCE, talk.version, **{"acks": -1, "timeout": 5000, "topic_data": topic_data} | values)
    found = sorted(answer.responses[0].partition_responses, key=lambda each: each.index)
    talk.answers.append(
        [
            {
                "index": each.index,
                "error": each.error_code.name,
                "base_offset": each.base_offset,
                "has_time": each.log_append_time is not None,
                "log_start_offset": getattr(each, "log_start_offset", None),
                "at_fault": [fault.batch_index for fault in getattr(each, "record_errors", ())],
            }
            for each in found
        ]
    )


def stored(talk: Any, topic: str) -> Iterator[tuple[Any, ...]]:
    """The batches of partition 0 as consumers get them; compressed bytes differ, what they hold does not."""
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000, "current_leader_epoch": -1}
    topics = [{"topic": topic, "partitions": [asked]}]
    answer = talk.quietly(ApiKey.FETCH, 11, replica_id=-1, max_wait=0, max_bytes=1_000_000, session_epoch=-1, topics=topics)
    data = bytes(answer.responses[0].partitions[0].records)
    for at, header in split_batches(data):
        times = ("now", "now") if header.is_log_append_time else (header.base_timestamp_ms, header.max_timestamp_ms)
        records = [record._replace(timestamp_ms=0) if header.is_log_append_time else record for record in decode_batch(data, at)]
        yield header._replace(batch_length=0, crc=0, base_timestamp_ms=0, max_timestamp_ms=0), times, records


@pytest.mark.parametrize("version", VERSIONS)
def test_headers(same_answers: Any, version: int) -> None:
    good = batch(b"a", b"b", b"c")
    first = (
        *(with_codec(good, codec) for codec in (5, 6, 7)),
        changed(good, 21, ">h", 5, sealed=False),
        changed(good, 30, ">b", 1, sealed=False),
        *(changed(good, 16, ">b", magic) for magic in (0, 1, 3, -1)),
        *(changed(good, 8, ">i", length) for length in (0, 13, 20, SEQUENCE_MAX, SEQUENCE_MAX - 11, SEQUENCE_MAX - 12)),
        changed(good, 0, ">q", 5),
        changed(good, 12, ">i", -1),
        *(changed(good, 57, ">i", count) for count in (-1, 0, 2, 4)),
        *(changed(good, 23, ">i", last) for last in (-1, 1, 5)),
        changed(changed(good, 57, ">i", 1000), 23, ">i", 999),
        *(changed(good, 21, ">h", bits) for bits in (0x20, 0x80, 0x4000)),
        good[:10],
        good[:17],
        good[:40],
        good[:-1],
        good + good[:-1],
        good + b"12345",
        good + bytes(70),
        good + good,
        batch(b"x" * 3000),
        batch(b"a", producer_id=5, producer_epoch=0),
        batch(b"a", producer_id=6, base_sequence=0),
        batch(b"a", producer_id=-2, producer_epoch=3, base_sequence=0),
        batch(b"a", producer_epoch=3, base_sequence=7),
        batch(b"a", producer_id=7, producer_epoch=0, base_sequence=-5),
    )

    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 2, max_message_bytes="2000")
        for data in first:
            send(talk, topic, data, good)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests(same_answers: Any, version: int) -> None:
    good = batch(b"a")
    transactional = batch(b"a", is_transactional=True, producer_id=9_000_000, producer_epoch=0, base_sequence=0)

    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 3)
        send(talk, topic, transactional, good)
        send(talk, topic, good, transactional)
        send(talk, topic, transactional, good, acks=3)
        send(talk, topic, transactional[:-1], good)
        send(talk, topic, transactional[:-1] + b"!", good)
        send(talk, topic, good + transactional, good)
        send(talk, topic, good, transactional_id="tx")
        send(talk, topic, good, good[:-1], b"", good, acks=3)
        send(talk, talk.name("nowhere"), good, acks=3)
        send(talk, talk.name("nowhere"), transactional)
        send(talk, topic, batch(b"a", codec=ZSTD), good)
        send(talk, topic, batch(b"a", codec=ZSTD), good, acks=3)

    same_answers(conversation, version)


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
@pytest.mark.parametrize("version", [3, 8, 12])
def test_times_and_keys(same_answers: Any, version: int, codec: Codec) -> None:
    ahead, behind = 2 * HOUR_MS, -25 * HOUR_MS

    def records(*given: tuple[int | None, bytes | None], **options: Any) -> bytes:
        made = [Record(number, -1 if ms is None else NOW_MS + ms, key, b"v") for number, (ms, key) in enumerate(given)]
        return bytes(encode_batch(made, codec=codec, **options))

    batches = (
        records((0, b"k"), (ahead, b"k"), (0, b"k")),
        records((ahead, b"k"), (ahead, b"k")),
        records((0, b"k"), (behind, b"k"), (0, b"k")),
        records((behind, b"k"), (0, b"k"), (ahead, b"k")),
        records((None, b"k"), (None, b"k")),
        records((0, b"k"), (None, b"k")),
        records((-5 - NOW_MS, b"k"), (-7 - NOW_MS, b"k")),
        records((0, None), (0, b"k"), (0, b""), (0, None)),
        records((ahead, None), (ahead, b"k"), (0, None), (behind, b"k")),
        records((0, b"k"), (1, b"k"), is_log_append_time=True),
        records((0, b"k"), (ahead, b"k"), is_log_append_time=True),
        records((behind, b"k"), (0, None), is_log_append_time=True),
        records((None, b"k"), (None, b"k"), is_log_append_time=True),
    )

    def conversation(talk: Any) -> None:
        kinds: tuple[dict[str, str], ...] = (
            {},
            {"message_timestamp_before_max_ms": str(24 * HOUR_MS)},
            {"message_timestamp_type": "LogAppendTime"},
            {"cleanup_policy": "compact"},
            {"cleanup_policy": "compact,delete", "message_timestamp_type": "LogAppendTime"},
        )
        for number, settings in enumerate(kinds):
            topic = talk.name(f"topic{number}")
            talk.make_topic(topic, 1, **settings)
            for data in batches:
                send(talk, topic, data)

    same_answers(conversation, version)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_what_lies_inside_the_batches_of_a_compacted_topic(same_answers: Any, codec: Codec) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 1, cleanup_policy="compact")
        for inside, count in (
            (section(0, 1, 2), 3),
            (section(0, 1), 3),
            (section(0, 1, 2, 3), 3),
            (section(0, 1, 2) + b"\0", 3),
            (b"", 3),
            (bytes(50), 3),
            (b"\x0e\0\0\0\x03\x01\0\0", 1),  # a key of -2 bytes
            (b"\x0c\0\0\0\x02k\x01\x7e", 1),  # 63 headers
            (b"\x0e\0\0\0\x02k\x01\x01", 1),  # -1 headers
            (b"\x12\0\0\0\x02k\x01\x02\x01\x01", 1),  # a header without a name
            (b"\x0e\1\0\0\x02k\x01\0", 1),  # attributes
        ):
            send(talk, topic, around(inside, count=count, codec=codec))
        if codec is not NONE:
            for deltas in ((0, 0, 0), (0, 2, 1), (0, 1, 5), (1, 2, 3)):
                send(talk, topic, around(section(*deltas), count=3, codec=codec))
            send(talk, topic, with_codec(batch(b"not compressed"), codec))

    same_answers(conversation, 9)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_bytes_that_are_no_frame_of_their_codec(same_answers: Any, codec: Codec) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic)
        send(talk, topic, with_codec(batch(b"not compressed"), codec))

    same_answers(conversation, 9)


@pytest.mark.parametrize("settings", [{}, {"message_timestamp_type": "LogAppendTime"}, {"cleanup_policy": "compact"}], ids=repr)
@pytest.mark.parametrize("compression_type", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_the_topics_codec(same_answers: Any, compression_type: str, settings: dict[str, str]) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 1, compression_type=compression_type, max_message_bytes="5000", **settings)
        for number, codec in enumerate(Codec):
            sequence = {"producer_id": 9_000_000, "producer_epoch": 2, "base_sequence": 2 * number}
            send(talk, topic, batch(b"a" * 50, b"b", codec=codec))
            send(talk, topic, batch(b"a" * 50, b"b", codec=codec, **sequence))
            send(talk, topic, batch(b"a" * 50, b"b", codec=codec, **sequence))
        send(talk, topic, batch(b"grows when it is inflated" * 300, codec=GZIP))
        send(talk, topic, batch(b"too large as it is" * 300))
        send(talk, topic, bytes(encode_batch([Record(0, -1, b"k", b"v"), Record(1, -1, b"k", b"v")])))
        if compression_type not in ("producer", "gzip"):
            send(talk, topic, changed(batch(b"a", codec=GZIP), 21, ">h", 0x40C0 | GZIP))
        talk.answers.append([list(each) for each in stored(talk, topic)])

    same_answers(conversation, 9)


CONVERSATIONS = {
    "from the largest number to 0": [(SEQUENCE_MAX - 1, 1), (SEQUENCE_MAX, 1), (0, 1), (1, 1), (SEQUENCE_MAX, 1), (0, 1)],
    "from the largest number to 0 inside a batch": [(SEQUENCE_MAX - 1, 4), (SEQUENCE_MAX - 1, 4), (2, 2), (4, 1), (SEQUENCE_MAX - 1, 4)],
    "a batch that ends at the largest number": [(SEQUENCE_MAX - 1, 2), (0, 3), (SEQUENCE_MAX - 1, 2), (3, 1)],
    "a producer that is not known begins anywhere": [(500, 2), (502, 1), (500, 2), (501, 1), (0, 1)],
    "five batches are remembered": [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (0, 1), (1, 1), (5, 1), (6, 1), (1, 1), (2, 1)],
    "batches that overlap": [(0, 3), (1, 3), (0, 2), (2, 2), (3, 1), (0, 4), (1, 2)],
    "a repeated batch has its length": [(0, 3), (0, 3), (0, 2), (0, 4)],
    "a new epoch begins at 0": [(0, 2), (2, 1, 1), (0, 1, 1), (2, 1, 0), (1, 1, 1), (0, 2, 0)],
    "epochs may be left out": [(0, 2, 5), (0, 1, 9), (0, 1, 9), (1, 1, 9), (0, 2, 5), (0, 1, 8), (0, 1, 32767), (0, 1, 9)],
    "two producers": [(0, 1, 0, 1), (0, 1, 0, 2), (1, 1, 0, 1), (0, 1, 0, 2), (3, 1, 0, 2)],
    "a repeated batch may be compressed": [(0, 2, 0, 1, GZIP), (0, 2), (0, 2, 0, 1, ZSTD)],
}


@pytest.mark.parametrize("steps", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_sequences(same_answers: Any, steps: list[tuple[Any, ...]]) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic)
        for sequence, count, *rest in steps:
            epoch, producer, codec = (*rest, *(0, 1, NONE)[len(rest) :])
            numbering = {"producer_id": 9_000_000 + producer, "producer_epoch": epoch, "base_sequence": sequence}
            send(talk, topic, batch(*[b"v"] * count, codec=codec, **numbering))
        talk.answers.append([list(each) for each in stored(talk, topic)])

    same_answers(conversation, 9)


def test_a_repeated_batch_is_answered_with_the_largest_time_of_the_first(same_answers: Any) -> None:
    data = bytes(
        encode_batch([Record(0, 5000, b"k", b"v"), Record(1, 77000, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=0)
    )

    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic)
        for _ in range(2):
            topic_data = [{"name": topic, "partition_data": [{"index": 0, "records": data}]}]
            talk.ask(ApiKey.PRODUCE, acks=-1, timeout=5000, topic_data=topic_data)

    same_answers(conversation, 9)
