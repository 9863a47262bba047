"""`python -m ottla.testing.fuzz.fuzz_run`: sends hostile bytes to a broker process for a given time, and checks it meanwhile.

A seed has its own broker and directory. Meanwhile the broker is killed or stopped and started again, and an honest producer writes. What
must hold: it answers a new client, its memory is bounded, its log holds no traceback, and what it acknowledged is there at the end.
"""

import argparse
import random
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import RawClient, host_and_port
from ottla.testing.fuzz.frames import PAIRS, broken, frame, sized
from ottla.testing.fuzz.ledger import Ledger
from ottla.testing.processes.ottla_process import OttlaProcess
from ottla.testing.processes.process_tree import resident_bytes

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
        self._ledger = Ledger()
        self.last: deque[bytes] = deque(maxlen=LAST_FRAMES)
        self.sent = self.restarts = 0

    @property
    def honest_records(self) -> int:
        """How many records the honest producer had acknowledged."""
        return len(self._ledger.acknowledged)

    def run(self, seconds: float) -> None:
        """Send for so long, then check what was acknowledged. Raises Wrong."""
        end = time.monotonic() + seconds
        next_check = next_restart = 0.0
        self._broker.start()
        try:
            self._ledger.create(self._broker.bootstrap_servers)
            while (now := time.monotonic()) < end:
                if now >= next_check:
                    self._check()
                    next_check = now + CHECK_EVERY_S
                if not next_restart:
                    next_restart = now + self._rng.uniform(*RESTART_EVERY_S)
                elif now >= next_restart:
                    self._restart()
                    next_restart = 0.0
                self._send()
            self._restart()
            self._check()
            missing = self._ledger.missing(self._broker.bootstrap_servers)
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
            with RawClient(self._broker.bootstrap_servers, timeout_seconds=10) as client:
                client.call(ApiKey.API_VERSIONS, 0)
        except OSError as error:
            raise Wrong(f"a new client got no answer: {error!r}") from error
        resident = resident_bytes(self._broker.pid)
        if resident > RESIDENT_BYTES_MAX:
            raise Wrong(f"the broker holds {resident / 1e6:.0f} MB")
        self._ledger.write(self._broker.bootstrap_servers)
        self._check_log()

    def _check_log(self) -> None:
        text = self._broker.log_path.read_text(errors="replace")
        at = text.find("Traceback")
        if at >= 0:
            raise Wrong(f"the broker's log holds a traceback:\n{text[max(0, at - 500) : at + 3000]}")


def run_seed(seed: int, seconds: float, directory: Path) -> str:
    """One seed; a line about it. Raises Wrong with the seed, and leaves the last frames in a file."""
    fuzz = Fuzz(seed, directory)
    try:
        fuzz.run(seconds)
    except Exception as error:
        kept = Path(tempfile.gettempdir()) / f"ottla-fuzz-{seed}.frames"
        kept.write_bytes(b"".join(fuzz.last))
        raise Wrong(f"seed {seed}, after {fuzz.sent} sends and {fuzz.restarts} restarts (the last ones: {kept}): {error!r}") from error
    return f"seed {seed}: {fuzz.sent} sends, {fuzz.restarts} restarts, {fuzz.honest_records} honest records: all well"


def main(arguments: Sequence[str]) -> int:
    """Run seed after seed until the time is up."""
    parser = argparse.ArgumentParser(prog="ottla.testing.fuzz.fuzz_run", description=__doc__.split("\n\n")[1])
    parser.add_argument("--seconds", type=float, default=8 * 3600, help="how long in all (default: a night)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed (default: the time)")
    given = parser.parse_args(arguments)
    end = time.monotonic() + given.seconds
    seed = given.seed
    while (left := end - time.monotonic()) > 0:
        with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as directory:
            try:
                print(run_seed(seed, min(left, SECONDS_A_SEED), Path(directory)), flush=True)  # noqa: T201
            except Wrong as wrong:
                print(f"WRONG: {wrong}", flush=True)  # noqa: T201
                return 1
        seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
