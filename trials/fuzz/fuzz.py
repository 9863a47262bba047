"""Hostile bytes for a broker process that is killed and started again: it serves others, and keeps what it acknowledged.

A seed has its own broker and directory. Meanwhile the broker is killed or stopped and started again, and an honest producer writes. What
must hold: it answers a new client, its memory is bounded, its log holds no traceback, and what it acknowledged is there at the end.
"""

import argparse
import itertools
import random
import socket
import tempfile
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from ottla.cli.processes import OttlaProcess
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import decode_batch, encode_batch, split_batches
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient, create_topic, host_and_port
from tests.support.processes import resident_bytes
from trials.fuzz.frames import PAIRS, broken, frame, sized
from trials.harness.actions import Recurring
from trials.harness.runs import Outcome, Results, seeds_in

TOPIC = "ledger"


class HonestProducer:
    """Writes records of one partition beside the hostile clients; `acknowledged` has them by their offsets."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self._written = 0

    def create(self, servers: str) -> None:
        """Create the topic."""
        create_topic(servers, TOPIC)

    def write(self, servers: str) -> None:
        """Produce one record; without an acknowledgement it does not count."""
        self._written += 1
        value = str(self._written).encode()
        batch = bytes(encode_batch([Record(0, int(time.time() * 1000), None, value)]))
        topic_data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
        with suppress(Disconnected), RawClient(servers) as client:
            (part,) = client.call(ApiKey.PRODUCE, 8, acks=-1, timeout=10_000, topic_data=topic_data).responses[0].partition_responses
            if part.error_code == ErrorCode.NONE:
                self.acknowledged[part.base_offset] = value

    def missing(self, servers: str) -> list[int]:
        """Offsets whose acknowledged record is not there, or is another one."""
        found: dict[int, bytes | None] = {}
        offset = 0
        with RawClient(servers) as client:
            while True:
                part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
                values = {"replica_id": -1, "max_wait": 0, "max_bytes": 1 << 20, "session_epoch": -1}
                answer = client.call(ApiKey.FETCH, 11, **values, topics=[{"topic": TOPIC, "partitions": [part]}])
                data = bytes(answer.responses[0].partitions[0].records or b"")
                records = [record for at, _ in split_batches(data) for record in decode_batch(data, at)]
                if not records:
                    return sorted(offset for offset, value in self.acknowledged.items() if found.get(offset) != value)
                found.update((record.offset, record.value) for record in records)
                offset = records[-1].offset + 1


NAME = "fuzz"
CONNECTIONS = 8
RESIDENT_BYTES_MAX = 400_000_000
CHECK_EVERY_S = 1.0
RESTART_EVERY_S = (5.0, 20.0)
SECONDS_A_SEED = 60.0
LAST_FRAMES = 200
SETTINGS = {"group.min.session.timeout.ms": "1"}
"""So that members are lost soon; all else is as users have it."""


class Wrong(Exception):
    """A check failed; the text says which."""


class Fuzz:
    """One seed: `run`, which raises Wrong. `last` holds what was sent at the end, to find the reason."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._rng = random.Random(seed)
        self._broker = OttlaProcess(directory / "data", config=SETTINGS)
        self._sockets: list[socket.socket | None] = [None] * CONNECTIONS
        self._honest = HonestProducer()
        self.last: deque[bytes] = deque(maxlen=LAST_FRAMES)
        self.sent = self.restarts = 0

    @property
    def honest_records(self) -> int:
        """How many records the honest producer had acknowledged."""
        return len(self._honest.acknowledged)

    def run(self, seconds: float) -> None:
        """Send for so long, then check what was acknowledged. Raises Wrong."""
        end = time.monotonic() + seconds
        next_check = 0.0
        restarts = Recurring(self._rng, RESTART_EVERY_S, self._restart, is_due_at_once=False)
        self._broker.start()
        try:
            self._honest.create(self._broker.bootstrap_servers)
            while (now := time.monotonic()) < end:
                if now >= next_check:
                    self._check()
                    next_check = now + CHECK_EVERY_S
                restarts.act_if_due()
                self._send()
            self._restart()
            self._check()
            missing = self._honest.missing(self._broker.bootstrap_servers)
            if missing:
                raise Wrong(f"{len(missing)} acknowledged records are gone, the first at offset {missing[0]}")
        finally:
            self._close()
            self._broker.stop()
        self._check_log()

    # --- hostile bytes

    def _send(self) -> None:
        data = self._bytes()
        self.last.append(data)
        number = self._rng.randrange(CONNECTIONS)
        with suppress(OSError):
            connection = self._sockets[number] or self._connect(number)
            if self._rng.random() < 0.02:
                data = data[: self._rng.randrange(len(data))]  # the rest is the next frame's beginning
            connection.sendall(data)
            self.sent += 1
            self._read(connection)
            if self._rng.random() > 0.05:
                return
        self._drop(number)

    def _bytes(self) -> bytes:
        rng = self._rng
        if rng.random() < 0.03:
            return rng.randbytes(rng.randrange(1, 3000))
        frames = []
        for _ in range(1 if rng.random() < 0.8 else rng.randint(2, 20)):
            data = frame(*rng.choice(PAIRS), rng=rng)
            frames.append(broken(data, rng) if rng.random() < 0.6 else data)
        return sized(frames)

    def _connect(self, number: int) -> socket.socket:
        connection = socket.create_connection(host_and_port(self._broker.bootstrap_servers), timeout=5)
        connection.setblocking(True)
        connection.settimeout(0.5)  # a broker that does not read while its answers are not taken is right
        self._sockets[number] = connection
        return connection

    def _read(self, connection: socket.socket) -> None:
        if self._rng.random() < 0.5:
            return
        connection.settimeout(0.002)
        try:
            if not connection.recv(1 << 20):
                raise ConnectionResetError
        except TimeoutError:
            pass
        connection.settimeout(0.5)

    def _drop(self, number: int) -> None:
        connection, self._sockets[number] = self._sockets[number], None
        if connection is not None:
            connection.close()

    def _close(self) -> None:
        for number in range(CONNECTIONS):
            self._drop(number)

    # --- what must hold

    def _restart(self) -> None:
        self._close()
        if self._rng.random() < 0.5:
            self._broker.kill()
        else:
            self._broker.stop()
        self._broker.start()
        self.restarts += 1

    def _check(self) -> None:
        if not self._broker.is_running:
            raise Wrong("the broker has ended")
        try:
            with RawClient(self._broker.bootstrap_servers, timeout_seconds=30) as client:
                client.call(ApiKey.API_VERSIONS, 0)
        except OSError as error:
            raise Wrong(f"a new client got no answer: {error!r}") from error
        resident = resident_bytes(self._broker.pid)
        if resident > RESIDENT_BYTES_MAX:
            raise Wrong(f"the broker holds {resident / 1e6:.0f} MB")
        self._honest.write(self._broker.bootstrap_servers)
        self._check_log()

    def _check_log(self) -> None:
        text = self._broker.log_path.read_text(errors="replace")
        at = text.find("Traceback")
        if at >= 0:
            raise Wrong(f"the broker's log holds a traceback:\n{text[max(0, at - 500) : at + 3000]}")


def run_seed(seed: int, seconds: float, directory: Path) -> str:
    """One seed; its figures. Raises Wrong with the seed, and leaves the last frames in a file."""
    fuzz = Fuzz(seed, directory)
    try:
        fuzz.run(seconds)
    except Exception as error:
        kept = Path(tempfile.gettempdir()) / f"ottla-fuzz-{seed}.frames"
        kept.write_bytes(b"".join(fuzz.last))
        raise Wrong(f"seed {seed}, after {fuzz.sent} sends and {fuzz.restarts} restarts (the last ones: {kept}): {error!r}") from error
    return f"{fuzz.sent} sends, {fuzz.restarts} restarts, {fuzz.honest_records} honest records"


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long."""
    parser.add_argument("--seconds", type=float, default=8 * 3600, help="how long in all (default: a night)")
    parser.add_argument("--seed", type=seeds_in, metavar="SEEDS", help="1,2,3 or 0-99: a minute each (default: from the time on)")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run seed after seed until the time is up, or until all that were named have run."""
    end = time.monotonic() + options.seconds
    seeds = options.seed or itertools.count(int(time.time()))

    def run_one(seed: int, directory: Path) -> Outcome:
        return Outcome([], run_seed(seed, min(SECONDS_A_SEED, end - time.monotonic()), directory))

    results.run_seeds(itertools.takewhile(lambda _: time.monotonic() < end, seeds), run_one)
