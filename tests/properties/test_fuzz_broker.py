"""Any bytes sent to the port close that connection or are answered; the broker lives, and other connections do not notice.

Frames of every API in every version are made by kio and then broken: bytes flipped, cut, lengths made huge, and bodies of pure noise.
"""

import io
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.index import api_key_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

from ottla.broker import Broker
from ottla.broker.dispatch import served_apis
from ottla.broker.messages import entity_of, fitter, is_flexible
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch

SEEDS = range(8)
FRAMES_PER_SEED = 150
PAIRS = [(api.key, version) for api in served_apis().values() for version in api.versions if version not in api.refused]
ANSWER_SECONDS_MAX = 5

BATCH = bytes(encode_batch([Record(0, 1, b"k", b"v")]))
# One value for each field name, so that a request of any API is a plausible one; the rest take kio's defaults.
VALUES: dict[str, Any] = {
    "client_software_name": "fuzz", "client_software_version": "1", "acks": -1, "timeout": 100, "transactional_id": None,
    "name": "t", "topic": "t", "group_id": "g", "member_id": "", "session_timeout": 50, "rebalance_timeout": 50,
    "protocol_type": "consumer",
    "generation_id": 1, "generation_id_or_member_epoch": -1, "replica_id": -1, "max_wait": 1, "min_bytes": 1, "max_bytes": 1000,
    "isolation_level": 0, "index": 0, "records": BATCH, "partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000,
    "partition_index": 0, "committed_offset": 1, "committed_metadata": "m", "retention_time": -1,
    "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff",
    "assignment": b"a", "key": "g", "key_type": 0, "coordinator_keys": ("g",), "groups_names": ("g",), "topic_names": ("gone",),
    "num_partitions": 1, "replication_factor": 1, "value": "1", "broker_ids": (1,), "count": 2, "validate_only": False, "timestamp": -1,
    "resource_type": 2, "resource_name": "t", "configuration_keys": None, "config_operation": 0, "partition_indexes": (0,),
    "include_synonyms": True, "include_documentation": True, "states_filter": (), "types_filter": (), "include_authorized_operations": True,
    "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1, "include_cluster_authorized_operations": True,
    "allow_auto_topic_creation": True, "include_topic_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": False,
    "member_epoch": -1, "require_stable": False, "reason": "r", "group_instance_id": None, "committed_leader_epoch": -1,
    "current_leader_epoch": -1, "session_id": 0, "session_epoch": -1, "rack_id": "", "last_fetched_epoch": -1, "log_start_offset": -1,
    "partitions": (), "forgotten_topics_data": (), "protocol_name": "range", "topic_id": None, "offset": 0, "leader_epoch": 0,
}  # fmt: skip


def plausible(entity: type[Any]) -> dict[str, Any]:
    """A value for every field of a message: one item in every array."""
    import dataclasses
    from typing import get_args

    values: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        nested = next((part for part in _parts(field.type, get_args) if dataclasses.is_dataclass(part)), None)
        if nested is not None:
            one = plausible(nested)
            values[field.name] = [one] if "tuple" in str(field.type) else one
        elif field.name == "groups":
            values[field.name] = ("g",)
        elif field.name in VALUES:
            values[field.name] = VALUES[field.name]
    return values


def _parts(annotation: Any, get_args: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part, get_args)


def frame(key: int, version: int) -> bytes:
    entity = entity_of(key, version, EntityType.request)
    out = io.BytesIO()
    entity_writer(entity)(out, fitter(entity)(plausible(entity)))
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (9).to_bytes(4, "big") + b"\0\4fuzz"
    return head + (b"\0" if is_flexible(key, version) else b"") + out.getvalue()


def broken(data: bytes, dice: random.Random) -> bytes:
    """The frame with something wrong in it; its header is usually left alone, so that the body's parser is met."""
    out = bytearray(data)
    kind = dice.randrange(6)
    first = 0 if dice.random() < 0.1 else min(14, len(out) - 1)
    if kind == 0:
        for _ in range(dice.randint(1, 5)):
            out[dice.randrange(first, len(out))] = dice.randrange(256)
    elif kind == 1:
        del out[dice.randrange(first, len(out)) :]
    elif kind == 2:
        at = dice.randrange(first, len(out))
        out[at : at + 4] = dice.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\xff\xff"])
    elif kind == 3:
        out[first:] = dice.randbytes(dice.randrange(200))
    elif kind == 4:
        out += dice.randbytes(dice.randrange(50))
    else:
        at = dice.randrange(first, len(out))
        out[at:at] = dice.randbytes(dice.randint(1, 8))
    return bytes(out)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"group.min.session.timeout.ms": "1", "socket.request.max.bytes": "1000000"}) as running:
        yield running


def connect(broker: Broker) -> socket.socket:
    host, port = broker.bootstrap_servers.split(":")
    return socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX)


def answer(connection: socket.socket) -> bytes | None:
    """The next answer; None when the connection was closed. Silence for too long raises TimeoutError."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        try:
            more = connection.recv(1 << 20)
        except ConnectionResetError:
            return None
        if not more:
            return None
        data += more
    return data[4:]


def send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(len(data).to_bytes(4, "big") + data)


@pytest.mark.parametrize(("key", "version"), PAIRS, ids=lambda value: str(value))
def test_a_plausible_request_of_every_api_and_version_is_answered(broker: Broker, key: int, version: int) -> None:
    with connect(broker) as connection:
        send(connection, frame(key, version))
        assert answer(connection) is not None, f"{api_key_map[key]} v{version} closed the connection"


@pytest.mark.parametrize("seed", SEEDS)
def test_any_bytes_close_that_connection_or_are_answered(broker: Broker, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(seed)
    with connect(broker) as witness:
        for number in range(FRAMES_PER_SEED):
            key, version = dice.choice(PAIRS)
            data = broken(frame(key, version), dice)
            with connect(broker) as connection:
                send(connection, data)
                if number % 3 == 0:
                    connection.shutdown(socket.SHUT_WR)  # a peer that says no more must not be waited for
                outcome(connection, data, key, dice)
            if number % 10 == 0:
                send(witness, frame(18, 0))
                assert answer(witness) is not None
        send(witness, frame(3, 1))
        assert answer(witness) is not None
    assert "Traceback" not in caplog.text, "a handler failed on hostile bytes: that is our bug, not the peer's"


def outcome(connection: socket.socket, data: bytes, key: int, dice: random.Random) -> None:
    """Waits for an answer or the end; a request that may wait by right (a join, a long poll, acks=0) is not waited for."""
    if key in (0, 1, 11, 14):
        connection.settimeout(0.02)
        try:
            answer(connection)
        except TimeoutError:
            return
    else:
        try:
            answer(connection)
        except TimeoutError:
            pytest.fail(f"neither answered nor closed: {data.hex()}")


@pytest.mark.parametrize("seed", SEEDS)
def test_pure_noise(broker: Broker, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(30):
        with connect(broker) as connection:
            connection.sendall(dice.randbytes(dice.randint(1, 3000)))
            connection.shutdown(socket.SHUT_WR)
            while answer(connection) is not None:
                pass
    with connect(broker) as witness:
        send(witness, frame(18, 0))
        assert answer(witness) is not None
