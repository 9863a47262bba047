"""Every version of the APIs about records, with both brokers: the same batches go in, the same bytes and the same answers come out."""

import struct
import time
import uuid
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient

UNKNOWN_ID = uuid.UUID(int=12345)
EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5
NOW_MS = int(time.time() * 1000)

pytestmark = pytest.mark.kafka


def batch(*values: bytes, first_ms: int = NOW_MS, **options: Any) -> bytearray:
    records = [Record(number, first_ms + number, b"k%d" % number, value, (Header("h", None),)) for number, value in enumerate(values)]
    return encode_batch(records, **options)


class Writer:
    """Sends batches to one topic, by its name or (from version 13 on) by its id."""

    def __init__(self, talk: Any, topic: str, topic_id: uuid.UUID) -> None:
        self.talk = talk
        self.naming = {"name": topic, "topic_id": topic_id}

    def send(self, data: bytes, *, partition: int = 0, acks: int = -1, naming: Any = None) -> Any:
        topic_data = [(naming or self.naming) | {"partition_data": [{"index": partition, "records": bytes(data)}]}]
        return self.talk.ask(ApiKey.PRODUCE, acks=acks, timeout=5000, topic_data=topic_data)


@pytest.mark.parametrize("version", range(3, 14))
def test_produce(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        writer = Writer(talk, topic, talk.make_topic(topic, 1, max_message_bytes="4000"))
        writer.send(batch(b"one", b"two"))
        writer.send(batch(b"three"), acks=1)
        writer.send(batch(b"four"), acks=2)
        writer.send(batch(b"five"), partition=7)
        writer.send(batch(b"six"), naming={"name": talk.name("nowhere"), "topic_id": UNKNOWN_ID})
        writer.send(batch(b"seven") + batch(b"eight"))
        writer.send(b"")
        writer.send(batch(b"x" * 5000))
        for codec in (GZIP, SNAPPY, LZ4) + ((ZSTD,) if version >= 7 else ()):
            writer.send(batch(b"packed", b"packed", codec=codec))
        if version < 7:
            writer.send(batch(b"packed too early", codec=ZSTD))
        damaged = batch(b"damaged")
        damaged[-1] ^= 1
        writer.send(damaged)
        old = batch(b"old")
        old[16] = 1
        writer.send(old)
        cut = batch(b"cut short")[:-3]
        writer.send(cut)
        writer.send(batch(b"wrong count", b"of records")[:57] + b"\0\0\0\5" + batch(b"wrong count", b"of records")[61:])

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(3))
def test_produce_of_old_is_advertised_and_refused(both: Any, version: int) -> None:
    answers = []
    for bootstrap_servers in both.values():
        with RawClient(bootstrap_servers) as client:
            client.send_frame(struct.pack(">hhihhii", ApiKey.PRODUCE, version, 7, -1, 1, 1000, 0))
            try:
                answers.append(client.receive_frame())
            except Disconnected:
                answers.append(b"closed")
    assert answers == [b"closed", b"closed"]


@pytest.mark.parametrize("version", range(3, 14))
def test_idempotent_produce(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        writer = Writer(talk, topic, talk.make_topic(topic))

        def producer_ids() -> Any:
            return talk.quietly(ApiKey.INIT_PRODUCER_ID, 4, producer_id=-1, producer_epoch=-1)

        talk.until(lambda: producer_ids().error_code == ErrorCode.NONE, "producer ids")
        producer_id = producer_ids().producer_id

        def send(sequence: int, *values: bytes, epoch: int = 0) -> None:
            writer.send(batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))

        send(0, b"a", b"b")
        send(0, b"a", b"b")
        send(2, b"c")
        send(0, b"a", b"b")
        send(5, b"gap")
        send(3, b"next epoch", epoch=1)
        send(0, b"next epoch", epoch=1)
        send(3, b"old epoch")
        for number in range(1, 7):
            send(number, b"%d" % number, epoch=1)
        send(1, b"1", epoch=1)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        talk.until(
            lambda: talk.quietly(ApiKey.INIT_PRODUCER_ID, 4, producer_id=-1, producer_epoch=-1).error_code == ErrorCode.NONE, "producer ids"
        )
        talk.ask(ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1)
        talk.ask(ApiKey.INIT_PRODUCER_ID, transactional_id="", transaction_timeout=60_000, producer_id=-1, producer_epoch=-1)
        if version >= 3:
            talk.ask(ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout=60_000, producer_id=5, producer_epoch=-1)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        topic_id = talk.make_topic(topic)
        talk.fill(topic, batch(b"one", b"two"), batch(b"three", codec=LZ4), batch(b"x" * 500), batch(b"end"))

        def fetch(offset: int, *, name: str = topic, topic_id: uuid.UUID = topic_id, partition: int = 0, **values: Any) -> None:
            limit = values.pop("partition_max_bytes", 1_000_000)
            asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": limit, "current_leader_epoch": -1}
            base = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1_000_000, "replica_id": -1, "session_epoch": -1}
            topics = [{"topic": name, "topic_id": topic_id, "partitions": [asked]}]
            talk.ask(ApiKey.FETCH, topics=topics, **(base | values))

        fetch(0)
        fetch(1)
        fetch(2)
        fetch(5)
        fetch(6)
        fetch(-1)
        fetch(0, partition_max_bytes=10)
        fetch(2, partition_max_bytes=200)
        fetch(0, max_bytes=10)
        fetch(0, partition=3)
        fetch(0, name=talk.name("nowhere"), topic_id=UNKNOWN_ID)
        fetch(0, isolation_level=1)
        fetch(5, max_wait=50, min_bytes=1_000)
        talk.ask(ApiKey.FETCH, topics=[], max_wait=0, min_bytes=1, max_bytes=1_000, replica_id=-1, session_epoch=-1)
        if version >= 7:
            fetch(0, session_id=12345, session_epoch=7)
        if version >= 9:
            epoch = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000, "current_leader_epoch": 9}
            topics = [{"topic": topic, "topic_id": topic_id, "partitions": [epoch]}]
            talk.ask(ApiKey.FETCH, topics=topics, max_wait=0, min_bytes=1, max_bytes=1_000_000, replica_id=-1, session_epoch=-1)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 2)
        for first_ms in (1_000_000, 2_000_000, 5_000_000, 3_000_000):
            talk.fill(topic, batch(b"a", b"b", first_ms=first_ms))

        def ask(timestamp: int, partition: int = 0, name: str = topic, **values: Any) -> None:
            asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
            talk.ask(ApiKey.LIST_OFFSETS, replica_id=-1, topics=[{"name": name, "partitions": [asked | values]}])

        for timestamp in (EARLIEST, LATEST, 0, 1_000_001, 1_000_002, 2_500_000, 4_000_000, 5_000_001, 5_000_002):
            ask(timestamp)
            ask(timestamp, 1)
        for timestamp in (MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, -6, -99):
            ask(timestamp)
            ask(timestamp, 1)
        ask(LATEST, 9)
        ask(LATEST, 0, talk.name("nowhere"))
        ask(LATEST, 0, topic, current_leader_epoch=9)
        talk.ask(ApiKey.LIST_OFFSETS, replica_id=-1, topics=[])

    same_answers(conversation, version)
