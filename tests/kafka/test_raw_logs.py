"""The APIs about logs in every version, with both brokers: records deleted, epochs that ended, sizes of directories, offsets."""

from typing import Any

import pytest

from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey

EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -2, -1, -3, -4, -5, -6

pytestmark = pytest.mark.kafka


def batch(*values: bytes, first_ms: int = 1_000_000) -> bytes:
    return bytes(encode_batch([Record(number, first_ms + number, None, value) for number, value in enumerate(values)]))


@pytest.mark.parametrize("version", range(3))
def test_delete_records(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic, compacted, both = talk.name("topic"), talk.name("compacted"), talk.name("both")
        talk.make_topic(topic, 2)
        talk.make_topic(compacted, 1, cleanup_policy="compact")
        talk.make_topic(both, 1, cleanup_policy="compact,delete")
        talk.fill(topic, *[batch(b"a", b"b") for _ in range(4)])

        def delete(*asked: tuple[int, int], name: str = topic) -> None:
            parts = [{"partition_index": number, "offset": offset} for number, offset in asked]
            talk.ask(ApiKey.DELETE_RECORDS, topics=[{"name": name, "partitions": parts}], timeout=5000)
            ends = [{"partition_index": 0, "timestamp": EARLIEST}]
            talk.ask(ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=[{"name": topic, "partitions": ends}])

        delete((0, 0))
        delete((0, 3))
        delete((0, 2))
        delete((0, 9))
        delete((0, -2))
        delete((0, 6), (1, 0), (1, -1))
        delete((5, 0))
        delete((0, 0), name=talk.name("nowhere"))
        delete((0, 0), name=compacted)
        delete((0, -1), name=compacted)
        delete((0, 0), name=both)
        delete((0, -1))
        delete()
        talk.ask(ApiKey.DELETE_RECORDS, topics=[], timeout=5000)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(3))
def test_internal_topics_keep_their_records(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        talk.wait_for_coordinator(talk.name("group"))
        asked = [{"partition_index": 0, "offset": 0}]
        talk.ask(ApiKey.DELETE_RECORDS, topics=[{"name": "__consumer_offsets", "partitions": asked}], timeout=5000)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(2, 5))
def test_offset_for_leader_epoch(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 2)
        talk.fill(topic, batch(b"a", b"b"), batch(b"c"))

        def ask(epoch: int, partition: int = 0, name: str = topic, present: int = -1) -> None:
            asked = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": present}
            talk.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, replica_id=-1, topics=[{"topic": name, "partitions": [asked]}])

        for epoch in (0, 1, 7, -1, -2):
            ask(epoch)
            ask(epoch, 1)
        ask(0, present=0)
        ask(0, present=1)
        ask(ApiKey.PRODUCE, 9)
        ask(0, name=talk.name("nowhere"))
        records = [{"partition_index": 0, "offset": 2}]
        talk.quietly(ApiKey.DELETE_RECORDS, 1, timeout=5000, topics=[{"name": topic, "partitions": records}])
        ask(0)
        talk.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, replica_id=-1, topics=[])

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic, other = talk.name("topic"), talk.name("other")
        talk.make_topic(topic, 3)
        talk.make_topic(other, 1)
        talk.fill(topic, batch(b"a" * 1000, b"b"), batch(b"c"))

        def describe(topics: Any) -> Any:
            answer = talk.quietly(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics)
            (result,) = answer.results
            parts = [
                (found.name, part.partition_index, part.partition_size, part.offset_lag, part.is_future_key)
                for found in result.topics
                for part in found.partitions
            ]
            talk.answers.append((int(getattr(answer, "error_code", 0)), int(result.error_code), getattr(result, "is_cordoned", None)))
            return sorted(parts)

        talk.answers.append(describe([{"topic": topic, "partitions": [0, 1]}, {"topic": other, "partitions": [0]}]))
        talk.answers.append(describe([{"topic": topic, "partitions": [0, 0, 9]}, {"topic": talk.name("nowhere"), "partitions": [0]}]))
        talk.answers.append(describe([]))
        talk.answers.append([part for part in describe(None) if part[0] in (topic, other)])

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_after_records_were_deleted(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 2)
        for first_ms in (1_000_000, 2_000_000, 9_000_000, 3_000_000):
            talk.fill(topic, batch(b"a", b"b", first_ms=first_ms))
        records = [{"partition_index": 0, "offset": 3}]
        talk.quietly(ApiKey.DELETE_RECORDS, 1, timeout=5000, topics=[{"name": topic, "partitions": records}])

        def ask(*timestamps: int, numbers: tuple[int, ...] = (0,), isolation_level: int = 0, **values: Any) -> None:
            asked = [
                {"partition_index": number, "timestamp": timestamp, "current_leader_epoch": -1} | values
                for timestamp in timestamps
                for number in numbers
            ]
            topics = [{"name": topic, "partitions": asked}]
            talk.ask(ApiKey.LIST_OFFSETS, replica_id=-1, isolation_level=isolation_level, topics=topics)

        for timestamp in (EARLIEST, LATEST, 2_000_001, 9_000_000, 9_000_002):
            for level in (0, 1):
                ask(timestamp, numbers=(0, 1), isolation_level=level)
        for timestamp in (MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            ask(timestamp)
        ask(LATEST, numbers=(0, 0, 1))
        ask(EARLIEST, current_leader_epoch=0)
        ask(EARLIEST, current_leader_epoch=3)

    same_answers(conversation, version)
