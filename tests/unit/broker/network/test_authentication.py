"""Connections of secured listeners, byte by byte: TLS over a memory of its own, SASL's order of requests, and attacks before a login.

A connection runs without a socket: `Peer` is the client's end, its TLS included; time is the listener's.
"""

import asyncio
import gc
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from struct import pack, unpack_from
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.composition import Components
from ottla.broker.network.connection import AUTHENTICATION_S, PENDING_MAX, Server
from ottla.broker.network.tls import TlsTransport
from ottla.config import BrokerConfig, ConfigError
from ottla.config.listeners import ListenerConfig
from ottla.log.file_system import MemoryFiles
from ottla.protocol.wire.primitives import Buffer
from ottla.security.scram import ScramClient, plain
from ottla.testing.security.certificates import HOSTS, CertificateAuthority

AUTHORITY = CertificateAuthority()
BROKER = AUTHORITY.issue("CN=broker", hosts=HOSTS)
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": BROKER.key,
    "ssl.keystore.certificate.chain": BROKER.certificate,
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": AUTHORITY.certificate,
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "0",
}


class Wire(asyncio.Transport):
    """A socket without a peer process: what the broker writes is kept."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40_000)})
        self.sent = bytearray()
        self.is_reading = True
        self.closed = ""

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.write(part)

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = self.closed or "aborted"

    def is_closing(self) -> bool:
        return bool(self.closed)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Peer:
    """The client's end of one connection; with `context`, it speaks TLS."""

    def __init__(self, server: Server, context: ssl.SSLContext | None = None) -> None:
        self.wire = Wire()
        self.protocol: Any = server.connection()
        self.connection = self.protocol.connection if isinstance(self.protocol, TlsTransport) else self.protocol
        self.protocol.connection_made(self.wire)
        self.received = b""
        self.tls: ssl.SSLObject | None = None
        if context is not None:
            self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
            for _ in range(4):
                with suppress(ssl.SSLWantReadError):
                    self.tls.do_handshake()
                self.raw(self.outgoing.read())
                self.incoming.write(self.taken())

    def raw(self, data: bytes, piece: int = 1 << 20) -> None:
        """Bytes on the wire, as many at a time as `piece`."""
        for at in range(0, len(data), piece):
            part = memoryview(data)[at : at + piece]
            while part and not self.wire.closed:
                buffer: Buffer = self.protocol.get_buffer(-1)
                count = min(len(buffer), len(part))
                memoryview(buffer)[:count] = part[:count]
                self.protocol.buffer_updated(count)
                part = part[count:]

    def taken(self) -> bytes:
        """What the broker has sent since the last time."""
        data = bytes(self.wire.sent)
        self.wire.sent.clear()
        return data

    def send(self, data: bytes, piece: int = 1 << 20) -> None:
        if self.tls is not None:
            self.tls.write(data)
            data = self.outgoing.read()
        self.raw(data, piece)

    def answers(self) -> list[bytes]:
        """The frames that the broker has sent, without their sizes."""
        data = self.taken()
        if self.tls is not None:
            self.incoming.write(data)
            data = b""
            try:
                while part := self.tls.read(1 << 20):
                    data += part
            except ssl.SSLError:
                pass
        self.received += data
        frames = []
        while len(self.received) >= 4 and len(self.received) >= 4 + unpack_from(">i", self.received)[0]:
            (size,) = unpack_from(">i", self.received)
            frames.append(self.received[4 : 4 + size])
            self.received = self.received[4 + size :]
        return frames

    def ask(self, data: bytes) -> bytes | None:
        self.send(data)
        return next(iter(self.answers()), None)


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def request(key: int, version: int, body: bytes = b"") -> bytes:
    return frame(pack(">hhih", key, version, 7, -1) + body)


def handshake(mechanism: str, version: int = 1) -> bytes:
    return request(17, version, pack(">h", len(mechanism)) + mechanism.encode())


def authenticate(token: bytes) -> bytes:
    return request(36, 1, pack(">i", len(token)) + token)


def error(answer: bytes | None) -> int:
    assert answer is not None
    return int(unpack_from(">h", answer, 4)[0])


VERSIONS = request(18, 0)
EMPTY_HEARTBEAT = pack(">hih", 0, 0, 0)
METADATA = request(3, 1, pack(">i", 0))


def listener(name: str) -> ListenerConfig:
    return ListenerConfig(name, "127.0.0.1", 0, None, name)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()


def servers(**settings: str) -> dict[str, Server]:
    config = BrokerConfig({**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}})
    cluster = Components(MemoryFiles(), config)
    cluster.open()
    return cluster.servers(cluster.brokers.nodes[1], [listener(name) for name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL", "PLAINTEXT")])


@pytest.fixture(scope="module")
def running(loop: asyncio.AbstractEventLoop) -> Callable[..., Any]:
    """Calls a function in the loop, and lets the loop go on until nothing is due."""

    def run(call: Callable[[], Any]) -> Any:
        async def within() -> Any:
            result = call()
            for _ in range(4):
                await asyncio.sleep(0)
            return result

        return loop.run_until_complete(within())

    return run


@pytest.fixture(scope="module")
def made(loop: asyncio.AbstractEventLoop) -> dict[str, Server]:
    async def make() -> dict[str, Server]:
        return servers()

    return loop.run_until_complete(make())


@pytest.fixture
def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=AUTHORITY.certificate)


class TestSasl:
    def test_a_login_and_what_follows(self, running: Any, made: dict[str, Server]) -> None:
        def talk() -> list[int]:
            peer = Peer(made["SASL_PLAINTEXT"])
            codes = [error(peer.ask(each)) for each in (VERSIONS, handshake("PLAIN"), authenticate(plain("alice", "secret")))]
            assert peer.ask(METADATA) is not None
            assert str(peer.connection.session.principal) == "User:alice"
            return codes

        assert running(talk) == [0, 0, 0]

    def test_a_login_over_tls_in_pieces_of_odd_sizes(self, running: Any, made: dict[str, Server], trusting: ssl.SSLContext) -> None:
        def talk() -> None:
            peer = Peer(made["SASL_SSL"], trusting)
            for each in (VERSIONS, handshake("PLAIN"), authenticate(plain("alice", "secret")), METADATA):
                peer.send(each, piece=7)
                assert len(peer.answers()) == 1
            assert str(peer.connection.session.principal) == "User:alice"

        running(talk)

    @pytest.mark.parametrize(
        "before",
        [
            [METADATA],
            [VERSIONS, METADATA],
            [VERSIONS, VERSIONS],
            [handshake("PLAIN"), request(3, 1, pack(">i", 5_000) + (b"\0\x01t" * 5_000))],
            [handshake("PLAIN"), request(30, 1, pack(">i", 0))],
            [handshake("PLAIN"), request(3, 1, pack(">i", 2))],
            [handshake("PLAIN"), request(0, 3, pack(">hhii", -1, 0, 1_000, 0))],
            [handshake("PLAIN"), request(99, 0)],
            [handshake("PLAIN", 0), METADATA],
            [authenticate(plain("alice", "secret"))],
            [frame(b"`\x82\x01garbage")],
            [frame(b"\0")],
            [b"GET / HTTP/1.1\r\n\r\n"],
            [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
            [pack(">i", 524_289)],
            [pack(">i", -1)],
        ],
    )
    def test_what_closes_a_connection_that_is_not_authenticated(self, running: Any, made: dict[str, Server], before: list[bytes]) -> None:
        def talk() -> Peer:
            peer = Peer(made["SASL_PLAINTEXT"])
            for each in before:
                peer.send(each)
            return peer

        peer = running(talk)
        assert peer.wire.closed
        assert len(peer.answers()) == len(before) - 1
        assert str(peer.connection.session.principal) == "User:ANONYMOUS"

    def test_requests_that_are_sent_together_with_the_login(self, running: Any, made: dict[str, Server]) -> None:
        """Each is judged in the state that those before it have led to."""

        def talk(*frames: bytes) -> tuple[int, bool]:
            peer = Peer(made["SASL_PLAINTEXT"])
            peer.send(b"".join(frames))
            return len(peer.answers()), bool(peer.wire.closed)

        login = authenticate(plain("alice", "secret"))
        assert running(lambda: talk(handshake("PLAIN"), login, METADATA)) == (3, False)
        peer = running(lambda: (peer := Peer(made["SASL_PLAINTEXT"]), peer.send(handshake("PLAIN") + METADATA + login))[0])
        assert (len(peer.answers()), bool(peer.wire.closed)) == (2, True)

    @pytest.mark.parametrize(
        ("other", "where"),
        [
            (VERSIONS, 4),
            (request(18, 99), 4),
            (handshake("PLAIN"), 4),
            (request(3, 1, pack(">ih", 1, 1) + b"t"), 16),
            (request(12, 0, EMPTY_HEARTBEAT), 4),
        ],
    )
    def test_another_request_in_the_middle_of_an_exchange(
        self, running: Any, made: dict[str, Server], other: bytes, where: int, caplog: Any
    ) -> None:
        """As SaslServerAuthenticator.handleSaslToken: it is answered, and the connection is closed."""

        def talk() -> Peer:
            peer = Peer(made["SASL_PLAINTEXT"])
            assert error(peer.ask(handshake("SCRAM-SHA-256"))) == 0
            first = ScramClient("SCRAM-SHA-256", "alice", "x", "nonce").first()
            assert error(peer.ask(authenticate(first))) == 0
            peer.send(other + VERSIONS)
            return peer

        peer = running(talk)
        (answer,) = peer.answers()
        assert unpack_from(">h", answer, where)[0] == 34
        assert peer.wire.closed
        assert "during SASL authentication" in caplog.text

    def test_a_wrong_password_is_answered_and_closed(self, running: Any, made: dict[str, Server], caplog: Any) -> None:
        def talk() -> Peer:
            peer = Peer(made["SASL_PLAINTEXT"])
            peer.send(handshake("PLAIN") + authenticate(plain("alice", "geheim")) + METADATA)
            return peer

        peer = running(talk)
        _, refused = peer.answers()
        assert error(refused) == 58
        assert b"Authentication failed: Invalid username or password" in refused
        assert peer.wire.closed
        assert "Failed authentication from /127.0.0.1 (PLAIN): the password of user 'alice' is wrong" in caplog.text
        assert "geheim" not in caplog.text

    def test_an_unknown_mechanism_is_answered_with_those_that_there_are(self, running: Any, made: dict[str, Server]) -> None:
        peer = running(lambda: (peer := Peer(made["SASL_PLAINTEXT"]), peer.send(handshake("GSSAPI")))[0])
        (answer,) = peer.answers()
        assert error(answer) == 33
        assert b"PLAIN" in answer
        assert b"SCRAM-SHA-256" in answer
        assert peer.wire.closed

    def test_tokens_without_a_header_after_handshake_v0(self, running: Any, made: dict[str, Server]) -> None:
        def talk() -> Peer:
            peer = Peer(made["SASL_PLAINTEXT"])
            assert error(peer.ask(handshake("PLAIN", 0))) == 0
            assert peer.ask(frame(plain("alice", "secret"))) == b""
            assert peer.ask(METADATA) is not None
            return peer

        assert not running(talk).wire.closed

        def fail() -> Peer:
            peer = Peer(made["SASL_PLAINTEXT"])
            peer.send(handshake("PLAIN", 0) + frame(plain("alice", "wrong")))
            return peer

        peer = running(fail)
        assert peer.wire.closed
        assert len(peer.answers()) == 1, "a failure has no answer"

    def test_a_stranger_of_scram(self, running: Any, made: dict[str, Server]) -> None:
        def talk() -> Peer:
            peer = Peer(made["SASL_PLAINTEXT"])
            client = ScramClient("SCRAM-SHA-256", "nobody", "x", "nonce")
            peer.ask(handshake("SCRAM-SHA-256"))
            first = peer.ask(authenticate(client.first()))
            assert first is not None
            size = unpack_from(">i", first, 8)[0]
            peer.send(authenticate(client.final(first[12 : 12 + size])))
            return peer

        peer = running(talk)
        (answer,) = peer.answers()
        assert error(answer) == 58
        assert b"invalid credentials with SASL mechanism SCRAM-SHA-256" in answer

    def test_a_user_that_does_not_exist_has_one_salt_on_all_listeners(
        self, running: Any, made: dict[str, Server], trusting: ssl.SSLContext
    ) -> None:
        """As one that exists has: a stranger could compare them."""

        def salt(peer: Peer) -> bytes:
            peer.ask(handshake("SCRAM-SHA-256"))
            first = peer.ask(authenticate(ScramClient("SCRAM-SHA-256", "nobody", "x", "nonce").first()))
            assert first is not None
            return first[12:].split(b",")[1]

        assert running(lambda: salt(Peer(made["SASL_SSL"], trusting)) == salt(Peer(made["SASL_PLAINTEXT"])))

    def test_the_answer_to_a_failure_is_held_back(self, loop: asyncio.AbstractEventLoop) -> None:
        async def talk() -> None:
            server = servers(connection_failed_authentication_delay_ms="30")["SASL_PLAINTEXT"]
            peer, leaves = Peer(server), Peer(server)
            for each in (peer, leaves):
                each.send(handshake("PLAIN") + authenticate(plain("alice", "wrong")))
                assert len(each.answers()) == 1
                assert not each.wire.is_reading
                each.connection.wait_for_memory(False)
                assert not each.wire.is_reading
            leaves.protocol.connection_lost(None)
            while not peer.wire.closed:
                await asyncio.sleep(0.005)
            assert error(peer.answers()[0]) == 58
            assert not leaves.wire.closed, "nothing is left to be done for a peer that is gone"

        loop.run_until_complete(talk())

    def test_sessions_end_and_are_renewed(self, loop: asyncio.AbstractEventLoop) -> None:
        async def talk() -> None:
            now_ms = [0]
            config = BrokerConfig({**SETTINGS, "connections.max.reauth.ms": "10000"})
            cluster = Components(MemoryFiles(), config, timer_clock=lambda: now_ms[0])
            cluster.open()
            server = cluster.servers(cluster.brokers.nodes[1], [listener("SASL_PLAINTEXT")])["SASL_PLAINTEXT"]
            login = [handshake("PLAIN"), authenticate(plain("alice", "secret"))]
            peer, idle = Peer(server), Peer(server)
            for each in (peer, idle):
                each.ask(login[0])
                answer = each.ask(login[1])
                assert answer is not None
                assert unpack_from(">q", answer, len(answer) - 8)[0] == 10_000
            now_ms[0] = 9_000
            assert [error(peer.ask(each)) for each in login] == [0, 0]
            now_ms[0] = 10_000
            assert peer.ask(METADATA) is not None
            assert idle.ask(METADATA) is None
            assert idle.wire.closed

        loop.run_until_complete(talk())

    def test_sasl_where_there_is_none(self, running: Any, made: dict[str, Server]) -> None:
        def talk() -> list[int]:
            peer = Peer(made["PLAINTEXT"])
            return [error(peer.ask(handshake("PLAIN"))), error(peer.ask(authenticate(b"x")))]

        assert running(talk) == [34, 34]


class TestTls:
    def test_large_requests_and_answers(self, made: dict[str, Server], trusting: ssl.SSLContext, loop: asyncio.AbstractEventLoop) -> None:
        """Requests of more than one record of TLS, many of them in one read, and frames that arrive in pieces."""
        large = frame(pack(">hhih", 18, 0, 7, 32_000) + b"c" * 32_000)

        async def talk() -> None:
            peer = Peer(made["SSL"], trusting)
            peer.send(VERSIONS * 100 + large * 5, piece=5_000)
            answers = peer.answers()
            async with asyncio.timeout(30):
                while len(answers) < 105:  # requests that arrive together share the iterations of the loop
                    await asyncio.sleep(0)
                    answers += peer.answers()
            assert len(set(answers)) == 1

        loop.run_until_complete(talk())

    def test_memory_of_a_claimed_size_is_not_taken(self, running: Any, made: dict[str, Server], trusting: ssl.SSLContext) -> None:
        def talk() -> None:
            peer = Peer(made["SSL"], trusting)
            peer.send(pack(">i", 100_000_000) + b"x" * 100)
            assert made["SSL"].request_memory.held < 1000
            peer.protocol.connection_lost(None)
            assert made["SSL"].request_memory.held == 0

        running(talk)

    def test_a_connection_that_is_not_read_decrypts_nothing(self, running: Any, made: dict[str, Server], trusting: ssl.SSLContext) -> None:
        def pause() -> Peer:
            peer = Peer(made["SSL"], trusting)
            peer.connection.wait_for_memory(True)
            assert not peer.wire.is_reading
            peer.send(VERSIONS)
            assert not peer.answers()
            peer.connection.wait_for_memory(False)
            return peer

        assert len(running(pause).answers()) == 1

    @pytest.mark.parametrize(
        ("garbage", "words"),
        [
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "it speaks HTTP"),
            (VERSIONS + b"\0" * 20, "it does not speak TLS"),
            (b"\x16\x03\x01\xff\xff" + b"x" * 200, "TLS handshake failed"),
        ],
    )
    def test_another_protocol(self, running: Any, garbage: bytes, words: str, caplog: Any, loop: asyncio.AbstractEventLoop) -> None:
        def talk() -> Peer:
            peer = Peer(servers()["SSL"])
            peer.raw(garbage)
            return peer

        assert running(talk).wire.closed
        assert words in caplog.text

    def test_bytes_that_were_changed_on_the_way(self, running: Any, made: dict[str, Server], trusting: ssl.SSLContext) -> None:
        def talk() -> Peer:
            peer = Peer(made["SSL"], trusting)
            assert peer.tls is not None
            peer.tls.write(VERSIONS)
            data = bytearray(peer.outgoing.read())
            data[-1] ^= 1
            peer.raw(bytes(data))
            return peer

        peer = running(talk)
        assert peer.wire.closed
        assert not peer.answers()

    def test_the_peer_says_that_it_ends(self, running: Any, made: dict[str, Server], trusting: ssl.SSLContext) -> None:
        def talk() -> Peer:
            peer = Peer(made["SSL"], trusting)
            assert peer.tls is not None
            with pytest.raises(ssl.SSLError):
                peer.tls.unwrap()
            peer.raw(peer.outgoing.read())
            return peer

        assert running(talk).wire.closed == "closed"

    def test_half_open_peers_are_closed_in_time_and_bounded(self, running: Any, loop: asyncio.AbstractEventLoop, caplog: Any) -> None:
        def fill() -> None:
            server = servers()["SSL"]
            early = Peer(server)
            server.now_s = AUTHENTICATION_S - 1
            rest = [Peer(server) for _ in range(PENDING_MAX - 1)]
            assert not any(peer.wire.closed for peer in [early, *rest])
            server.now_s = AUTHENTICATION_S + 0.5
            server.close_pending()
            assert early.wire.closed
            assert not any(peer.wire.closed for peer in rest)
            Peer(server), Peer(server)
            assert [peer.wire.closed for peer in rest[:2]] == ["aborted", ""], "the oldest makes room"
            assert len(caplog.records) < 110

        running(fill)

    def test_a_connection_that_is_closed_is_freed_at_once(self, running: Any, made: dict[str, Server], trusting: ssl.SSLContext) -> None:
        """Without the garbage collector, which a broker has run rarely: strangers may open and close thousands of them."""

        def count() -> int:
            return sum(type(each) is TlsTransport for each in gc.get_objects())  # isinstance would evaluate lazy objects of other libraries

        def talk() -> None:
            before = count()
            for name in ("SSL", "SASL_SSL"):
                peer = Peer(made[name], trusting)
                peer.protocol.connection_lost(None)
            del peer
            assert count() == before

        gc.collect()
        gc.disable()
        try:
            running(talk)
        finally:
            gc.enable()

    @given(st.lists(st.binary(max_size=80), max_size=6), st.sampled_from(["SSL", "SASL_PLAINTEXT", "SASL_SSL"]), st.booleans())
    def test_any_bytes_of_strangers_are_answered_or_close_their_connection(
        self, running: Any, made: dict[str, Server], pieces: list[bytes], name: str, is_framed: bool
    ) -> None:
        """No exception leaves the protocol, and none of them is authenticated. Frames reach further than bytes without a size."""

        def talk() -> None:
            peer = Peer(made[name])
            for piece in pieces:
                peer.raw(frame(piece) if is_framed else piece)
            assert str(peer.connection.session.principal) == "User:ANONYMOUS"
            peer.protocol.connection_lost(None)
            assert made[name].request_memory.held == 0

        running(talk)

    def test_who_is_authenticated_is_not_pending(self, running: Any, trusting: ssl.SSLContext, loop: asyncio.AbstractEventLoop) -> None:
        def talk() -> None:
            made = servers()
            over_tls, login = Peer(made["SSL"], trusting), Peer(made["SASL_SSL"], trusting)
            slow = Peer(made["SASL_SSL"], trusting)
            for each in (handshake("PLAIN"), authenticate(plain("alice", "secret"))):
                login.ask(each)
            for name in ("SSL", "SASL_SSL"):
                made[name].now_s = AUTHENTICATION_S + 1
                made[name].close_pending()
            assert [bool(peer.wire.closed) for peer in (over_tls, login, slow)] == [False, False, True]

        running(talk)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl_keystore_type": "JKS"}, "JKS is not supported"),
        ({"ssl_keystore_key": ""}, "give either ssl.keystore.location, or ssl.keystore.key"),
        ({"ssl_keystore_key": "x"}, "no certificate with its key can be read"),
        ({"ssl_keystore_password": "x"}, "a PEM key store has none"),
        ({"ssl_truststore_certificates": "x"}, "ssl.truststore.certificates: no certificates can be read"),
        ({"ssl_truststore_certificates": "", "ssl_client_auth": "required"}, "required needs ssl.truststore.location"),
        ({"ssl_principal_mapping_rules": "RULE"}, "Invalid rule"),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "GSSAPI is not served; write some of PLAIN"),
        ({"sasl_enabled_mechanisms": "OAUTHBEARER"}, "OAUTHBEARER needs the keys that sign tokens"),
        ({"listener_name_sasl_ssl_plain_sasl_jaas_config": "x"}, "listener.name.sasl_ssl.plain.sasl.jaas.config: it must read"),
    ],
)
def test_settings_that_let_nobody_in_or_everybody(settings: dict[str, str], words: str, loop: asyncio.AbstractEventLoop) -> None:
    settings = {name.replace("sasl_ssl", "sasl-ssl"): value for name, value in settings.items()}
    config = {name.replace("_", ".").replace("sasl-ssl", "sasl_ssl"): value for name, value in settings.items()}
    cluster = Components(MemoryFiles(), BrokerConfig({**SETTINGS, **config}))
    cluster.open()
    with pytest.raises(ConfigError) as problem:
        cluster.servers(cluster.brokers.nodes[1], [listener("SSL"), listener("SASL_SSL")])
    assert words in str(problem.value)
    assert "PRIVATE" not in str(problem.value)
