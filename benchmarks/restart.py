"""How long a broker with much on its disk takes from its start until every partition has said where it ends, after a clean stop and a kill.

1,000 partitions with a record each; one partition with 10,000 segments (each record is two seconds younger than the one before, and
segments last one second). Peers that keep records in memory have no part in it.
"""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer
from peers import QUIET, arguments, make_topic, peers_in_turn
from report import Metric, Report, at_most

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient

LIST_OFFSETS_VERSION = 5
STEP_MS = 2_000
AT_ONCE = 500
TARGET, IS_MET = "<= 1 s", at_most(1)


def fill_partitions(peer: Any, topic: str, count: int) -> None:
    """One record in each of `count` partitions."""
    make_topic(peer, topic, count)
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET})
    for partition in range(count):
        producer.produce(topic, b"x" * 100, partition=partition)
    assert producer.flush(120) == 0


def fill_segments(peer: Any, topic: str, count: int) -> None:
    """`count` segments of one record each in one partition."""
    make_topic(peer, topic, 1, {"segment.ms": "1000", "retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, "batch.num.messages": 1})
    first_ms = int(time.time() * 1000) - (count + 1) * STEP_MS
    for number in range(count):
        producer.produce(topic, b"x" * 100, partition=0, timestamp=first_ms + number * STEP_MS)
        if len(producer) > AT_ONCE:
            producer.poll(0.01)
    assert producer.flush(300) == 0


def ends(peer: Any, topic: str, partitions: int, expected: int) -> None:
    """Returns when every partition has said that it ends at `expected`."""
    asked = [{"partition_index": number, "current_leader_epoch": -1, "timestamp": -1} for number in range(partitions)]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with RawClient(peer.bootstrap_servers, timeout_seconds=60) as client:
            topics = [{"name": topic, "partitions": asked}]
            answer = client.call(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, replica_id=-1, isolation_level=0, topics=topics)
            if all(part.offset == expected for part in answer.topics[0].partitions):
                return
        time.sleep(0.005)  # the leaders of the partitions are not known yet
    raise AssertionError(f"{peer.kind}: {topic} did not come back")


def measure(report: Report, peer: Any, what: str, fill: Callable[[Any, str, int], None], count: int, rounds: int) -> None:
    topic = f"restart-{what}"
    fill(peer, topic, count)
    partitions, expected = (count, 1) if what == "partitions" else (1, count)
    ends(peer, topic, partitions, expected)
    for _ in range(rounds):
        for how, end in (("a clean stop", peer.stop), ("a kill", peer.kill)):
            end()
            begin = time.perf_counter()
            peer.start()
            ends(peer, topic, partitions, expected)
            report.add(Metric(f"{count:,} {what}, after {how}", "s", TARGET, IS_MET), peer.kind, time.perf_counter() - begin)


def main() -> None:
    wanted = arguments(__doc__)
    partitions, segments = (20, 30) if wanted.small else (1_000, 10_000)
    report = Report("Restart")
    for what, fill, count in (("partitions", fill_partitions, partitions), ("segments", fill_segments, segments)):
        for peer in peers_in_turn(wanted.peers):
            measure(report, peer, what, fill, count, wanted.rounds)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
