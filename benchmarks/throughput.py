"""Records a second through confluent-kafka: written with acks=all, then read back with their checksums checked.

1,000,000 records of 100 bytes and 300,000 of 1,000 bytes, four partitions, no compression. Ottla and Apache Kafka write files; Tansu and
the mock cluster keep records in memory (the mock cluster only the last 5 MB of a partition, so that nothing is read back from it).
"""

import itertools
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from peers import MOCK, QUIET, arguments, make_topic, resident_bytes, running_peers
from report import Metric, Report, at_least_kafkas, at_most

PARTITIONS = 4
LOADS = ((100, 1_000_000), (1_000, 300_000))
LOADS_SMALL = ((100, 20_000), (1_000, 6_000))
MEMORY = Metric("resident memory after all of it", "MB", "<= 120 MB", at_most(120))
PRODUCED_AT_ONCE = 10_000
BUFFERED_MAX = 200_000
# A consumer whose queue is full asks for more a second later (fetch.queue.backoff.ms): here its queue holds everything.
CONSUMER = {
    "group.id": "throughput",
    "enable.auto.commit": False,
    "check.crcs": True,
    "queued.min.messages": 10_000_000,
    "queued.max.messages.kbytes": 2_000_000,
}
PRODUCER = {"acks": "all", "linger.ms": 5, "queue.buffering.max.messages": 2 * BUFFERED_MAX, "queue.buffering.max.kbytes": 1_000_000}


def produce_seconds(peer: Any, topic: str, size: int, count: int) -> float:
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, **PRODUCER, "error_cb": failures.append})
    producer.list_topics(topic, timeout=10)
    messages = [{"value": b"x" * size} for _ in range(PRODUCED_AT_ONCE)]
    begin = time.perf_counter()
    for done in range(0, count, PRODUCED_AT_ONCE):
        wanted = min(PRODUCED_AT_ONCE, count - done)
        queued = producer.produce_batch(topic, messages[:wanted], partition=done // PRODUCED_AT_ONCE % PARTITIONS)
        assert queued == wanted, f"{peer.kind}: {queued} of {wanted} queued"
        while len(producer) > BUFFERED_MAX:
            producer.poll(0.001)
    left = producer.flush(300)
    took = time.perf_counter() - begin
    assert (left, failures) == (0, []), f"{peer.kind}: {left} records not acknowledged {failures}"
    return took


def consume_seconds(peer: Any, topic: str, size: int, count: int) -> float:
    consumer = Consumer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, **CONSUMER})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    received = 0
    begin = time.perf_counter()
    while received < count:
        messages = consumer.consume(min(10_000, count - received), 30)
        assert messages, f"{peer.kind}: {received} of {count} records came back"
        bad = [message.error() or "wrong size" for message in messages if message.error() or len(message.value()) != size]
        assert not bad, f"{peer.kind}: {bad[0]}"
        received += len(messages)
    took = time.perf_counter() - begin
    assert received == count, f"{peer.kind}: {received} records came back, {count} were written"
    consumer.close()
    return took


def main() -> None:
    wanted = arguments(__doc__)
    report = Report("Throughput")
    names = itertools.count()
    with running_peers(wanted.peers) as peers:
        for _ in range(wanted.rounds):
            for size, count in LOADS_SMALL if wanted.small else LOADS:
                produced = Metric(f"produce {size:,} B", "k records/s", ">= Apache Kafka", at_least_kafkas)
                consumed = Metric(f"consume {size:,} B", "k records/s", ">= Apache Kafka", at_least_kafkas)
                for peer in peers:
                    topic = f"throughput-{next(names)}"
                    make_topic(peer, topic, PARTITIONS)
                    report.add(produced, peer.kind, count / produce_seconds(peer, topic, size, count) / 1000)
                    if peer.kind != MOCK:
                        report.add(consumed, peer.kind, count / consume_seconds(peer, topic, size, count) / 1000)
        for peer in peers:
            report.add(MEMORY, peer.kind, resident_bytes(peer.pid) / 1e6)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
