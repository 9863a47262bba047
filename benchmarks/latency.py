"""How long one record takes: until the broker has acknowledged it (acks=all), and until a consumer that waits for it has it in hand.

One record of 100 bytes at a time, no lingering, one partition; percentiles of each round, then the median of the rounds.
"""

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from peers import MOCK, QUIET, TANSU, arguments, make_topic, running_peers
from report import Metric, Report, at_most_kafkas

ACK_50 = Metric("produce to acknowledgement, p50", "ms")
ACK_99 = Metric("produce to acknowledgement, p99", "ms")
CONSUME_50 = Metric("produce to consume, p50", "ms", "<= Apache Kafka", at_most_kafkas)
CONSUME_99 = Metric("produce to consume, p99", "ms")
VALUE = b"x" * 100
WARM_UP = 100
# These two answer a Fetch that waits for records late (0.25 s, 0.5 s): few records say the same as many.
SLOW, COUNT_SLOW, WARM_UP_SLOW = (TANSU, MOCK), 20, 3


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def acknowledgements_ms(peer: Any, topic: str, count: int) -> list[float]:
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, "acks": "all", "linger.ms": 0})
    took = []
    acknowledged: list[Any] = []
    for _ in range(WARM_UP + count):
        acknowledged.clear()
        begin = time.perf_counter()
        producer.produce(topic, VALUE, partition=0, on_delivery=lambda error, _: acknowledged.append(error))
        while not acknowledged:
            producer.poll(1)
        took.append((time.perf_counter() - begin) * 1000)
        assert acknowledged == [None], acknowledged
    return took[WARM_UP:]


def deliveries_ms(peer: Any, topic: str, count: int) -> list[float]:
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, "acks": "all", "linger.ms": 0})
    settings = {"group.id": "latency", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, **settings})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
    consumer.assign([TopicPartition(topic, 0, end)])
    took = []
    warm_up, count = (WARM_UP_SLOW, min(count, COUNT_SLOW)) if peer.kind in SLOW else (WARM_UP, count)
    for number in range(warm_up + count):
        begin = time.perf_counter()
        producer.produce(topic, VALUE, key=b"%d" % number, partition=0)
        producer.poll(0)
        message = consumer.poll(10)
        took.append((time.perf_counter() - begin) * 1000)
        assert message is not None, "no record within 10 s"
        assert message.key() == b"%d" % number, message.error()
    producer.flush(10)
    consumer.close()
    return took[warm_up:]


def main() -> None:
    wanted = arguments(__doc__)
    count = 20 if wanted.small else 2000
    report = Report("Latency")
    with running_peers(wanted.peers) as peers:
        for peer in peers:
            make_topic(peer, "latency", 1)
        for _ in range(wanted.rounds):
            for peer in peers:
                acknowledged = acknowledgements_ms(peer, "latency", count)
                report.add(ACK_50, peer.kind, percentile(acknowledged, 0.5))
                report.add(ACK_99, peer.kind, percentile(acknowledged, 0.99))
                delivered = deliveries_ms(peer, "latency", count)
                report.add(CONSUME_50, peer.kind, percentile(delivered, 0.5))
                report.add(CONSUME_99, peer.kind, percentile(delivered, 0.99))
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
