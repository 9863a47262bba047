"""What security costs, beside Apache Kafka: records over TLS, handshakes, logins with SCRAM, and Produce with ten thousand ACLs.

Each broker runs alone, with listeners PLAINTEXT, SSL and SASL_PLAINTEXT, and a certificate of a P-256 key. Records go through
confluent-kafka (written with acks=all, then read back). Handshakes and logins are made by four threads of the driver, in each one after the
other on new connections; the driver does a client's half of the work, except that it salts its password once. ACLs: the same producer logs
in on a broker with an authorizer, ten thousand ACLs of others, and one that lets it write, and on one without an authorizer, in turn.
"""

import hashlib
import hmac
import secrets
import socket
import ssl
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from peers import APACHE_KAFKA, CACHE, OTTLA, QUIET, arguments, make_topic
from report import Metric, Report, at_least, at_least_kafkas
from throughput import Cell, consume_seconds, produce_seconds, values_of

from ottla.cli.processes import OttlaProcess, ToolMissing
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.sasl_server import scram_keys
from ottla.testing.raw_client import RawClient
from ottla.testing.security.certificates import CertificateAuthority
from ottla.testing.waiting import wait_until
from tests.support.processes import free_ports
from tests.support.reference.apache_kafka import ApacheKafka

LISTENERS = {"SSL": "SSL", "SASL": "SASL_PLAINTEXT"}
MECHANISM = "SCRAM-SHA-256"
USER, PASSWORD = "alice", "alice-secret"
THREADS = 4
ACLS = 10_000
WITH_ACLS = Metric(f"produce with {ACLS:,} ACLs, 100 B", "of without", ">= 0.97", at_least(0.97))
ACLS_AT_ONCE = 500
PAIRS = 3


class Peer(NamedTuple):
    """A running broker, and the settings of clients for its listeners."""

    kind: str
    bootstrap_servers: str
    addresses: dict[str, str]
    ca: str

    def settings(self, listener: str) -> dict[str, str]:
        """confluent-kafka's."""
        found = {"bootstrap.servers": self.addresses[listener], "security.protocol": LISTENERS[listener]}
        if listener == "SSL":
            return found | {"ssl.ca.pem": self.ca}
        return found | {"sasl.mechanism": MECHANISM, "sasl.username": USER, "sasl.password": PASSWORD}


@contextmanager
def running(kind: str, *, has_acls: bool) -> Iterator[Peer]:
    """A broker with its listeners, alone; it knows the user."""
    authority = CertificateAuthority()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch:
        directory = Path(scratch)
        key = authority.issue("CN=broker", hosts=("127.0.0.1",)).write(directory / "broker.pem")
        config = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key),
            "sasl.enabled.mechanisms": MECHANISM,
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        }
        if has_acls:
            config |= {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
        if kind == OTTLA:
            names = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}
            addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
            listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
            protocols = ",".join(f"{name}:{protocol}" for name, protocol in names.items())
            config |= {"listeners": listeners, "listener.security.protocol.map": protocols}
            broker: Any = OttlaProcess(directory / "data", config=config)
        else:
            broker = ApacheKafka(directory / "kafka", cache_dir=CACHE, config=config, more_listeners=LISTENERS)
        with broker:
            peer = Peer(kind, broker.bootstrap_servers, addresses if kind == OTTLA else broker.addresses, authority.certificate)
            credential = UserScramCredentialUpsertion(USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096), PASSWORD.encode())
            admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers, **QUIET})
            for future in admin.alter_user_scram_credentials([credential]).values():
                future.result(30)
            yield peer


def per_second(work: Callable[[], None], seconds: float) -> float:
    """How often a second the threads do it, one after the other in each."""
    end = time.perf_counter() + seconds

    def repeat(_: int) -> int:
        done = 0
        while time.perf_counter() < end:
            work()
            done += 1
        return done

    begin = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        done = sum(pool.map(repeat, range(THREADS)))
    return done / (time.perf_counter() - begin)


def handshakes(peer: Peer, version: ssl.TLSVersion) -> Callable[[], None]:
    context = ssl.create_default_context(cadata=peer.ca)
    context.minimum_version = context.maximum_version = version
    host, _, port = peer.addresses["SSL"].partition(":")

    def connect() -> None:
        with socket.create_connection((host, int(port)), timeout=30) as plain, context.wrap_socket(plain, server_hostname=host):
            """Nothing is said."""

    return connect


@cache
def salted(salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, iterations)


def login(peer: Peer) -> None:
    """SaslHandshake and both messages of SCRAM on a new connection."""
    with RawClient(peer.addresses["SASL"], timeout_seconds=30) as client:
        client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=MECHANISM)
        bare = f"n={USER},r={secrets.token_urlsafe(18)}".encode()
        first = bytes(client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"n,," + bare).auth_bytes)
        fields = dict(part.split(b"=", 1) for part in first.split(b","))
        password = salted(b64decode(fields[b"s"]), int(fields[b"i"]))
        without_proof = b"c=biws,r=" + fields[b"r"]
        stored_key, _ = scram_keys(MECHANISM, password)
        signature = hmac.digest(stored_key, b",".join((bare, first, without_proof)), "sha256")
        proof = bytes(a ^ b for a, b in zip(hmac.digest(password, b"Client Key", "sha256"), signature, strict=True))
        answer = client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=without_proof + b",p=" + b64encode(proof))
        assert answer.error_code == 0, answer


def add_acls(peer: Peer, topic: str, count: int) -> None:
    """ACLs of others on topics of theirs, by name and by prefix, and one of the user on its topic."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers, **QUIET})
    kinds = (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    allow = AclPermissionType.ALLOW
    bindings = [
        AclBinding(ResourceType.TOPIC, f"team-{number % 50}-{number}", kinds[number % 2], f"User:u{number}", "*", AclOperation.WRITE, allow)
        for number in range(count - 1)
    ]
    own = AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.WRITE, allow)
    bindings.append(own)
    for begin in range(0, count, ACLS_AT_ONCE):
        for future in admin.create_acls(bindings[begin : begin + ACLS_AT_ONCE]).values():
            future.result(60)
    user = AdminClient({**peer.settings("SASL"), **QUIET})
    wait_until(lambda: topic in user.list_topics(timeout=10).topics, lambda: f"{topic} is shown to its user", seconds=30)


def measure_tls(report: Report, peer: Peer, *, is_small: bool) -> None:
    for size, count in ((100, 300_000), (1_000, 100_000)):
        cell = Cell(size, count // 50 if is_small else count, "none", 3)
        values = values_of(size)
        produced = Metric(f"produce over TLS, {size:,} B", "MB/s", ">= Apache Kafka", at_least_kafkas)
        consumed = Metric(f"consume over TLS, {size:,} B", "MB/s", ">= Apache Kafka", at_least_kafkas)
        topic = f"tls-{size}-{secrets.token_hex(4)}"
        make_topic(peer, topic, cell.partitions)
        report.add(produced, peer.kind, cell.megabytes / produce_seconds(peer, topic, cell, values, **peer.settings("SSL")))
        report.add(consumed, peer.kind, cell.megabytes / consume_seconds(peer, topic, cell, **peer.settings("SSL")))


def measure_logins(report: Report, peer: Peer, seconds: float) -> None:
    for version, name in ((ssl.TLSVersion.TLSv1_3, "TLS 1.3"), (ssl.TLSVersion.TLSv1_2, "TLS 1.2")):
        connect = handshakes(peer, version)
        per_second(connect, seconds / 4)
        report.add(Metric(f"handshakes, {name}", "a second", ">= Apache Kafka", at_least_kafkas), peer.kind, per_second(connect, seconds))
    per_second(lambda: login(peer), seconds / 4)
    logins = Metric(f"logins, {MECHANISM}", "a second", ">= Apache Kafka", at_least_kafkas)
    report.add(logins, peer.kind, per_second(lambda: login(peer), seconds))


def measure_acls(report: Report, kind: str, *, is_small: bool) -> None:
    """The best of several runs in turn, since what else the machine does slows single ones down."""
    cell = Cell(100, 6_000 if is_small else 300_000, "none", 3)
    values, topic = values_of(cell.size), "guarded"
    with running(kind, has_acls=True) as guarded, running(kind, has_acls=False) as free:
        peers = (guarded, free)
        for peer in peers:
            make_topic(peer, topic, cell.partitions)
        add_acls(guarded, topic, 100 if is_small else ACLS)
        runs = 1 if is_small else PAIRS
        took = [[produce_seconds(peer, topic, cell, values, **peer.settings("SASL")) for peer in peers] for _ in range(runs)]
    best = [min(found) for found in zip(*took, strict=True)]
    report.add(WITH_ACLS, kind, best[1] / best[0])


def main() -> None:
    wanted = arguments(__doc__)
    report = Report("Security")
    for _ in range(wanted.rounds):
        for kind in (OTTLA, APACHE_KAFKA):
            if kind not in wanted.peers:
                continue
            try:
                with running(kind, has_acls=False) as peer:
                    measure_tls(report, peer, is_small=wanted.small)
                    measure_logins(report, peer, 0.2 if wanted.small else 4)
                measure_acls(report, kind, is_small=wanted.small)
            except ToolMissing as missing:
                print(f"{kind}: left out, {missing}")
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
