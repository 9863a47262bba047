"""Resident memory of a broker under what people fear makes it grow: many partitions, many idle connections, readers that do not read.

Each is put on top of the one before: idle; 1,000 connections that have asked once; 10,000 partitions with a record each; 20 readers that
ask for 50 MB at a time and take nothing; a load of 200 MB after all of it. The targets, Ottla's alone, are the bounds in docs/memory.md.
"""

import socket
import time
from contextlib import ExitStack
from functools import cache
from typing import Any

from confluent_kafka import Producer
from peers import QUIET, arguments, make_topic, peers_in_turn
from report import Metric, Report, at_most

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, build_request
from tests.support.processes import resident_bytes

FETCH_VERSION = 11
READERS = 20
READER_REQUESTS = 10
PARTITIONS_A_TOPIC = 1_000
SETTLE_SECONDS = 2
LIMITS_MB = (60, 100, 200, 250, 250)


def connect(peer: Any, count: int, stack: ExitStack) -> None:
    for _ in range(count):
        stack.enter_context(RawClient(peer.bootstrap_servers)).call(ApiKey.API_VERSIONS, 0)


def fill(peer: Any, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET})
    for first in range(0, partitions, PARTITIONS_A_TOPIC):
        topic = f"memory-{first}"
        count = min(PARTITIONS_A_TOPIC, partitions - first)
        make_topic(peer, topic, count)
        for partition in range(count):
            producer.produce(topic, b"x" * 100, partition=partition)
        assert producer.flush(120) == 0


def write(peer: Any, topic: str, megabytes: int) -> None:
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, "linger.ms": 5, "queue.buffering.max.kbytes": 1_000_000})
    for _ in range(megabytes):
        assert producer.produce_batch(topic, [{"value": b"x" * 1000}] * 1000, partition=0) == 1000
        while len(producer) > 50_000:
            producer.poll(0.01)
    assert producer.flush(120) == 0


def read_nothing(peer: Any, topic: str, stack: ExitStack) -> None:
    """Readers that ask again and again, and never take an answer."""
    for _ in range(READERS):
        reader = stack.enter_context(RawClient(peer.bootstrap_servers))
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50_000_000}
        values = {"replica_id": -1, "max_wait": 100, "min_bytes": 50_000_000, "max_bytes": 50_000_000, "isolation_level": 0}
        request = build_request(ApiKey.FETCH, FETCH_VERSION, {**values, "topics": [{"topic": topic, "partitions": [partition]}]})
        for _ in range(READER_REQUESTS):
            reader.send(request)


@cache
def metrics(*names: str) -> list[Metric]:
    return [Metric(name, "MB", f"<= {limit} MB", at_most(limit)) for name, limit in zip(names, LIMITS_MB)]


def measure(report: Report, peer: Any, wanted: Any) -> None:
    connections, partitions, megabytes = (20, 20, 5) if wanted.small else (1_000, 10_000, 200)
    idle, connected, partitioned, unread, loaded = metrics(
        "idle",
        f"+ {connections:,} idle connections",
        f"+ {partitions:,} partitions",
        f"+ {READERS} readers that take nothing",
        "+ a load",
    )

    def note(metric: Metric) -> None:
        time.sleep(SETTLE_SECONDS)
        report.add(metric, peer.kind, resident_bytes(peer.pid) / 1e6)

    with ExitStack() as stack:
        note(idle)
        connect(peer, connections, stack)
        note(connected)
        fill(peer, partitions)
        note(partitioned)
        make_topic(peer, "slow", 1)
        write(peer, "slow", megabytes)
        read_nothing(peer, "slow", stack)
        note(unread)
        write(peer, "slow", megabytes)
        note(loaded)


def main() -> None:
    wanted = arguments(__doc__)
    report = Report("Memory")
    for peer in peers_in_turn(wanted.peers):
        measure(report, peer, wanted)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
