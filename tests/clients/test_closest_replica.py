"""Fetching from the closest replica (KIP-392), from two scripted brokers: a leader that names its follower, and that follower.

Three Apache Kafkas would be needed for a real follower. What the leader of one answers to a client with a rack is Kafka's own business;
what a client does then is tested here, over sockets.
"""

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla import TopicPartition
from ottla.client.fetch.fetch_values import FetchRange
from ottla.client.fetch.fetcher import Fetcher
from ottla.client.settings import ClientSettings
from ottla.protocol import model
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import request_decoder, response_encoder
from ottla.testing.waiting import wait_until

LEADER, FOLLOWER = 1, 2
VERSIONS = {ApiKey.FETCH: (4, 12), ApiKey.METADATA: (0, 9), ApiKey.FIND_COORDINATOR: (0, 4)}


class Conversation(socketserver.StreamRequestHandler):
    """One connection to a scripted broker."""

    server: "ScriptedBroker"

    def handle(self) -> None:
        self.server.connections.append(self.connection)
        with contextlib.suppress(OSError, struct.error):
            while True:
                frame = self.rfile.read(struct.unpack(">i", self.rfile.read(4))[0])
                key, version, number, name_bytes = struct.unpack_from(">hhih", frame)
                body = self.server.versions() if key == ApiKey.API_VERSIONS else self.answer(key, version, frame[11 + name_bytes :])
                self.wfile.write(struct.pack(">ii", len(body) + 4, number) + body)

    def answer(self, key: int, version: int, body: bytes) -> bytes:
        request = request_decoder(key, version)(body, 0)
        return b"\0" + bytes(response_encoder(key, version)({"throttle_time": 0} | self.server.cluster.answer(self.server, key, request)))


class ScriptedBroker(socketserver.ThreadingTCPServer):
    """A broker of a scripted cluster, which gives its answers."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, cluster: "ScriptedCluster", broker_id: int) -> None:
        super().__init__(("127.0.0.1", 0), Conversation)
        self.cluster = cluster
        self.broker_id = broker_id
        self.connections: list[socket.socket] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def versions(self) -> bytes:
        items = b"".join(struct.pack(">hhh", key, *versions) + b"\0" for key, versions in VERSIONS.items())
        return struct.pack(">hB", 0, len(VERSIONS) + 1) + items + struct.pack(">i", 0) + b"\0"

    def stop(self) -> None:
        """Close the port and all connections."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class ScriptedCluster:
    """Topic t with one partition of twenty records: ten of them are on the follower, too."""

    def __init__(self) -> None:
        self.is_stopped = threading.Event()
        self.fetched: list[tuple[int, int, str]] = []
        self.brokers = {broker_id: ScriptedBroker(self, broker_id) for broker_id in (LEADER, FOLLOWER)}
        self.has_follower = True
        self.bootstrap_servers = f"127.0.0.1:{self.brokers[LEADER].server_address[1]}"

    def stop(self) -> None:
        self.is_stopped.set()
        for broker_id in list(self.brokers):
            self.stop_broker(broker_id)

    def stop_broker(self, broker_id: int) -> None:
        self.has_follower = False
        self.brokers.pop(broker_id).stop()

    def answer(self, broker: ScriptedBroker, key: int, request: Any) -> dict[str, Any]:
        if key == ApiKey.METADATA:
            return self.metadata()
        if key == ApiKey.FIND_COORDINATOR:
            return {"coordinators": []}
        return self.fetch(broker.broker_id, request)

    def metadata(self) -> dict[str, Any]:
        nodes = [
            {"node_id": each.broker_id, "host": "127.0.0.1", "port": each.server_address[1], "rack": None}
            for each in list(self.brokers.values())
        ]
        replicas = {"replica_nodes": (LEADER, FOLLOWER), "isr_nodes": (LEADER,), "offline_replicas": ()}
        partition = {"error_code": ErrorCode.NONE, "partition_index": 0, "leader_id": LEADER, "leader_epoch": 0} | replicas
        topic = {"error_code": ErrorCode.NONE, "name": "t", "is_internal": False, "partitions": [partition]}
        return {"brokers": nodes, "cluster_id": None, "controller_id": LEADER, "topics": [topic]}

    def fetch(self, broker_id: int, request: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"error_code": ErrorCode.NONE, "session_id": 0, "responses": []}
        for topic in request.topics:
            for item in topic.partitions:
                self.fetched.append((broker_id, int(item.fetch_offset), request.rack_id))
                found["responses"].append({"topic": topic.topic, "partitions": [self.partition(broker_id, int(item.fetch_offset))]})
        return found

    def partition(self, broker_id: int, offset: int) -> dict[str, Any]:
        names_follower = broker_id == LEADER and self.has_follower
        end = 10 if broker_id == FOLLOWER else 20
        records = [model.Record(each, 0, None, b"%d" % each) for each in range(offset, end)]
        is_empty = names_follower or not records
        if is_empty and not names_follower:
            self.is_stopped.wait(0.05)
        return {
            "partition_index": 0,
            "error_code": ErrorCode.NONE,
            "high_watermark": end,
            "last_stable_offset": end,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "preferred_read_replica": FOLLOWER if names_follower else -1,
            "records": b"" if is_empty else bytes(encode_batch(records, base_offset=offset)),
        }


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    made = ScriptedCluster()
    yield made
    made.stop()


Read = Callable[[int], list[int]]
"""So many offsets more, in the order of the records."""


@pytest.fixture(params=["consumer", "fetcher"])
def read(request: pytest.FixtureRequest, cluster: ScriptedCluster) -> Iterator[Read]:
    """Reads partition 0 of t with `ottla.Consumer`, and with the client of the Spark source."""
    if request.param == "consumer":
        config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "client.rack": "here", "enable.auto.commit": False}
        with ottla.Consumer(config) as consumer:
            consumer.assign([TopicPartition("t", 0, 0)])
            yield lambda count: [message.offset() for message in consumer.consume(count, 20)]
    else:
        settings = ClientSettings(bootstrap_servers=cluster.bootstrap_servers, client_rack="here")
        with Fetcher(settings) as fetcher:
            pieces = fetcher.read([FetchRange(model.TopicPartition("t", 0), 0, 20)])
            yield lambda count: [offset for piece in [next(pieces)] for offset in range(piece.position, piece.next_offset)]


def test_the_follower_that_the_leader_names_is_read_and_given_up_when_it_is_gone(cluster: ScriptedCluster, read: Read) -> None:
    assert read(10) == list(range(10))
    assert cluster.fetched[:2] == [(LEADER, 0, "here"), (FOLLOWER, 0, "here")]
    cluster.stop_broker(FOLLOWER)
    assert read(10) == list(range(10, 20))
    assert {broker_id for broker_id, offset, _ in cluster.fetched if 0 < offset < 10} == set()
    wait_until(lambda: (LEADER, 10, "here") in cluster.fetched, "a fetch from the leader")
