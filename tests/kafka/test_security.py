"""TLS and SASL with Apache Kafka itself: who is let in, who is not, and what is said then."""

import asyncio
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from confluent_kafka.admin import NewTopic, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

import ottla
from ottla.cli.clusters import client_settings
from ottla.cli.processes import QUICK_START_OPTIONS, ToolMissing, find_java_home
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import LATEST
from ottla.client.async_consumer.errors import AuthenticationFailedError
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import AuthenticationError, BrokerUnavailableError
from ottla.client.fetch.fetch_values import FetchRange
from ottla.client.fetch.fetcher import Fetcher
from ottla.client.security.properties import to_librdkafka
from ottla.client.security.tokens import UnsecuredTokens
from ottla.client.settings import ClientSettings, parse_client_settings
from ottla.columnar import RecordBatchDecoder
from ottla.protocol.model import TopicPartition
from ottla.testing.waiting import wait_until
from tests.support.reference.class_archives import archive_options, spark_archive

pytestmark = [pytest.mark.kafka]

CHECKOUT = Path(__file__).parents[2]
USER, PASSWORD = "alice", 'it"s, =secret'
QUOTED = PASSWORD.replace('"', r"\"")
TOPIC = "guarded"
REAUTHENTICATE_MS = 1_000
LISTENERS = {"SASLSSL": "SASL_SSL", "SASLPLAIN": "SASL_PLAINTEXT", "MUTUAL": "SSL"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_certificates(directory: Path) -> None:
    """ca.crt, other.crt (an authority that signed nothing); server.pem, client.pem: key and certificate, signed by ca."""
    for name in ("ca", "other"):
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.crt")),
        )
    for name in ("server", "client"):
        key, request, certificate = (directory / f"{name}.{suffix}" for suffix in ("key", "csr", "crt"))
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        names = directory / "names"
        names.write_text("subjectAltName=IP:127.0.0.1")
        openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(directory / "ca.crt"), "-CAkey", str(directory / "ca.key")),
            *("-CAcreateserial", "-days", "2", "-extfile", str(names), "-out", str(certificate)),
        )
        (directory / f"{name}.pem").write_text(key.read_text() + certificate.read_text())


class Guarded:
    """An Apache Kafka with guarded listeners, a user, and ten records in one topic."""

    def __init__(self, kafka: Any, certificates: Path) -> None:
        self.kafka = kafka
        self.certificates = certificates
        self.admin = ConfluentAdmin({"bootstrap.servers": kafka.bootstrap_servers})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):  # Kafka takes one of a user at a time
            credential = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4_096), PASSWORD.encode(), b"salt")
            for future in self.admin.alter_user_scram_credentials([credential]).values():
                future.result(30)
        self.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)

    def properties(self, listener: str = "SASLSSL", mechanism: str = "PLAIN", password: str = QUOTED) -> dict[str, str]:
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        found = {"bootstrap.servers": self.kafka.addresses[listener], "security.protocol": LISTENERS[listener]}
        if listener.startswith("SASL"):
            found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";'}
        if LISTENERS[listener].endswith("SSL"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.certificates / "ca.crt")}
        return found


@pytest.fixture(scope="module")
def guarded(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    certificates = tmp_path_factory.mktemp("certificates")
    make_certificates(certificates)
    secret = f'{PLAIN_MODULE} required username="x" password="x" user_{USER}="{QUOTED}";'.replace("\\", "\\\\")
    config = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.crt"),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.saslplain.plain.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
        "connection.failed.authentication.delay.ms": "10",
        "group.initial.rebalance.delay.ms": "0",
    }
    for listener in ("saslssl", "saslplain"):
        config[f"listener.name.{listener}.plain.sasl.jaas.config"] = secret
        config[f"listener.name.{listener}.oauthbearer.sasl.jaas.config"] = f"{OAUTH_MODULE} required;"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            config[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    yield Guarded(reference.own(config, listeners=LISTENERS), certificates)
    reference.end_own()


def ask(properties: Mapping[str, str], timeout_ms: int = 15_000) -> set[str]:
    """The names of the topics that the client sees."""
    with AdminClient(parse_client_settings(properties), timeout_ms=timeout_ms) as admin:
        return set(admin.list_topics())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_writes_by_librdkafka_and_reads_by_our_own_client(guarded: Guarded, mechanism: str) -> None:
    settings = parse_client_settings(guarded.properties(mechanism=mechanism))
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers} | to_librdkafka(settings.security))
    producer.produce(TOPIC, mechanism.encode(), partition=0)
    assert producer.flush(30) == 0
    zero = TopicPartition(TOPIC, 0)
    with AdminClient(settings) as admin:
        (described,) = admin.describe_topics([TOPIC]).values()
        end = admin.offsets_for_times({zero: -1})[zero].offset
    with Fetcher(settings) as fetcher:
        fetched = list(fetcher.read([FetchRange(zero, 0, end, described.topic_id)]))  # type: ignore[union-attr]
    decoder = RecordBatchDecoder(*zero, columns=("value",), rows_max=100)
    batches = [batch for each in fetched for batch in decoder.decode(each.records, offset_start=0, offset_end=end)]
    assert batches[-1].column("value").to_pylist()[-1] == mechanism.encode()


def test_a_session_that_ends_is_restarted(guarded: Guarded) -> None:
    settings = parse_client_settings(guarded.properties("SASLPLAIN"))
    with AdminClient(settings) as admin:
        assert TOPIC in admin.list_topics()
        first = set(admin._brokers._connections.values())

        def is_another() -> bool:
            assert TOPIC in admin.list_topics()
            return not first & set(admin._brokers._connections.values())

        wait_until(is_another, "another connection")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_reported_at_once(guarded: Guarded, mechanism: str) -> None:
    with pytest.raises(AuthenticationError, match=rf"refused user alice \({mechanism}\): Authentication failed"):
        ask(guarded.properties(mechanism=mechanism, password="wrong"))
    settings = parse_client_settings(guarded.properties(mechanism=mechanism, password="wrong"))
    with Fetcher(settings) as fetcher, pytest.raises(AuthenticationError, match="refused user alice"):
        list(fetcher.read([FetchRange(TopicPartition(TOPIC, 0), 0, 1)]))


def consumer(guarded: Guarded, group: str, listener: str, mechanism: str, password: str = PASSWORD, **more: Any) -> ottla.Consumer:
    """A consumer with librdkafka's properties."""
    config = {
        "bootstrap.servers": guarded.kafka.addresses[listener],
        "security.protocol": LISTENERS[listener].lower(),
        "sasl.mechanisms": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
        "ssl.ca.location": str(guarded.certificates / "ca.crt"),
        "group.id": group,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 100,
    }
    return ottla.Consumer(config | more)


def next_value(reading: ottla.Consumer) -> bytes | None:
    message = reading.poll(20)
    assert message is not None
    assert message.error() is None
    return message.value()


def test_a_consumer_of_a_guarded_broker(guarded: Guarded) -> None:
    producer = Producer({"bootstrap.servers": guarded.kafka.bootstrap_servers, "linger.ms": 0})
    guarded.admin.create_topics([NewTopic("read", 1, 1)])["read"].result(30)
    # More than a TLS record, and than a socket takes at once.
    large = bytes(900_000)
    producer.produce("read", large)
    producer.flush(30)
    with consumer(guarded, "encrypted", "SASLSSL", "SCRAM-SHA-512") as reading:
        reading.subscribe(["read"])
        assert next_value(reading) == large
        reading.commit(asynchronous=False)
    with consumer(guarded, "restarted", "SASLPLAIN", "PLAIN") as reading:
        reading.subscribe(["read"])
        assert next_value(reading) == large
        member = reading.consumer_group_metadata()
        assert reading.poll(2.2 * REAUTHENTICATE_MS / 1000) is None
        producer.produce("read", b"later")
        producer.flush(30)
        assert next_value(reading) == b"later"
        assert reading.consumer_group_metadata() == member, "sessions that end are restarted without a rebalance"
    with consumer(guarded, "refused", "SASLSSL", "PLAIN", "wrong") as reading:
        reading.subscribe(["read"])
        with pytest.raises(ottla.KafkaException) as refused:
            next_value(reading)
    assert refused.value.args[0].code() == ottla.KafkaError._AUTHENTICATION
    errors: list[ottla.KafkaError] = []
    with consumer(guarded, "another password", "SASLSSL", "PLAIN", "wrong", error_cb=errors.append) as reading:
        reading.subscribe(["read"])
        wait_until(lambda: errors, "error_cb is called", lambda: reading.poll(0.1))
        assert errors[0] == ottla.KafkaError._AUTHENTICATION
        reading.set_sasl_credentials(USER, PASSWORD)
        assert next_value(reading) == large


def test_a_consumer_in_an_event_loop(guarded: Guarded) -> None:
    context = ssl.create_default_context(cafile=str(guarded.certificates / "ca.crt"))
    user = {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    producer = Producer({"bootstrap.servers": guarded.kafka.bootstrap_servers, "linger.ms": 0})
    guarded.admin.create_topics([NewTopic("loop", 1, 1)])["loop"].result(30)
    # More than a TLS record, and than a socket takes at once.
    large = bytes(900_000)
    producer.produce("loop", large)
    producer.flush(30)

    async def read(listener: str, group: str | None, **more: Any) -> bytes | None:
        more |= {"bootstrap_servers": guarded.kafka.addresses[listener], "security_protocol": LISTENERS[listener]}
        async with ottla.AsyncConsumer("loop", group_id=group, auto_offset_reset="earliest", ssl_context=context, **more) as consumer:
            value = (await asyncio.wait_for(consumer.getone(), 30)).value
            assert await consumer.end_offsets(consumer.assignment()) == dict.fromkeys(consumer.assignment(), 1)
            return value  # type: ignore[no-any-return]

    assert asyncio.run(read("SASLSSL", "loop", sasl_mechanism="SCRAM-SHA-512", **user)) == large
    with pytest.raises(AuthenticationFailedError, match="refused user alice"):
        asyncio.run(read("SASLSSL", None, **user | {"sasl_plain_password": "wrong"}))


def with_tokens(guarded: Guarded, listener: str = "SASLPLAIN") -> dict[str, str]:
    found = guarded.properties(listener)
    del found["sasl.jaas.config"]
    return found | {"sasl.mechanism": "OAUTHBEARER"}


def test_tokens_of_kafkas_own_options(guarded: Guarded) -> None:
    module = f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="alice" unsecuredLoginExtension_traceId="1";'
    assert TOPIC in ask(with_tokens(guarded, "SASLSSL") | {"sasl.jaas.config": module})


def test_tokens_of_librdkafkas_configuration(guarded: Guarded) -> None:
    unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"}
    settings = parse_client_settings(with_tokens(guarded) | unsecured)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers} | to_librdkafka(settings.security))
    producer.produce(TOPIC, b"by a token", partition=0)
    assert producer.flush(30) == 0
    assert TOPIC in ask(with_tokens(guarded) | unsecured)


def test_a_token_file(guarded: Guarded, tmp_path: Path) -> None:
    path = tmp_path / "token"
    properties = with_tokens(guarded) | {"sasl.oauthbearer.token.endpoint.url": path.as_uri()}
    path.write_text(UnsecuredTokens("alice", (("sub", "alice"),)).fetch(time.time()).value)
    assert TOPIC in ask(properties)
    path.write_text(UnsecuredTokens("alice", (("name", "alice"),)).fetch(time.time()).value)
    with pytest.raises(AuthenticationError, match=r"refused the token \(OAUTHBEARER\): status invalid_token"):
        ask(properties)


def test_a_consumer_whose_tokens_expire(guarded: Guarded) -> None:
    """By what the callback says: it is called again and again, and the member keeps its partitions."""
    configs: list[str] = []

    def oauth_cb(config: str) -> tuple[str, float, str, dict[str, str]]:
        configs.append(config)
        token = UnsecuredTokens("alice", (("sub", "alice"),)).fetch(time.time())
        return token.value, time.time() + 1, "alice", {"traceId": "1"}

    config = with_tokens(guarded) | {"sasl.oauthbearer.config": "for the callback", "group.id": "tokens", "auto.offset.reset": "earliest"}
    producer = Producer({"bootstrap.servers": guarded.kafka.bootstrap_servers, "linger.ms": 0})
    with ottla.Consumer({**config, "heartbeat.interval.ms": 100, "oauth_cb": oauth_cb}) as reading:
        reading.subscribe([TOPIC])
        assert next_value(reading) is not None
        member, called = reading.consumer_group_metadata(), len(configs)
        wait_until(lambda: len(configs) > called + 1, "more tokens", lambda: reading.consume(100, 0.05))
        producer.produce(TOPIC, b"later")
        producer.flush(30)
        wait_until(lambda: next_value(reading) == b"later", "a record after that")
        assert reading.consumer_group_metadata() == member, "sessions that end with their token are restarted without a rebalance"
    assert set(configs) == {"for the callback"}


def test_a_token_provider_in_an_event_loop(guarded: Guarded) -> None:
    class Provider(AbstractTokenProvider):
        async def token(self) -> str:
            return UnsecuredTokens("alice", (("sub", "alice"),)).fetch(time.time()).value

    async def read() -> bytes | None:
        async with ottla.AsyncConsumer(
            TOPIC,
            bootstrap_servers=guarded.kafka.addresses["SASLPLAIN"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
            auto_offset_reset="earliest",
        ) as reading:
            return (await asyncio.wait_for(reading.getone(), 20)).value

    assert asyncio.run(read()) is not None


def test_a_callback_that_fails(guarded: Guarded) -> None:
    def oauth_cb(config: str) -> tuple[str, float]:
        raise RuntimeError("the identity provider is down")

    with ottla.Consumer({**with_tokens(guarded), "group.id": "tokens", "oauth_cb": oauth_cb}) as reading:
        reading.subscribe([TOPIC])
        with pytest.raises(ottla.KafkaException, match="the identity provider is down") as refused:
            next_value(reading)
    assert refused.value.args[0].code() == ottla.KafkaError._AUTHENTICATION


def test_whom_the_client_does_not_trust(guarded: Guarded) -> None:
    unknown = guarded.properties() | {"ssl.truststore.location": str(guarded.certificates / "other.crt")}
    with pytest.raises(AuthenticationError, match=r"is not accepted: unable to get local issuer.*ssl.truststore.location"):
        ask(unknown)
    by_name = guarded.properties() | {"bootstrap.servers": guarded.kafka.addresses["SASLSSL"].replace("127.0.0.1", "localhost")}
    with pytest.raises(AuthenticationError, match=r"Hostname mismatch.*ssl.endpoint.identification.algorithm"):
        ask(by_name)
    assert TOPIC in ask(by_name | {"ssl.endpoint.identification.algorithm": ""})
    text = (guarded.certificates / "ca.crt").read_text()
    inline = {name: value for name, value in guarded.properties().items() if name != "ssl.truststore.location"}
    assert TOPIC in ask(inline | {"ssl.truststore.certificates": text})


def test_a_certificate_of_ones_own(guarded: Guarded) -> None:
    properties = guarded.properties("MUTUAL")
    with pytest.raises(AuthenticationError, match=r"CERTIFICATE_REQUIRED|BAD_CERTIFICATE|HANDSHAKE_FAILURE"):
        ask(properties)
    of_file = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(guarded.certificates / "client.pem")}
    assert TOPIC in ask(properties | of_file)
    key, chain = ((guarded.certificates / name).read_text() for name in ("client.key", "client.crt"))
    of_text = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    assert TOPIC in ask(properties | of_text)


def test_the_wrong_protocol_for_a_port(guarded: Guarded) -> None:
    with pytest.raises(AuthenticationError, match=r"security\.protocol must be SSL or SASL_SSL"):
        ask({"bootstrap.servers": guarded.kafka.addresses["MUTUAL"]})
    with pytest.raises(DeadlineExceededError, match="does it speak TLS on this port"):
        ask(guarded.properties() | {"bootstrap.servers": guarded.kafka.bootstrap_servers}, timeout_ms=300)
    plain = {"security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": guarded.kafka.bootstrap_servers}
    with pytest.raises((AuthenticationError, BrokerUnavailableError, DeadlineExceededError)):
        ask(guarded.properties("SASLPLAIN") | plain, timeout_ms=300)


def test_a_tool_takes_its_settings_from_a_file(guarded: Guarded, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    lines = guarded.properties(mechanism="SCRAM-SHA-512").items()
    path.write_text("".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in lines if name != "bootstrap.servers"))
    settings = client_settings(guarded.kafka.addresses["SASLSSL"], str(path), client_id="tool")
    assert isinstance(settings, ClientSettings)
    with AdminClient(settings, timeout_ms=15_000) as admin:
        assert TOPIC in admin.list_topics()


def test_a_topic_is_migrated_over_tls_with_a_password(guarded: Guarded, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    lines = guarded.properties().items()
    path.write_text("".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in lines if name != "bootstrap.servers"))
    target, servers = f"{TOPIC}-migrated", guarded.kafka.addresses["SASLSSL"]
    options = ["--partitions", "3", "--no-groups", "--cores", "1", "--command-config", str(path)]
    command = [sys.executable, "-m", "ottla", "migrate", TOPIC, target, "--bootstrap-server", servers, *options]
    try:
        options_of_java = " ".join((*QUICK_START_OPTIONS, *archive_options(spark_archive(CHECKOUT / ".cache"))))
        path_of_workers = os.pathsep.join([str(CHECKOUT / "tests" / "spark" / "quick_workers"), os.environ.get("PYTHONPATH", "")])
        java = {"JAVA_HOME": str(find_java_home()), "SPARK_SUBMIT_OPTS": options_of_java}
        environment = {**os.environ, **java, "PYTHONPATH": path_of_workers}
    except ToolMissing as missing:
        pytest.skip(f"Spark {missing}")
    writing = Producer({"bootstrap.servers": guarded.kafka.bootstrap_servers})
    writing.produce(TOPIC, b"one at least")
    assert writing.flush(30) == 0
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    with AdminClient(guarded.kafka.bootstrap_servers) as admin:
        (records,) = admin.list_offsets([TopicPartition(TOPIC, 0)], LATEST).values()
    assert done.stdout == f"{records} records copied from {TOPIC} to {target}\n", done.stderr
