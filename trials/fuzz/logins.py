"""Hostile bytes before a login: nobody gets in, and those with a password still do.

Noise, broken ClientHellos, and conversations of SASL with wrong passwords, unsigned tokens, other APIs and broken frames come to a listener
with SASL and one with TLS as well. What must hold: an honest client can log in, its memory is bounded, the log stays short, holds no
traceback, and names nobody else as authenticated.
"""

import argparse
import itertools
import random
import re
import socket
import ssl
import time
from contextlib import suppress
from pathlib import Path
from struct import pack

from ottla.cli.processes import OttlaProcess
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.scram import ScramClient, plain
from ottla.testing.security.certificates import HOSTS, CertificateAuthority
from tests.support.processes import resident_bytes
from trials.fuzz.frames import PAIRS, broken, frame, sized
from trials.fuzz.fuzz import RESIDENT_BYTES_MAX, Wrong
from trials.harness.runs import Outcome, Results, seeds_in

NAME = "fuzz-logins"
SECONDS_A_SEED = 60.0
CHECK_EVERY_S = 1.0
LOG_BYTES_MAX = 20_000_000
HONEST, PASSWORD = "honest", "right"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{HONEST}="{PASSWORD}";'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "", "plain")
_AUTHENTICATED = re.compile(r"(?<!\S)(\S+) authenticated from")


def request(key: int, version: int, body: bytes) -> bytes:
    """A request without its size."""
    return pack(">hhih", key, version, 7, -1) + body


def handshake(mechanism: str, version: int = 1) -> bytes:
    """SaslHandshake."""
    return request(ApiKey.SASL_HANDSHAKE, version, pack(">h", len(mechanism)) + mechanism.encode())


def authenticate(token: bytes) -> bytes:
    """SaslAuthenticate."""
    return request(ApiKey.SASL_AUTHENTICATE, 1, pack(">i", len(token)) + token)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class LoginFuzz:
    """One seed: `run`, which raises Wrong."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._rng = random.Random(seed)
        authority = CertificateAuthority()
        own = authority.issue("CN=broker", hosts=HOSTS).write(directory / "broker.pem")
        self._ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SASL_SSL")}
        config = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "connection.failed.authentication.delay.ms": "5",
            **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": JAAS for name in self._ports},
        }
        self._broker = OttlaProcess(directory / "data", config=config)
        self._tls = ssl.create_default_context(cadata=authority.certificate)
        self.conversations = self.logins = 0

    def run(self, seconds: float) -> None:
        """Send for so long. Raises Wrong."""
        self._broker.start()
        end, next_check = time.monotonic() + seconds, 0.0
        try:
            while (now := time.monotonic()) < end:
                if now >= next_check:
                    self.check()
                    next_check = now + CHECK_EVERY_S
                with suppress(OSError):
                    self._attack()
                self.conversations += 1
            self.check()
        finally:
            self._broker.stop()
        self.check_log(self._broker.log_path.read_text(errors="replace"))

    # --- hostile bytes

    def _attack(self) -> None:
        rng = self._rng
        name = rng.choice(("SASL_PLAINTEXT", "SASL_SSL", "SASL_SSL"))
        with socket.create_connection(("127.0.0.1", self._ports[name]), timeout=2) as connection:
            connection.settimeout(0.05)
            kind = rng.random()
            if kind < 0.15:
                connection.sendall(rng.randbytes(rng.randrange(1, 3000)))
            elif kind < 0.3:
                connection.sendall(broken(self._client_hello(), rng))
            elif name == "SASL_SSL":
                with self._tls.wrap_socket(connection, server_hostname="localhost") as inside:
                    self._converse(inside)
                return
            else:
                self._converse(connection)
                return
            self._read(connection)

    def _client_hello(self) -> bytes:
        out = ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            self._tls.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
        return out.read()

    def _converse(self, connection: socket.socket) -> None:
        rng = self._rng
        if rng.random() < 0.3:
            self._scram(connection)
            return
        frames = [self._frame() for _ in range(rng.randint(1, 6))]
        if rng.random() < 0.6:
            frames.insert(0, handshake(rng.choice(MECHANISMS), rng.choice((0, 1))))
        for part in [frames] if rng.random() < 0.3 else [[each] for each in frames]:
            connection.sendall(sized(part))
            if not self._read(connection):
                return

    def _frame(self) -> bytes:
        rng = self._rng
        made = rng.choice((
            lambda: frame(*rng.choice(PAIRS), rng=rng),
            lambda: handshake(rng.choice(MECHANISMS), rng.choice((0, 1, 2))),
            lambda: authenticate(plain(rng.choice((HONEST, "", "x" * 300)), rng.choice(("wrong", "", "ä")))),
            lambda: authenticate(rng.randbytes(rng.randrange(200))),
            lambda: request(ApiKey.API_VERSIONS, rng.randrange(-1, 6), b"\0\0\0"),
        ))()  # fmt: skip
        return broken(made, rng) if rng.random() < 0.4 else made

    def _scram(self, connection: socket.socket) -> None:
        rng, mechanism = self._rng, self._rng.choice(MECHANISMS[1:3])
        client = ScramClient(mechanism, rng.choice((HONEST, "nobody")), "wrong", "nonce")
        connection.sendall(sized([handshake(mechanism), authenticate(client.first())]))
        answers = self._read(connection)
        at = answers.find(b"r=nonce")
        if at < 0:
            answers += self._read(connection)
            at = answers.find(b"r=nonce")
        if at < 0:
            return
        size = int.from_bytes(answers[at - 4 : at], "big")
        final = client.final(answers[at : at + size])
        connection.sendall(sized([authenticate(broken(final, rng) if rng.random() < 0.7 else final)]))
        self._read(connection)

    def _read(self, connection: socket.socket) -> bytes:
        try:
            return connection.recv(1 << 16)
        except TimeoutError:
            return b""

    # --- what must hold

    def check(self) -> None:
        """The broker runs, lets the honest in and nobody with a wrong password, and is not too large. Raises Wrong."""
        if not self._broker.is_running:
            raise Wrong("the broker has ended")
        for name in self._ports:
            if not self._logs_in(name, PASSWORD):
                raise Wrong(f"the honest client cannot log in at {name}")
            if self._logs_in(name, "wrong"):
                raise Wrong(f"a wrong password logs in at {name}")
            self.logins += 1
        resident = resident_bytes(self._broker.pid)
        if resident > RESIDENT_BYTES_MAX:
            raise Wrong(f"the broker holds {resident / 1e6:.0f} MB")
        self.check_log(self._broker.log_path.read_text(errors="replace"))

    def _logs_in(self, name: str, password: str) -> bool:
        """Whether a login is answered without an error, and then Metadata at all."""
        with socket.create_connection(("127.0.0.1", self._ports[name]), timeout=30) as connection:
            talk = self._tls.wrap_socket(connection, server_hostname="localhost") if name == "SASL_SSL" else connection
            for each in (handshake("PLAIN"), authenticate(plain(HONEST, password))):
                talk.sendall(sized([each]))
                if not self._answer(talk).startswith(b"\0\0\0\7\0\0"):
                    return False
            talk.sendall(sized([request(ApiKey.METADATA, 1, pack(">i", 0))]))
            return bool(self._answer(talk))

    def _answer(self, connection: socket.socket) -> bytes:
        with connection.makefile("rb") as stream:
            return stream.read(int.from_bytes(stream.read(4), "big"))

    def check_log(self, text: str) -> None:
        """Raises Wrong for a traceback, for a user that nobody has the password of, and for a log that grows with the attacks."""
        if len(text) > LOG_BYTES_MAX:
            raise Wrong(f"the broker's log has {len(text) / 1e6:.0f} MB")
        at = text.find("Traceback")
        if at >= 0:
            raise Wrong(f"the broker's log holds a traceback:\n{text[max(0, at - 500) : at + 3000]}")
        strangers = set(_AUTHENTICATED.findall(text)) - {f"User:{HONEST}"}
        if strangers:
            raise Wrong(f"{sorted(strangers)} got in")


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long."""
    parser.add_argument("--seconds", type=float, default=600, help="how long in all (default: ten minutes)")
    parser.add_argument("--seed", type=seeds_in, metavar="SEEDS", help="1,2,3 or 0-99: a minute each (default: from the time on)")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run seed after seed until the time is up, or until all that were named have run."""
    end = time.monotonic() + options.seconds

    def run_one(seed: int, directory: Path) -> Outcome:
        fuzz = LoginFuzz(seed, directory)
        fuzz.run(min(SECONDS_A_SEED, end - time.monotonic()))
        return Outcome([], f"{fuzz.conversations} conversations, {fuzz.logins} honest logins")

    seeds = options.seed or itertools.count(int(time.time()))
    results.run_seeds(itertools.takewhile(lambda _: time.monotonic() < end, seeds), run_one)
