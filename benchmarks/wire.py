"""Megabytes a second of the broker alone: batches made beforehand are sent over a bare socket, and fetched as bytes that are not decoded.

throughput.py shows what a real client gets; there the client is what is slow. Here the same 27 cells take one connection, batches of about
100 kB, five Produce requests under way at a time (acks=all), two Fetches. A megabyte is one of values before compression.
"""

import itertools
import socket
import struct
import time
from collections import deque
from typing import Any

from peers import APACHE_KAFKA, OTTLA, arguments, make_topic, running_peers
from report import Metric, Report, at_least_kafkas
from restart import ends
from throughput import CODECS, PARTITIONS, delete_topic, values_of

from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire.api_keys import ApiKey

BATCH_BYTES = 100_000
MEGABYTES, MEGABYTES_SMALL = 300, 5
SIZES = (100, 1_000, 100_000)
PRODUCE_VERSION, PRODUCES_UNDER_WAY = 7, 5
FETCH_VERSION, FETCHES_UNDER_WAY = 4, 2
FETCH_BYTES_MAX = 52_428_800
PARTITION_BYTES_MAX = 1_048_576
DIFFERENT_BATCHES = 8


def connect(peer: Any) -> socket.socket:
    host, port = peer.bootstrap_servers.split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def frame(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhi", key, version, 0) + text("wire")
    return struct.pack(">i", len(head) + len(body)) + head + body


def batches_of(size: int, codec: str) -> list[bytes]:
    """Batches of the same number of records of `size` bytes each."""
    values = itertools.cycle(values_of(size))
    now_ms = int(time.time() * 1000)
    count = BATCH_BYTES // size
    return [
        bytes(encode_batch([Record(number, now_ms, None, next(values)) for number in range(count)], codec=Codec[codec.upper()]))
        for _ in range(DIFFERENT_BATCHES)
    ]


def receive(connection: socket.socket, buffer: memoryview) -> memoryview:
    """One answer without its size."""
    got = 0
    while got < 4:
        got += connection.recv_into(buffer[got:4])
    (size,) = struct.unpack_from(">i", buffer)
    got = 0
    while got < size:
        got += connection.recv_into(buffer[got:size])
    return buffer[:size]


def produce_seconds(peer: Any, topic: str, partitions: int, batches: list[bytes], count: int) -> float:
    buffer = memoryview(bytearray(65536))
    requests = []
    for batch in batches:
        for partition in range(partitions):
            body = struct.pack(">hhii", -1, -1, 30_000, 1) + text(topic) + struct.pack(">iii", 1, partition, len(batch)) + batch
            requests.append(frame(ApiKey.PRODUCE, PRODUCE_VERSION, body))
    error_at = 4 + 4 + len(text(topic)) + 4 + 4
    with connect(peer) as connection:
        begin = time.perf_counter()
        for sent in range(count + PRODUCES_UNDER_WAY):
            if sent < count:
                connection.sendall(requests[sent % len(requests)])
            if sent >= PRODUCES_UNDER_WAY:
                answer = receive(connection, buffer)
                error = struct.unpack_from(">h", answer, 4 + error_at - 4)[0]
                assert error == 0, f"{peer.kind}: error {error}"
        return time.perf_counter() - begin


def fetch_seconds(peer: Any, topic: str, ends_at: list[int]) -> float:
    """Until every partition has been read to its end, by the offsets of the batches' heads."""
    partitions = len(ends_at)
    buffer = memoryview(bytearray(FETCH_BYTES_MAX + 65536))
    offsets = [0] * partitions
    under_way: deque[int] = deque()
    turn = itertools.cycle(range(partitions))
    records_at = 4 + 4 + 4 + len(text(topic)) + 4 + 4 + 2 + 8 + 8 + 4
    with connect(peer) as connection:
        begin = time.perf_counter()
        while offsets != ends_at:
            left = sum(offset < end for offset, end in zip(offsets, ends_at))
            while len(under_way) < min(FETCHES_UNDER_WAY, left):
                partition = next(turn)
                if partition not in under_way and offsets[partition] < ends_at[partition]:
                    body = struct.pack(">iiiibi", -1, 500, 1, FETCH_BYTES_MAX, 0, 1) + text(topic)
                    body += struct.pack(">iiqi", 1, partition, offsets[partition], PARTITION_BYTES_MAX)
                    connection.sendall(frame(ApiKey.FETCH, FETCH_VERSION, body))
                    under_way.append(partition)
            partition = under_way.popleft()
            answer = receive(connection, buffer)
            (error,) = struct.unpack_from(">h", answer, records_at - 22)
            assert error == 0, f"{peer.kind}: error {error}"
            at = records_at + 4
            end = at + struct.unpack_from(">i", answer, records_at)[0]
            while end - at >= 61:
                base, length = struct.unpack_from(">qi", answer, at)
                if length + 12 > end - at:
                    break
                (last_delta,) = struct.unpack_from(">i", answer, at + 23)
                offsets[partition] = base + last_delta + 1
                at += length + 12
        return time.perf_counter() - begin


def main() -> None:
    wanted = arguments(__doc__, only=True)
    count = (MEGABYTES_SMALL if wanted.small else MEGABYTES) * 1_000_000 // BATCH_BYTES
    cells = [(size, codec, partitions) for size in SIZES for codec in CODECS for partitions in PARTITIONS]
    report = Report("The broker alone")
    names = itertools.count()
    with running_peers([name for name in wanted.peers if name in (OTTLA, APACHE_KAFKA)]) as peers:
        for _ in range(wanted.rounds):
            for size, codec, partitions in cells:
                name = f"{size:,} B, {codec}, {partitions} p"
                if wanted.only not in name:
                    continue
                batches = batches_of(size, codec)
                for peer in peers:
                    topic = f"wire-{next(names)}"
                    make_topic(peer, topic, partitions)
                    ends(peer, topic, partitions, 0)  # its leaders answer
                    megabytes = count * BATCH_BYTES / 1e6
                    took = produce_seconds(peer, topic, partitions, batches, count)
                    report.add(Metric(f"produce {name}", "MB/s", ">= Apache Kafka", at_least_kafkas), peer.kind, megabytes / took)
                    batches_in = [len(range(partition, count, partitions)) for partition in range(partitions)]
                    took = fetch_seconds(peer, topic, [number * (BATCH_BYTES // size) for number in batches_in])
                    report.add(Metric(f"fetch {name}", "MB/s", ">= Apache Kafka", at_least_kafkas), peer.kind, megabytes / took)
                    delete_topic(peer, topic)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
