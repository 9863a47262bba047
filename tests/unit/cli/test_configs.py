"""`ottla configs`: the cases of Kafka's ConfigCommandTest."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient as Admin
from confluent_kafka.admin import NewTopic

from ottla.broker import Broker
from ottla.cli.commands.configs import COMMAND
from ottla.cli.configs import parse_configs

Run = Callable[[str], Result]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def run(broker: Broker) -> Run:
    return lambda line: CliRunner().invoke(COMMAND, ["--bootstrap-server", broker.bootstrap_servers, *line.split()])


def test_quotas_of_users_and_clients(run: Run) -> None:
    done = run("--alter --entity-type users --entity-name alice --add-config producer_byte_rate=1024,request_percentage=0.5")
    assert (done.exit_code, done.output) == (0, "Completed updating config for user alice.\n")
    assert run("--describe --user alice").output == (
        "Quota configs for user-principal 'alice' are producer_byte_rate=1024.0, request_percentage=0.5\n"
    )
    for line, text in (
        ("--entity-type users --entity-name alice --entity-type clients --entity-default", "user alice"),
        ("--entity-type users --entity-default --entity-type clients --entity-name c", "default"),
        ("--user-defaults", "default"),
        ("--client c", "client c"),
    ):
        done = run(f"--alter {line} --add-config consumer_byte_rate=10485760")
        words = "default config for users in the cluster" if text == "default" else f"config for {text}"
        assert done.output == f"Completed updating {words}.\n"
    value = "are consumer_byte_rate=1.048576E7\n"
    assert run("--describe --client c").output == f"Quota configs for client-id 'c' {value}"
    assert run("--describe --user-defaults").output == f"Quota configs for the default user-principal {value}"
    assert run("--describe --entity-type users --entity-type clients").output.splitlines() == [
        f"Quota configs for the default user-principal, client-id 'c' {value.strip()}",
        f"Quota configs for user-principal 'alice', the default client-id {value.strip()}",
    ]
    assert len(run("--describe --entity-type users").output.splitlines()) == 2
    assert run("--alter --user alice --delete-config producer_byte_rate,request_percentage").exit_code == 0
    assert run("--describe --user alice").output == ""
    assert run("--alter --user alice --delete-config producer_byte_rate").output == "Invalid config(s): producer_byte_rate\n"


def test_quotas_of_addresses(run: Run) -> None:
    assert (
        run("--alter --ip 127.0.0.1 --add-config connection_creation_rate=1000").output == "Completed updating config for ip 127.0.0.1.\n"
    )
    assert run("--alter --ip-defaults --add-config connection_creation_rate=2000").exit_code == 0
    assert run("--describe --entity-type ips").output.splitlines() == [
        "Quota configs for ip '127.0.0.1' are connection_creation_rate=1000.0",
        "Quota configs for the default ip are connection_creation_rate=2000.0",
    ]
    assert json.loads(run("--describe --ip-defaults --json").output) == [
        {"entity": {"ip": None}, "quotas": {"connection_creation_rate": 2000.0}}
    ]


def test_settings_of_topics_brokers_and_groups(run: Run, broker: Broker, tmp_path: Path) -> None:
    admin = Admin({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    assert run("--alter --topic t --add-config retention.ms=1000,cleanup.policy=[compact,delete]").exit_code == 0
    described = run("--describe --topic t").output
    assert described.startswith(
        "Dynamic configs for topic t are:\n  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
    )
    assert "DEFAULT_CONFIG:log.cleanup.policy=delete" in described
    assert run("--alter --topic t --delete-config retention.ms,cleanup.policy").output == "Completed updating config for topic t.\n"
    assert run("--describe --topic t").output == "Dynamic configs for topic t are:\n"
    assert len(run("--describe --topic t --all").output.splitlines()) > 25
    path = tmp_path / "added"
    path.write_text("max.connections=5000\n")
    assert run(f"--alter --broker 1 --add-config-file {path}").exit_code == 0
    assert run("--alter --broker-defaults --add-config max.connections=6000").output == (
        "Completed updating default config for brokers in the cluster.\n"
    )
    lines = run("--describe --entity-type brokers").output.splitlines()
    assert [line.split("=")[0] for line in lines if "min.insync.replicas" not in line] == [
        "Dynamic configs for broker 1 are:", "  max.connections", "Default configs for brokers in the cluster are:", "  max.connections",
    ]  # fmt: skip
    assert run("--alter --group g --add-config consumer.session.timeout.ms=50000").exit_code == 0
    assert "consumer.session.timeout.ms=50000" in run("--describe --group g").output


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--topic t", "Command must include exactly one action: --describe, --alter"),
        ("--describe", "At least one entity type must be specified"),
        ("--describe --entity-type planets", "Invalid entity type planets, the entity type must be one of"),
        ("--describe --topic t --broker 1", "Only 'users' and 'clients' entity types may be specified together"),
        ("--describe --entity-type users --user a", "should not be used in conjunction with specific entity flags"),
        ("--describe --entity-type users --entity-type users", "Duplicate entity type(s) specified: users"),
        ("--describe --broker one", "The entity name for brokers must be a valid integer broker id, but it is: one"),
        ("--describe --ip nowhere", "The entity name for ips must be a valid IP or resolvable host, but it is: nowhere"),
        ("--describe --entity-type topics --entity-default", "--entity-default must not be specified with --describe of topics"),
        ("--describe --topic t --add-config a=1", "can't be used with option"),
        ("--alter --entity-type users --add-config a=1", "An entity-name or default entity must be specified with --alter of users"),
        ("--alter --entity-type topics --add-config a=1", "An entity name must be specified with --alter of topics"),
        ("--alter --topic t", "At least one of --add-config, --add-config-file, or --delete-config"),
        ("--alter --topic t --add-config a", 'all configs to be added must be in the format "key=val"'),
        ("--alter --topic t --add-config a$=1", "Invalid character found for config key: a$"),
        ("--alter --client c --add-config retention.ms=1", "Only quota configs can be added for 'clients' using --bootstrap-server."),
        ("--alter --user u --add-config retention.ms=1", "Only quota and SCRAM credential configs can be added for 'users'"),
        ("--alter --ip 10.0.0.1 --add-config retention.ms=1", "Only connection quota configs can be added for 'ips'"),
        ("--alter --user u --add-config producer_byte_rate=much", "Cannot parse quota configuration value for producer_byte_rate: much"),
        ("--alter --user u --add-config producer_byte_rate=-1", "InvalidRequestException: Quota producer_byte_rate must be greater than 0"),
        ("--alter --topic nowhere --add-config retention.ms=1", "Error while executing config command with args '--bootstrap-server"),
    ],
)
def test_what_fails_is_said_on_standard_error(run: Run, line: str, sentence: str) -> None:
    refused = run(line)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert sentence in refused.stderr


def test_values_with_commas() -> None:
    assert parse_configs("a=1, b = [x,y],c=") == {"a": "1", "b": "x,y", "c": ""}


def test_credentials_of_users(run: Run) -> None:
    both = run("--alter --user eve --add-config SCRAM-SHA-256=[iterations=8192,password=se,cret],SCRAM-SHA-512=[password=secret]")
    assert (both.exit_code, "DuplicateResourceException" in both.stderr) == (1, True), "as by Apache Kafka 4.3: one of a user at a time"
    assert "cret" not in both.stderr
    assert run("--alter --user dora --add-config SCRAM-SHA-256=[iterations=8192,password=pw]").output == (
        "Completed updating config for user dora.\n"
    )
    assert run("--alter --user dora --add-config consumer_byte_rate=5").exit_code == 0
    assert run("--describe --user dora").output == (
        "Quota configs for user-principal 'dora' are consumer_byte_rate=5.0\n"
        "SCRAM credential configs for user-principal 'dora' are SCRAM-SHA-256=iterations=8192\n"
    )
    assert "'dora' are SCRAM-SHA-256=iterations=8192" in run("--describe --entity-type users").output
    assert run("--alter --user dora --delete-config SCRAM-SHA-256").exit_code == 0
    assert "SCRAM" not in run("--describe --user dora").output
    for line, sentence in (
        ("--user dora --delete-config SCRAM-SHA-256", "ResourceNotFoundException"),
        ("--user-defaults --add-config SCRAM-SHA-256=[password=pw]", "is not allowed with User SCRAM Credentials"),
        ("--user u --add-config SCRAM-SHA-256=[password=pw],consumer_byte_rate=1", "Cannot alter both quota and SCRAM credential"),
        ("--user u --add-config SCRAM-SHA-256=[iterations=100,password=pw]", "Iterations 100 is less than the minimum 4096"),
        ("--user u --add-config SCRAM-SHA-256=[secret=pw]", "Invalid credential property"),
        ("--client c --add-config SCRAM-SHA-256=[password=pw]", "Only quota configs can be added for 'clients'"),
    ):
        refused = run(f"--alter {line}")
        assert refused.exit_code == 1
        assert sentence in refused.stderr
        assert "pw" not in refused.stderr
