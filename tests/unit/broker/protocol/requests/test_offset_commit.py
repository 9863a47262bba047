"""An OffsetCommit from its bytes; kio's reader agrees (tests/properties/test_group_requests.py)."""

from struct import pack

import pytest

from ottla.broker.protocol.requests.offset_commit import PARTITIONS_MAX, AskedTopic, read_offset_commit
from ottla.core.errors import PeerError
from ottla.core.wire.writer import encode_uvarint

HEAD = b"\2g" + b"\0\0\0\7" + b"\2m" + b"\0" + b"\2"


def flexible(*texts: bytes) -> bytes:
    rows = [pack(">iqi", number, 100 + number, 5) + text + b"\0" for number, text in enumerate(texts)]
    return HEAD + b"\2t" + bytes([len(rows) + 1]) + b"".join(rows) + b"\0" + b"\0"


def test_partitions_without_metadata_are_read_as_columns() -> None:
    for texts in ([b"\1"], [b"\1", b"\0", b"\1"]):
        numbers = tuple(range(len(texts)))
        (topic,) = read_offset_commit(flexible(*texts), 0, 9).topics
        assert topic == AskedTopic("t", numbers, tuple(100 + number for number in numbers), (5,) * len(texts), None)


@pytest.mark.parametrize("texts", [[b"\3ab"], [b"\1", b"\3ab"], [b"\3ab", b"\1"], [b"\3ab", b"\3cd"]])
def test_metadata_of_one_size_and_of_several(texts: list[bytes]) -> None:
    (topic,) = read_offset_commit(flexible(*texts), 0, 9).topics
    assert list(topic.metadata) == ["" if text == b"\1" else text[1:].decode() for text in texts]
    assert list(topic.offsets) == [100 + number for number in range(len(texts))]


def test_versions_2_to_5_have_no_epoch_and_up_to_4_a_retention() -> None:
    body = b"\0\1g\0\0\0\7\0\1m" + pack(">q", 500) + b"\0\0\0\1\0\1t\0\0\0\1" + pack(">iqh", 3, 9, -1)
    asked = read_offset_commit(body, 0, 2)
    assert (asked.retention_ms, asked.topics) == (500, [AskedTopic("t", (3,), (9,), (-1,), None)])


def test_topics_by_id() -> None:
    topic_id = bytes(range(16))
    body = HEAD + topic_id + b"\1" + b"\0" + b"\0"
    assert read_offset_commit(body, 0, 10).topics == [AskedTopic(topic_id, (), (), (), None)]


def test_metadata_that_no_record_could_hold() -> None:
    fits, too_long = (encode_uvarint(size + 1) + b"x" * size for size in (32_767, 32_768))
    (topic,) = read_offset_commit(flexible(b"\1", fits), 0, 9).topics
    assert [len(text) for text in topic.metadata] == [0, 32_767]
    with pytest.raises(PeerError, match="32768 bytes"):
        read_offset_commit(flexible(b"\1", too_long), 0, 9)


def test_metadata_of_a_negative_length() -> None:
    good, bad = pack(">iqih", 0, 1, 1, 0), pack(">iqih", 0, 1, 1, -2)
    for count in (1, 2):
        with pytest.raises(PeerError):
            read_offset_commit(commit_v7(count).replace(good, bad), 0, 7)


@pytest.mark.parametrize("texts", [[b"\1", b"\3ab", b"\1"], [b"\3ab", b"\3cd"], [b"\1"], [b"\1", b"\1"]])
def test_half_a_one_is_refused(texts: list[bytes]) -> None:
    body = flexible(*texts)
    for end in range(len(body)):
        with pytest.raises(PeerError):
            read_offset_commit(body[:end], 0, 9)


def commit_v7(*partitions_by_topic: int) -> bytes:
    topics = [b"\0\1t" + pack(">i", count) + pack(">iqih", 0, 1, 1, 0) * count for count in partitions_by_topic]
    return b"\0\1g\0\0\0\7\0\1m\xff\xff" + pack(">i", len(topics)) + b"".join(topics)


def test_topics_and_partitions_are_bounded_together() -> None:
    asked = read_offset_commit(commit_v7(PARTITIONS_MAX - 1), 0, 7)
    assert len(asked.topics[0].partitions) == PARTITIONS_MAX - 1
    for counts in ((PARTITIONS_MAX,), (0,) * (PARTITIONS_MAX + 1), (PARTITIONS_MAX - 10, 9), (1,) * (PARTITIONS_MAX // 2 + 1)):
        with pytest.raises(PeerError, match=f"more than {PARTITIONS_MAX} topics and partitions"):
            read_offset_commit(commit_v7(*counts), 0, 7)
