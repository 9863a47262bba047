"""Any bytes sent to the port close that connection or are answered; the broker lives, and other connections do not notice.

Frames of every API in every version, plausible and broken, are sent one by one here; `trials.fuzz.fuzz` sends them to a broker
process on many connections while that is killed and started again: for OTTLA_FUZZ_SECONDS (30) here, for a night by `make fuzz`.
"""

import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.index import api_key_map

from ottla.broker import Broker
from ottla.protocol.wire.api_keys import ApiKey
from trials.fuzz.frames import PAIRS, broken, frame
from trials.fuzz.fuzz import run_seed

SEEDS = range(8)
FRAMES_PER_SEED = 150
ANSWER_SECONDS_MAX = 5
PROCESS_SEED = int(os.environ.get("OTTLA_FUZZ_SEED", "1"))
PROCESS_SECONDS = float(os.environ.get("OTTLA_FUZZ_SECONDS", "30"))


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
    rng = random.Random(seed)
    with connect(broker) as witness:
        for number in range(FRAMES_PER_SEED):
            key, version = rng.choice(PAIRS)
            data = broken(frame(key, version), rng)
            with connect(broker) as connection:
                send(connection, data)
                if number % 3 == 0:
                    connection.shutdown(socket.SHUT_WR)  # a peer that says no more must not be waited for
                outcome(connection, data, key, rng)
            if number % 10 == 0:
                send(witness, frame(ApiKey.API_VERSIONS, 0))
                assert answer(witness) is not None
        send(witness, frame(ApiKey.METADATA, 1))
        assert answer(witness) is not None
    assert "Traceback" not in caplog.text, "a handler failed on hostile bytes: that is our bug, not the peer's"


def outcome(connection: socket.socket, data: bytes, key: int, rng: random.Random) -> None:
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
    rng = random.Random(seed)
    for _ in range(30):
        with connect(broker) as connection:
            connection.sendall(rng.randbytes(rng.randint(1, 3000)))
            connection.shutdown(socket.SHUT_WR)
            while answer(connection) is not None:
                pass
    with connect(broker) as witness:
        send(witness, frame(ApiKey.API_VERSIONS, 0))
        assert answer(witness) is not None


def test_a_broker_process_lives_through_it_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    print(run_seed(PROCESS_SEED, PROCESS_SECONDS, tmp_path))
