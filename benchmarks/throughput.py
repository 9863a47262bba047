"""Megabytes a second through confluent-kafka: written with acks=all, then read back with their checksums checked, in 27 cells.

Records of 100 B, 1 kB and 100 kB; not compressed, lz4, zstd; 1, 3 and 12 partitions. Values compress about two to one; a megabyte is one
of values before that. Ottla and Apache Kafka write files; Tansu and the mock cluster keep records in memory (the mock cluster only the last
5 MB of a partition, so that nothing is read back from it).
"""

import itertools
import os
import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from peers import MOCK, QUIET, arguments, make_topic, running_peers
from report import Metric, Report, at_least_kafkas

SIZES = ((100, 400_000), (1_000, 120_000), (100_000, 1_200))
SIZES_SMALL = ((100, 6_000), (1_000, 3_000), (100_000, 60))
CODECS = ("none", "lz4", "zstd")
PARTITIONS = (1, 3, 12)
DIFFERENT_VALUES = 500
PRODUCED_AT_ONCE_BYTES = 1_000_000
# A consumer whose queue is full asks for more a second later (fetch.queue.backoff.ms): here its queue holds everything.
CONSUMER = {
    "group.id": "throughput",
    "enable.auto.commit": False,
    "check.crcs": True,
    "queued.min.messages": 10_000_000,
    "queued.max.messages.kbytes": 2_000_000,
}
PRODUCER = {"acks": "all", "linger.ms": 5, "queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1_000_000}


class Cell(NamedTuple):
    """One kind of load: `count` records of `size` bytes."""

    size: int
    count: int
    codec: str
    partitions: int

    @property
    def name(self) -> str:
        return f"{self.size:,} B, {self.codec}, {self.partitions} p"

    @property
    def megabytes(self) -> float:
        return self.size * self.count / 1e6


def values_of(size: int) -> list[bytes]:
    """Half random, half of what hexadecimal digits leave to compress."""
    return [os.urandom(size // 2).hex().encode() for _ in range(DIFFERENT_VALUES if size < 10_000 else 20)]


def produce_seconds(peer: Any, topic: str, cell: Cell, values: list[bytes], **security: str) -> float:
    """`security`: settings of a listener other than the peer's first, its address among them."""
    failures: list[Any] = []
    settings = {**QUIET, **PRODUCER, "compression.type": cell.codec, "error_cb": failures.append}
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **settings, **security})
    producer.list_topics(topic, timeout=10)
    at_once = max(1, PRODUCED_AT_ONCE_BYTES // cell.size)
    messages = [{"value": value} for value in itertools.islice(itertools.cycle(values), at_once)]
    queued_max = 20 * at_once
    begin = time.perf_counter()
    for number, done in enumerate(range(0, cell.count, at_once)):
        wanted = min(at_once, cell.count - done)
        queued = producer.produce_batch(topic, messages[:wanted], partition=number % cell.partitions)
        assert queued == wanted, f"{peer.kind}: {queued} of {wanted} queued"
        while len(producer) > queued_max:
            producer.poll(0.001)
    left = producer.flush(300)
    took = time.perf_counter() - begin
    assert (left, failures) == (0, []), f"{peer.kind}: {left} records not acknowledged {failures}"
    return took


def consume_seconds(peer: Any, topic: str, cell: Cell, **security: str) -> float:
    consumer = Consumer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, **CONSUMER, **security})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(cell.partitions)])
    received = 0
    begin = time.perf_counter()
    while received < cell.count:
        messages = consumer.consume(min(10_000, cell.count - received), 30)
        assert messages, f"{peer.kind}: {received} of {cell.count} records came back"
        bad = [message.error() or "wrong size" for message in messages if message.error() or len(message.value()) != cell.size]
        assert not bad, f"{peer.kind}: {bad[0]}"
        received += len(messages)
    took = time.perf_counter() - begin
    assert received == cell.count, f"{peer.kind}: {received} records came back, {cell.count} were written"
    consumer.close()
    return took


def delete_topic(peer: Any, topic: str) -> None:
    """So that the disk does not write for one cell while the next one is measured."""
    if peer.kind != MOCK:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers, **QUIET})
        admin.delete_topics([topic])[topic].result(30)


def main() -> None:
    wanted = arguments(__doc__, only=True)
    cells = [
        Cell(size, count, codec, partitions)
        for size, count in (SIZES_SMALL if wanted.small else SIZES)
        for codec in CODECS
        for partitions in PARTITIONS
    ]
    cells = [cell for cell in cells if wanted.only in cell.name]
    report = Report("Throughput")
    names = itertools.count()
    with running_peers(wanted.peers) as peers:
        for _ in range(wanted.rounds):
            for cell in cells:
                produced = Metric(f"produce {cell.name}", "MB/s", ">= Apache Kafka", at_least_kafkas)
                consumed = Metric(f"consume {cell.name}", "MB/s", ">= Apache Kafka", at_least_kafkas)
                values = values_of(cell.size)
                for peer in peers:
                    topic = f"throughput-{next(names)}"
                    make_topic(peer, topic, cell.partitions)
                    report.add(produced, peer.kind, cell.megabytes / produce_seconds(peer, topic, cell, values))
                    if peer.kind != MOCK:
                        report.add(consumed, peer.kind, cell.megabytes / consume_seconds(peer, topic, cell))
                    delete_topic(peer, topic)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
