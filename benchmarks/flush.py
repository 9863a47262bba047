"""Records a second, and how long each waits, where every record must be on the disk before it is acknowledged (`flush.messages=1`).

One producer and eight of them, each with one record of 100 bytes under way at a time; and one that sends batches. Peers that keep records
in memory have no part in it.
"""

import time
from typing import Any

from confluent_kafka import Producer
from latency import percentile
from peers import APACHE_KAFKA, OTTLA, QUIET, arguments, make_topic, running_peers
from report import Metric, Report, at_least_kafkas, at_most_kafkas

PRODUCERS = (1, 8)
BATCHED = Metric("in batches", "k records/s", ">= Apache Kafka", at_least_kafkas)
VALUE = b"x" * 100
WARM_UP = 20


def one_at_a_time(peer: Any, topic: str, producers: int, count: int) -> tuple[float, list[float]]:
    """Records a second over all producers, and each record's wait in milliseconds."""
    clients = [Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, "acks": "all", "linger.ms": 0}) for _ in range(producers)]
    sent: list[float | None] = [None] * producers
    took: list[float] = []

    def acknowledged(number: int, error: Any) -> None:
        assert error is None, error
        begun, sent[number] = sent[number], None
        assert begun is not None
        took.append((time.perf_counter() - begun) * 1000)

    begin = time.perf_counter()
    while len(took) < WARM_UP + count:
        if len(took) == WARM_UP:
            begin = time.perf_counter()
        for number, client in enumerate(clients):
            if sent[number] is None:
                sent[number] = time.perf_counter()
                client.produce(topic, VALUE, partition=0, on_delivery=lambda error, _, number=number: acknowledged(number, error))
            client.poll(0.0005 if producers == 1 else 0)
    seconds = time.perf_counter() - begin
    for client in clients:
        client.flush(10)
    return count / seconds, took[WARM_UP:]


def batched_seconds(peer: Any, topic: str, count: int) -> float:
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, "acks": "all", "linger.ms": 5})
    producer.list_topics(topic, timeout=10)
    begin = time.perf_counter()
    queued = producer.produce_batch(topic, [{"value": VALUE}] * count, partition=0)
    left = producer.flush(120)
    assert (queued, left) == (count, 0), f"{peer.kind}: {queued} queued, {left} left"
    return time.perf_counter() - begin


def main() -> None:
    wanted = arguments(__doc__)
    count, batched = (30, 500) if wanted.small else (400, 50_000)
    report = Report("Synced before it is acknowledged")
    with running_peers([name for name in wanted.peers if name in (OTTLA, APACHE_KAFKA)]) as peers:
        for peer in peers:
            make_topic(peer, "flush", 1, {"flush.messages": "1"})
        for _ in range(wanted.rounds):
            for producers in PRODUCERS:
                who = "1 producer" if producers == 1 else f"{producers} producers"
                rate = Metric(f"{who}, one record at a time", "records/s", ">= Apache Kafka", at_least_kafkas)
                wait = Metric(f"{who}, p99", "ms", "<= Apache Kafka", at_most_kafkas)
                for peer in peers:
                    per_second, took = one_at_a_time(peer, "flush", producers, count)
                    report.add(rate, peer.kind, per_second)
                    report.add(wait, peer.kind, percentile(took, 0.99))
            for peer in peers:
                report.add(BATCHED, peer.kind, batched / batched_seconds(peer, "flush", batched) / 1000)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
