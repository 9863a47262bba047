"""Apache Kafka's client and tools at our secured listeners: who comes in, what is shown to who does not, and users of SCRAM."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ottla.testing import SecuredBroker
from ottla.testing.security.certificates import CertificateAuthority
from tests.support.reference.apache_kafka import KafkaTools

pytestmark = pytest.mark.kafka
TOPICS, CONFIGS = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand"
WRONG = {
    "SSL": "SSL handshake failed",
    "MTLS": "unknown_ca",
    "PLAIN": "Authentication failed: Invalid username or password",
    "SCRAM-SHA-256": "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
    "SCRAM-SHA-512": "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512",
}
"""What a Java client says in the end, by the way to authenticate. Not OAUTHBEARER: a system property would have to name the token."""


@pytest.fixture(scope="module")
def broker() -> Iterator[SecuredBroker]:
    with SecuredBroker() as broker:
        broker.create_topic("secured", 1)
        yield broker


def arguments(path: Path, settings: Mapping[str, str]) -> list[str]:
    """Where the broker is, and a file of properties, whose texts of several lines have `\\n` as Java reads it."""
    more = {"default.api.timeout.ms": "8000", "request.timeout.ms": "4000"}
    path.write_text("".join(f"{name}={value}\n".replace("\n", "\\n")[:-2] + "\n" for name, value in {**settings, **more}.items()))
    return ["--bootstrap-server", settings["bootstrap.servers"], "--command-config", str(path)]


def settings_of(broker: SecuredBroker, way: str, *, is_right: bool) -> dict[str, str]:
    if way == "SSL":
        found = broker.client_settings("java", listener=way)
        return found if is_right else found | {"ssl.truststore.certificates": CertificateAuthority().certificate}
    if way == "MTLS":
        own = broker.certificate("alice") if is_right else CertificateAuthority("a stranger").issue("CN=alice")
        return broker.client_settings("java", listener=way, certificate=own)
    return broker.client_settings("java", mechanism=way, password=None if is_right else "wrong")


@pytest.mark.parametrize("way", WRONG)
def test_a_java_client(broker: SecuredBroker, kafka_tools: KafkaTools, tmp_path: Path, way: str) -> None:
    printed = kafka_tools.run(TOPICS, "--list", *arguments(tmp_path / "right", settings_of(broker, way, is_right=True)))
    assert (printed.status, printed.out.split()) == (0, ["secured"]), printed.err
    refused = kafka_tools.run(TOPICS, "--list", *arguments(tmp_path / "wrong", settings_of(broker, way, is_right=False)))
    assert refused.status != 0
    assert WRONG[way] in refused.out + refused.err


def test_kafka_configs_and_users_of_scram(broker: SecuredBroker, kafka_tools: KafkaTools, both: Mapping[str, str], tmp_path: Path) -> None:
    """The same lines as from Apache Kafka; afterwards the new user logs in, and after the removal no more."""
    said = {}
    for name, where in (
        ("ottla", arguments(tmp_path / "alice", settings_of(broker, "PLAIN", is_right=True))),
        ("apache-kafka", ["--bootstrap-server", both["apache-kafka"]]),
    ):
        user = ["--entity-type", "users", "--entity-name", "dora"]
        change = "SCRAM-SHA-256=[iterations=8192,password=dora-secret]"
        runs = [
            kafka_tools.run(CONFIGS, *where, "--alter", *user, "--add-config", change),
            kafka_tools.run(CONFIGS, *where, "--describe", *user),
        ]
        if name == "ottla":
            dora = arguments(tmp_path / "dora", broker.client_settings("java", user="dora", password="dora-secret"))
            assert kafka_tools.run(TOPICS, "--list", *dora).status == 0
        runs += [
            kafka_tools.run(CONFIGS, *where, "--alter", *user, "--delete-config", "SCRAM-SHA-256"),
            kafka_tools.run(CONFIGS, *where, "--alter", *user, "--delete-config", "SCRAM-SHA-256"),
        ]
        said[name] = [(run.status, run.out, run.err.splitlines()[1:2]) for run in runs]
    assert said["ottla"] == said["apache-kafka"]
    assert "SCRAM credential configs for user-principal 'dora' are SCRAM-SHA-256=iterations=8192" in said["ottla"][1][1]
