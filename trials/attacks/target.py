"""The target of an attack: prepares topics and groups on a broker, sends hostile bytes, and waits for responses.

Any response is accepted, and so is a closed connection; a request without either is an error.
"""

import itertools
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from threading import Thread
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient, build_request, create_topic

ANSWER_SECONDS_MAX = 300
PARTITIONS_AT_ONCE = 5_000
"""Most partitions of one request: the controller of Apache Kafka refuses one that takes more than 10,000 records."""
RECEIVE_BYTES = 1 << 20


class Target:
    """One broker. `scale` makes attacks smaller, for tests that show that they run."""

    def __init__(self, servers: str, *, scale: float = 1.0) -> None:
        self.servers = servers
        self._scale = scale
        self._numbers = itertools.count()

    def count(self, full: int) -> int:
        """How many of something an attack uses at this scale."""
        return max(2, round(full * self._scale))

    def name(self, prefix: str) -> str:
        """A name that no attack on this target has used before."""
        return f"{prefix}-{next(self._numbers)}"

    def client(self) -> RawClient:
        """A new connection."""
        return RawClient(self.servers, client_id="attacker", timeout_seconds=ANSWER_SECONDS_MAX)

    def topic(self, prefix: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and wait until all of its partitions have a leader."""
        name = self.name(prefix)
        with self.client() as client:
            create_topic(client, name, min(partitions, PARTITIONS_AT_ONCE), replicas=1, **(config or {}))
            if partitions > PARTITIONS_AT_ONCE:
                grown = {"name": name, "count": partitions, "assignments": None}
                (result,) = client.call(ApiKey.CREATE_PARTITIONS, 2, topics=[grown], timeout=60_000, validate_only=False).results
                assert result.error_code == ErrorCode.NONE, result
            deadline = time.monotonic() + ANSWER_SECONDS_MAX
            while True:
                (found,) = client.call(ApiKey.METADATA, 8, topics=[{"name": name}], allow_auto_topic_creation=False).topics
                if len(found.partitions) == partitions and all(each.leader_id >= 0 for each in found.partitions):
                    return name
                assert time.monotonic() < deadline, f"{name} has no leaders"
                time.sleep(0.1)

    def coordinator_of(self, group: str) -> None:
        """Wait until the group's coordinator answers: its topic may have to be created first."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        with self.client() as client:
            while client.call(ApiKey.OFFSET_FETCH, 7, group_id=group, topics=None).error_code != ErrorCode.NONE:
                client.call(ApiKey.FIND_COORDINATOR, 2, key=group, key_type=0)
                assert time.monotonic() < deadline, f"{group} has no coordinator"
                time.sleep(0.1)

    @staticmethod
    def one_record() -> bytes:
        """A batch of one small record of now."""
        return bytes(encode_batch([Record(0, int(time.time() * 1000), None, b"x")]))

    def frame(self, api_key: int, version: int, **values: Any) -> bytes:
        """A request's bytes, with the size before them."""
        with self.client() as client:
            body = client.encode(build_request(api_key, version, values))
        return len(body).to_bytes(4, "big") + body

    def send(self, frames: Sequence[bytes], *, connections: int = 1) -> int:
        """Send the frames over each of so many connections; wait until all are answered or it is closed. Returns bytes sent."""
        with ExitStack() as stack:
            clients = [stack.enter_context(self.client()) for _ in range(connections)]
            for client in clients:
                for frame in frames:
                    with suppress(Disconnected):
                        client.send_bytes(frame)
            for client in clients:
                drain_frames(client, len(frames))
        return sum(map(len, frames)) * connections

    def pipeline(self, frame: bytes, count: int, *, connections: int) -> int:
        """Send a frame so often over each of so many connections, and take the answers meanwhile. Returns bytes sent."""
        with ExitStack() as stack:
            clients = [stack.enter_context(self.client()) for _ in range(connections)]
            takers = [Thread(target=drain_frames, args=(client, count), daemon=True) for client in clients]
            senders = [Thread(target=client.send_bytes, args=(frame * count,), daemon=True) for client in clients]
            for thread in (*takers, *senders):
                thread.start()
            for thread in (*senders, *takers):
                thread.join(ANSWER_SECONDS_MAX)
                assert not thread.is_alive(), "requests that were neither answered nor refused"
        return len(frame) * count * connections


def drain_frames(client: RawClient, count: int) -> None:
    """Wait for so many responses, or until the connection is closed."""
    with suppress(Disconnected):
        for _ in range(count):
            drain_frame(client)


def drain_frame(client: RawClient) -> None:
    """Wait for one response and discard it as it arrives: it may be large."""
    left = int.from_bytes(client.receive_bytes(4), "big")
    while left:
        left -= len(client.receive_some(min(left, RECEIVE_BYTES)))


def wait_until_closed_or(seconds: float, clients: Sequence[RawClient]) -> None:
    """Wait for so long, or until every connection was closed by the broker."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    for client in clients:
        poll.register(client.fileno(), select.POLLRDHUP)
    remaining = len(clients)
    while remaining and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            remaining -= 1
