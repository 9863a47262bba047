"""A read_committed fetch, decoded: of Apache Kafka's interleaved transactions what was committed, however the answers cut the log."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.fetch.fetch_values import FetchRange
from ottla.client.fetch.fetcher import Fetcher
from ottla.client.settings import ClientSettings
from ottla.columnar import RecordBatchDecoder
from ottla.protocol.model import TopicPartition

pytestmark = pytest.mark.kafka


def _write(servers: dict[str, Any], topic: str, name: Callable[[str], str]) -> list[bytes]:
    """Transactions of three producers and plain records among them; the values that count, in their order."""
    rng = random.Random(6)
    producers = [
        Producer(servers | {"transactional.id": name(f"tx-{number}"), "compression.type": kind})
        for number, kind in enumerate(("none", "lz4", "none"))
    ]
    for producer in producers:
        producer.init_transactions(30)
    plain = Producer(servers)
    log: list[tuple[bytes, int]] = []  # value and transaction
    ends: dict[int, bool] = {-1: True}
    is_open: dict[int, int] = {}
    for step in range(120):
        number = rng.randrange(-1, 3)
        value = b"%d" % step
        if number < 0:
            plain.produce(topic, value)
            plain.flush(10)
            log.append((value, -1))
            continue
        producer = producers[number]
        if number in is_open and rng.randrange(3) == 0:
            transaction = is_open.pop(number)
            ends[transaction] = rng.randrange(2) == 0
            (producer.commit_transaction if ends[transaction] else producer.abort_transaction)(60)
            continue
        if number not in is_open:
            producer.begin_transaction()
            is_open[number] = step
        producer.produce(topic, value)
        producer.flush(60)
        log.append((value, is_open[number]))
    for number, transaction in is_open.items():
        producers[number].abort_transaction(60)
        ends[transaction] = False
    return [value for value, transaction in log if ends[transaction]]


def _end(servers: dict[str, Any], topic: str) -> int:
    consumer = Consumer(servers | {"group.id": "unused"})
    end = int(consumer.get_watermark_offsets(ClientPartition(topic, 0), timeout=60)[1])
    consumer.close()
    return end


def test_what_was_committed_is_read_and_nothing_else(reference: Any, unique_name: Callable[[str], str]):
    servers = {"bootstrap.servers": reference.shared().bootstrap_servers, "log_level": 0}
    topic = unique_name("t")
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    expected = _write(servers, topic, unique_name)
    end = _end(servers, topic)
    answers, rows = _read(servers, topic, 1 << 20, 0, end)
    assert [value for _, value in rows] == expected
    # A batch an answer: each says again which transactions it cuts through.
    small_answers, small_rows = _read(servers, topic, 1, 0, end)
    assert small_rows == rows
    assert small_answers > 10 * answers
    # From any offset on, a transaction that began before it and its marker behind the end are known all the same.
    for start, stop in ((20, 60), (37, end - 1), (61, 62)):
        assert _read(servers, topic, 1 << 20, start, stop)[1] == [row for row in rows if start <= row[0] < stop]


def _read(servers: dict[str, Any], topic: str, fetch_bytes: int, start: int, end: int) -> tuple[int, list[tuple[int, bytes]]]:
    """How many answers it took, and offset and value of each record that counts."""
    settings = ClientSettings(bootstrap_servers=servers["bootstrap.servers"], is_read_committed=True, max_partition_fetch_bytes=fetch_bytes)
    decoder = RecordBatchDecoder(topic, 0, columns=("offset", "value"))
    answers, rows = 0, []
    with Fetcher(settings) as fetcher:
        for fetched in fetcher.read([FetchRange(TopicPartition(topic, 0), start, end, "")]):
            answers += 1
            for batch in decoder.decode(fetched.records, offset_start=start, offset_end=end, aborted=fetched.aborted):
                rows += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return answers, rows
