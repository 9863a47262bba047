"""Clients that make the broker hold memory: frames announced and not sent, half frames, responses that are not read."""

import os
from contextlib import ExitStack, suppress
from functools import cache

from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.attacks.records import produce
from ottla.testing.attacks.target import Target, wait_until_closed_or
from ottla.testing.clients.raw_client import Disconnected

HOLD_SECONDS = 3
"""So long the peers keep their connections open: long enough that the broker's memory is seen."""
FRAME_BYTES = 100_000_000
"""Within Kafka's default of socket.request.max.bytes."""
BATCH_BYTES = 40_000_000


def announced_frames(target: Target) -> int:
    """80 connections that announce frames of 100 MB and send a few bytes."""
    return _hold(target, target.count(80), FRAME_BYTES.to_bytes(4, "big") + b"\0\3\0\x0c")


def half_frames(target: Target) -> int:
    """500 connections that send 200 kB of a frame of 256 kB."""
    return _hold(target, target.count(500), (256_000).to_bytes(4, "big") + b"\0\3\0\x0c" + bytes(200_000))


def _hold(target: Target, connections: int, data: bytes) -> int:
    sent = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(target.client()) for _ in range(connections)]
        for client in clients:
            client.set_timeout(HOLD_SECONDS)  # a broker may stop reading
            with suppress(Disconnected, TimeoutError):
                client.send_bytes(data)
                sent += len(data)
        wait_until_closed_or(HOLD_SECONDS, clients)
    return sent


@cache
def large_batch(size: int) -> bytes:
    """One record that no codec makes smaller."""
    return bytes(encode_batch([Record(0, 1, None, os.urandom(size))]))


def slow_readers(target: Target) -> int:
    """20 connections that fetch a batch of 40 MB, twice each, and read nothing of it."""
    topic = target.topic("slow", 1, {"max.message.bytes": "100000000"})
    sent = produce(target, topic, large_batch(target.count(BATCH_BYTES)))
    wanted = [{"partition": 0, "partition_max_bytes": FRAME_BYTES, "current_leader_epoch": -1, "last_fetched_epoch": -1}]
    fetch = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": FRAME_BYTES, "session_epoch": -1}
    frame = target.frame(ApiKey.FETCH, 12, **fetch, topics=[{"topic": topic, "partitions": wanted}])
    with ExitStack() as stack:
        clients = [stack.enter_context(target.client()) for _ in range(target.count(20))]
        for client in clients:
            client.set_receive_buffer(4096)
            client.send_bytes(frame * 2)
        wait_until_closed_or(HOLD_SECONDS, clients)
    return sent + len(frame) * 2 * len(clients)


def silent_connections(target: Target) -> int:
    """2,000 connections at once that send nothing."""
    with ExitStack() as stack:
        clients = []
        for _ in range(target.count(2_000)):
            try:
                clients.append(stack.enter_context(target.client()))
            except OSError:
                break
        wait_until_closed_or(HOLD_SECONDS, clients)
    return 0
