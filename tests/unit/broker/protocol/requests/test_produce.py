"""A Produce request taken apart, and what refuses all of it or one partition before a log is asked."""

import pytest

from ottla.broker.protocol.requests.produce import PARTITIONS_MAX, TopicRecords, read_topics, refusal_of_all, refusal_of_partition
from ottla.core.errors import PeerError
from ottla.core.metadata.topics import Topic
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.records.compression import ZSTD, Codec
from ottla.core.wire.reader import Reader

RECORDS = [Record(0, 1_700_000_000_000, b"k", b"v")]
GOOD = bytes(encode_batch(RECORDS))
TRANSACTIONAL = bytes(encode_batch(RECORDS, is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0))
TOPIC = Topic(name="t", topic_id=bytes(16), leaders=[1])
INTERNAL = Topic(name="__consumer_offsets", topic_id=bytes(16), leaders=[1])


def with_byte(at: int, value: int) -> bytes:
    return GOOD[:at] + bytes([value]) + GOOD[at + 1 :]


def test_records_are_views_into_the_request() -> None:
    body = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\5" + b"\0\0\0\3abc" + b"\0\0\0\6" + b"\xff\xff\xff\xff"
    read = Reader(memoryview(body))
    (topic,), _ = read_topics(read, 3, {"t": TOPIC}, {})
    assert (topic.key, topic.topic) == ("t", TOPIC)
    assert [(number, bytes(records)) for number, records in topic.partitions] == [(5, b"abc"), (6, b"")]
    assert topic.partitions[0][1].obj is body
    assert read.at == len(body)
    for end in range(len(body)):
        with pytest.raises(PeerError):
            read_topics(Reader(memoryview(body[:end])), 3, {}, {})


def test_topics_by_id() -> None:
    topic_id = bytes(range(16))
    body = b"\2" + topic_id + b"\2" + b"\0\0\0\7" + b"\4abc" + b"\0" + b"\0"
    for known in ({topic_id: TOPIC}, {}):
        (topic,), _ = read_topics(Reader(memoryview(body), flexible=True), 13, {}, known)
        assert (topic.key, topic.topic) == (topic_id, known.get(topic_id))
        assert [(number, bytes(records)) for number, records in topic.partitions] == [(7, b"abc")]


@pytest.mark.parametrize(
    ("name", "records", "version", "transactional_id", "answer"),
    [
        ("sound", GOOD, 9, None, None),
        ("nothing", b"", 9, None, None),
        ("a piece", GOOD[:40], 9, None, None),
        ("transactional", TRANSACTIONAL, 9, None, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("transactional, damaged", TRANSACTIONAL[:-1] + b"!", 9, None, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("transactional, a piece", TRANSACTIONAL[:-1], 9, None, None),
        ("transactional, behind another", GOOD + TRANSACTIONAL, 9, None, None),
        ("transactional, with an id", TRANSACTIONAL, 9, "tx", None),
        ("transactional, with an empty id", TRANSACTIONAL, 9, "", None),
        ("format 1", with_byte(16, 1), 9, None, None),
        ("format 3", with_byte(16, 3), 9, None, "CORRUPT_MESSAGE"),
        ("format 3, seventeen bytes of it", with_byte(16, 3)[:17], 9, None, "CORRUPT_MESSAGE"),
        ("length 3", with_byte(11, 3), 9, None, "CORRUPT_MESSAGE"),
        ("length -1", GOOD[:8] + b"\xff\xff\xff\xff" + GOOD[12:], 9, None, "CORRUPT_MESSAGE"),
        ("length 2^31-1", GOOD[:8] + b"\x7f\xff\xff\xff" + GOOD[12:], 9, None, "UNKNOWN_SERVER_ERROR"),
        ("codec 5", with_byte(22, 5), 7, None, None),
        ("codec 5 of old", with_byte(22, 5), 6, None, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_what_refuses_the_whole_request(name: str, records: bytes, version: int, transactional_id: str | None, answer: str | None) -> None:
    topics = [TopicRecords("t", TOPIC, [(0, memoryview(GOOD)), (1, memoryview(records))])]
    refused = refusal_of_all(version, transactional_id, topics)
    assert (refused and refused.error.name) == answer, name
    body = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(4) + len(records).to_bytes(4) + records
    _, needs_request_check = read_topics(Reader(memoryview(body)), 3, {}, {})
    assert needs_request_check or answer is None, name


def test_what_is_sound_is_not_looked_at_twice() -> None:
    for codec in Codec:
        records = bytes(encode_batch(RECORDS, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0))
        body = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(4) + len(records).to_bytes(4) + records
        assert read_topics(Reader(memoryview(body)), 3, {}, {})[1] is False


@pytest.mark.parametrize(
    ("name", "records", "version", "acks", "topic", "answer"),
    [
        ("sound", GOOD, 9, -1, TOPIC, None),
        ("bad acks", GOOD, 9, 2, TOPIC, "INVALID_REQUIRED_ACKS"),
        ("bad acks and nothing", b"", 9, 2, TOPIC, "INVALID_RECORD"),
        ("an internal topic", GOOD, 9, 1, INTERNAL, "INVALID_TOPIC_EXCEPTION"),
        ("an internal topic and nothing", b"", 9, 1, INTERNAL, "INVALID_RECORD"),
        ("an internal topic and bad acks", GOOD, 9, 2, INTERNAL, "INVALID_REQUIRED_ACKS"),
        ("zstd", bytes(encode_batch(RECORDS, codec=ZSTD)), 6, -1, TOPIC, "UNSUPPORTED_COMPRESSION_TYPE"),
        ("no zstd", GOOD, 6, -1, TOPIC, None),
    ],
)
def test_what_refuses_a_partition(name: str, records: bytes, version: int, acks: int, topic: Topic, answer: str | None) -> None:
    refused = refusal_of_partition(version, acks, topic, memoryview(records))
    assert (refused and refused.error.name) == answer, name
    assert refused is None or refused.before_log


def test_topics_and_partitions_are_bounded() -> None:
    def body(*partitions_by_topic: int) -> Reader:
        topics = [b"\0\1t" + count.to_bytes(4, "big") + bytes(8) * count for count in partitions_by_topic]
        return Reader(memoryview(len(topics).to_bytes(4, "big") + b"".join(topics)))

    (topic,), _ = read_topics(body(PARTITIONS_MAX), 3, {}, {})
    assert len(topic.partitions) == PARTITIONS_MAX
    for counts in ((PARTITIONS_MAX + 1,), (PARTITIONS_MAX // 2, PARTITIONS_MAX // 2 + 1), (0,) * (PARTITIONS_MAX + 1)):
        with pytest.raises(PeerError, match=f"more than {PARTITIONS_MAX} topics or partitions: send fewer"):
            read_topics(body(*counts), 3, {}, {})
