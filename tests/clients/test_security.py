"""Who comes in and who does not: each way to authenticate, with each client, with the right secret and a wrong one.

What a refused client shows is asserted as far as it helps its user; the broker's own answer is in `tests/unit/security`.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

import ottla
from ottla.testing import SecuredBroker
from ottla.testing.security.certificates import CertificateAuthority

TOPIC = "secured"
WAYS = ("PLAINTEXT", "SSL", "MTLS", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SECONDS_MAX = 10.0
"""A client that is refused says so in much less."""


@pytest.fixture(scope="module")
def broker() -> Iterator[SecuredBroker]:
    with SecuredBroker() as broker:
        broker.create_topic(TOPIC, 1)
        broker.produce(TOPIC, [b"x" * 50_000])
        yield broker


def right(broker: SecuredBroker, client: str, way: str) -> dict[str, Any]:
    if way in ("PLAINTEXT", "SSL", "MTLS"):
        return broker.client_settings(client, listener=way)
    return broker.client_settings(client, mechanism=way)


def wrong(broker: SecuredBroker, client: str, way: str) -> dict[str, Any]:
    """PLAINTEXT: a port with TLS; SSL: another authority is trusted; MTLS: a stranger's certificate; else a wrong secret."""
    if way == "PLAINTEXT":
        servers = right(broker, client, "SSL")
        return right(broker, client, way) | {name: value for name, value in servers.items() if name.startswith("bootstrap")}
    if way == "SSL":
        stranger = SecuredBroker.__new__(SecuredBroker)
        stranger.__dict__ = broker.__dict__ | {"authority": CertificateAuthority("a stranger")}
        return right(stranger, client, way)
    if way == "MTLS":
        return broker.client_settings(client, listener=way, certificate=CertificateAuthority("a stranger").issue("CN=alice"))
    if way == "OAUTHBEARER":
        return broker.client_settings(client, mechanism=way, token=broker.issuer.token("alice", life_seconds=-60))
    return broker.client_settings(client, mechanism=way, password="wrong")


def confluent(settings: dict[str, Any]) -> str:
    """The length of the record, or what the client says."""
    errors: list[KafkaError] = []
    consumer = Consumer({"group.id": "g", "log_level": 0, "error_cb": errors.append, **settings})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    end_s = time.monotonic() + SECONDS_MAX
    try:
        while time.monotonic() < end_s and not errors:
            message = consumer.poll(0.05)
            if message is not None:
                return str(len(message.value() or b"")) if message.error() is None else message.error().str()
        return "; ".join(error.str() for error in errors)
    finally:
        consumer.close()


def ottla_consumer(settings: dict[str, Any]) -> str:
    errors: list[Any] = []
    consumer = ottla.Consumer({"group.id": "g", "error_cb": errors.append, **settings})
    consumer.assign([ottla.TopicPartition(TOPIC, 0, 0)])
    end_s = time.monotonic() + SECONDS_MAX
    try:
        while time.monotonic() < end_s and not errors:
            message = consumer.poll(0.05)
            if message is not None:
                return str(len(message.value() or b"")) if message.error() is None else str(message.error())
        return "; ".join(error.str() for error in errors)
    finally:
        consumer.close()


def kafka_python(settings: dict[str, Any]) -> str:
    try:
        consumer = KafkaConsumer(bootstrap_timeout_ms=400, consumer_timeout_ms=5000, **settings)
    except Exception as error:  # noqa: BLE001 - whatever its user sees
        return repr(error)
    try:
        consumer.assign([PythonPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        return str(len(next(consumer).value))
    except Exception as error:  # noqa: BLE001
        return repr(error)
    finally:
        consumer.close(autocommit=False)


def aiokafka(settings: dict[str, Any]) -> str:
    async def consume() -> str:
        consumer = AIOKafkaConsumer(auto_offset_reset="earliest", request_timeout_ms=3000, **settings)
        try:
            await consumer.start()
            if (
                not consumer._client.cluster.brokers()
            ):  # it takes a refused token for accepted, and would ask nobody for ever, without a pause
                raise ConnectionError("aiokafka knows no broker")
            consumer.assign([AioPartition(TOPIC, 0)])
            record = await asyncio.wait_for(consumer.getone(), SECONDS_MAX)
            return str(len(record.value))
        except Exception as error:  # noqa: BLE001 - whatever its user sees
            return repr(error)
        finally:
            with suppress(asyncio.CancelledError):  # of its own task, which has just begun
                await consumer.stop()

    return asyncio.run(consume())


CLIENTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "ottla": ottla_consumer,
}


SAID = {
    "PLAINTEXT": ("the broker closed the connection", "socket disconnected", "closed", "brokers are down"),
    "SSL": ("certificate verify failed", "is not accepted: self-signed certificate"),
    "MTLS": ("unknown ca", "UNKNOWN_CA", "closed"),
    "PLAIN": ("Authentication failed: Invalid username or password",),
    "SCRAM-SHA-256": ("invalid credentials with SASL mechanism SCRAM-SHA-256",),
    "SCRAM-SHA-512": ("invalid credentials with SASL mechanism SCRAM-SHA-512",),
    "OAUTHBEARER": ('{"status":"invalid_token"}', "status invalid_token", "closed", "aiokafka knows no broker"),
}
"""Words of which a refused client, or its log, has one. aiokafka tells no more of tokens and certificates than that it was closed."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
def test_the_right_secret(broker: SecuredBroker, client: str, way: str) -> None:
    settings = right(broker, "confluent-kafka" if client == "ottla" else client, way)
    assert CLIENTS[client](settings) == "50000"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_secret(broker: SecuredBroker, client: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    """The two clients in Python raise that they cannot connect, and have the reason in their logs."""
    settings = wrong(broker, "confluent-kafka" if client == "ottla" else client, way)
    end_s = time.monotonic() + SECONDS_MAX
    said = ""
    # kafka-python drops an answer that it reads together with the end of the connection, and tries again.
    while not any(words in said for words in SAID[way]) and time.monotonic() < end_s:
        found = CLIENTS[client](settings)
        assert found != "50000"
        said += " ".join([found, *(each.getMessage() for each in caplog.records if each.name.startswith(("kafka", "aiokafka")))])
    assert any(words in said for words in SAID[way]), said


def test_users_of_scram_are_described_changed_and_removed(broker: SecuredBroker) -> None:
    """By an administrator's client; none of the answers has a salt or a key. A session that is open stays open."""
    admin = AdminClient(broker.client_settings("confluent-kafka", mechanism="SCRAM-SHA-512"))
    sha_256 = ScramMechanism.SCRAM_SHA_256
    added = UserScramCredentialUpsertion("carol", ScramCredentialInfo(sha_256, 8192), b"carol-secret")
    for name, future in admin.alter_user_scram_credentials([added]).items():
        assert (name, future.result()) == ("carol", None)
    described = admin.describe_user_scram_credentials().result()
    infos = {name: [(each.mechanism, each.iterations) for each in found.scram_credential_infos] for name, found in described.items()}
    assert infos == {"alice": [(sha_256, 4096), (ScramMechanism.SCRAM_SHA_512, 4096)], "carol": [(sha_256, 8192)]}
    assert confluent(broker.client_settings("confluent-kafka", user="carol", password="carol-secret")) == "50000"
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("carol", sha_256)])["carol"].result()
    with pytest.raises(KafkaException, match="that does not exist"):
        admin.describe_user_scram_credentials(["carol"])["carol"].result()
    assert "invalid credentials" in confluent(broker.client_settings("confluent-kafka", user="carol", password="carol-secret"))


def test_acls_name_who_is_authenticated() -> None:
    """By a password and by a certificate; alice may read, bob may not. The verbs are ANONYMOUS, which is a super user here."""
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    with SecuredBroker(users=users, config=config) as guarded:
        guarded.create_topic(TOPIC, 1)
        guarded.produce(TOPIC, [b"x" * 50_000])
        admin = AdminClient(guarded.client_settings("confluent-kafka", listener="PLAINTEXT"))
        acl = AclBinding(
            ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
        )
        admin.create_acls([acl])[acl].result()
        for chosen in ({"mechanism": "PLAIN"}, {"listener": "MTLS"}):
            seen = {}
            for user in users:
                client = AdminClient(guarded.client_settings("confluent-kafka", user=user, **chosen))
                seen[user] = client.list_topics(TOPIC, 10).topics[TOPIC].error
            assert seen["alice"] is None
            assert seen["bob"].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
