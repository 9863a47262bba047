"""ACLs and quotas beside Apache Kafka's: its tools on both brokers, our commands on both, and seeded requests, filters and decisions.

Apache Kafka's tools print hash maps: lines are compared without their order. Everything is allowed where no ACL is about it, so that a
client without a password may administer, and ACLs about topics decide for it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.commands import acls, configs
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from tests.support.reference.apache_kafka import KafkaTools

pytestmark = pytest.mark.kafka

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:admin",
}
TOOLS = {"acls": ("org.apache.kafka.tools.AclCommand", acls.COMMAND), "configs": ("kafka.admin.ConfigCommand", configs.COMMAND)}
COMMAND_LINES = """
acls --list
acls --add --allow-principal User:ANONYMOUS --cluster
acls --add --allow-principal User:a --operation Read --operation DescribeConfigs --topic t
acls --add --allow-principal User:a --operation Read --operation Alter --topic t
acls --add --deny-principal User:b --deny-host 10.0.0.1 --operation Write --topic t
acls --add --allow-principal User:a --topic pre --resource-pattern-type prefixed
acls --add --producer --idempotent --allow-principal User:p --topic t --transactional-id x
acls --add --consumer --allow-principal User:c --allow-host 10.0.0.1 --topic t --group g
acls --add --allow-principal User:d --operation CreateTokens --user-principal User:e
acls --list
acls --list --topic t
acls --list --topic prefix --resource-pattern-type match
acls --list --topic pre --resource-pattern-type any
acls --list --principal User:c
acls --list --principal User:nobody --topic t
acls --remove --force --allow-principal User:c --allow-host 10.0.0.1 --operation Read --topic t
acls --remove --force --group g
acls --remove --force --topic prefix --resource-pattern-type match
acls --list
acls --remove --force --topic t
acls --remove --force --transactional-id x
acls --remove --force --user-principal User:e
acls --remove --force --cluster
acls --list
configs --alter --entity-type clients --entity-name c --add-config producer_byte_rate=1024,consumer_byte_rate=20000000
configs --alter --entity-type users --entity-name u --entity-type clients --entity-default --add-config request_percentage=12.5
configs --alter --entity-type users --entity-default --entity-type clients --entity-name c --add-config controller_mutation_rate=5
configs --alter --user-defaults --add-config producer_byte_rate=7
configs --alter --ip 127.0.0.9 --add-config connection_creation_rate=100
configs --alter --ip-defaults --add-config connection_creation_rate=1000
configs --describe --entity-type clients
configs --describe --client c
configs --describe --entity-type users --entity-type clients
configs --describe --entity-type users --entity-name u --entity-type clients --entity-default
configs --describe --user-defaults
configs --describe --entity-type ips
configs --alter --client c --delete-config producer_byte_rate
configs --alter --client c --delete-config producer_byte_rate
configs --describe --client c
configs --alter --client c --add-config retention.ms=1
configs --alter --client c --add-config producer_byte_rate=-1
configs --alter --client c --add-config producer_byte_rate=1.5
configs --alter --client c --add-config producer_byte_rate=1e30
configs --alter --ip 127.0.0.9 --add-config connection_creation_rate=1e10
configs --alter --client c --add-config producer_byte_rate=much
configs --alter --ip 127.0.0.9 --add-config producer_byte_rate=1
configs --alter --client c --delete-config consumer_byte_rate
configs --alter --user-defaults --delete-config producer_byte_rate
configs --describe --entity-type clients
"""


@pytest.fixture(scope="module")
def both(reference: Any) -> Iterator[Mapping[str, str]]:
    """The bootstrap servers of both brokers, with an authorizer."""
    kafka = reference.own(CONFIG)
    with Broker(config=CONFIG) as ours:
        yield {"ottla": ours.bootstrap_servers, "apache-kafka": kafka.bootstrap_servers}
    reference.end_own()


def comparable(status: int, out: str, err: str) -> tuple[int, list[str], list[str]]:
    """Lines without their order, values within a line too; without places in code, and without the command line that is repeated."""
    lines = [line for line in err.splitlines() if not re.match(r"\s+(at |\.\.\. \d+ more)|Caused by: |Error while executing", line)]
    return status, *(sorted(", ".join(sorted(line.strip().split(", "))) for line in part) for part in (out.splitlines(), lines))


def test_the_tools_and_our_commands_print_the_same(both: Mapping[str, str], kafka_tools: KafkaTools) -> None:
    """Each line changes both brokers twice, by Kafka's tool and by our command: what the second finds is what the first left."""
    for line in COMMAND_LINES.strip().splitlines():
        name, *words = line.split()
        tool, command = TOOLS[name]

        def by_tool(broker: str, tool: str = tool, words: list[str] = words) -> Any:
            return comparable(*kafka_tools.run(tool, "--bootstrap-server", both[broker], *words))

        def by_command(broker: str, command: Any = command, words: list[str] = words) -> Any:
            done = CliRunner().invoke(command, ["--bootstrap-server", both[broker], *words])
            return comparable(done.exit_code, done.stdout, done.stderr)

        ours, theirs = by_tool("ottla"), by_tool("apache-kafka")
        assert ours == theirs, line
        if "--list" in words or "--describe" in words:
            assert by_command("ottla") == by_command("apache-kafka") == theirs, line
        elif theirs[0] == 0 and name == "acls" and "--add" in words:
            assert by_command("ottla") == by_command("apache-kafka") == by_tool("apache-kafka"), line


INVALID = [{"resource_name": ""}, {"resource_type": 4}, {"principal": "alice"}, {}]
"""Where a number stands that is for filters alone, Apache Kafka answers the whole request with UNKNOWN_SERVER_ERROR: docs/acls.md."""


def same(both: Mapping[str, str], ask: Callable[[RawClient], Any]) -> Any:
    answers = []
    for bootstrap_servers in both.values():
        client = RawClient(bootstrap_servers, client_id="acls")
        answers.append(ask(client))
        client.close()
    assert answers[0] == answers[1]
    return answers[0]


ACL = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*", "operation": 3,
       "permission_type": 3}  # fmt: skip
EVERYTHING = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
              "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip


def test_what_cannot_be_created_is_refused_in_the_same_words(both: Mapping[str, str]) -> None:
    def create(client: RawClient) -> Any:
        creations = [ACL | invalid for invalid in INVALID]
        return [(each.error_code, each.error_message or None) for each in client.call(ApiKey.CREATE_ACLS, 3, creations=creations).results]

    assert len({message for _, message in same(both, create)}) == len(INVALID)
    same(both, lambda client: len(client.call(ApiKey.DELETE_ACLS, 3, filters=[EVERYTHING]).filter_results[0].matching_acls))


def random_acl(rng: Random) -> dict[str, Any]:
    return {
        "resource_type": rng.choice([2, 2, 2, 3]),
        "resource_name": rng.choice(["*", "x", "xy", "xyz", "y"]),
        "resource_pattern_type": rng.choice([3, 3, 4]),
        "principal": rng.choice(["User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:other"]),
        "host": rng.choice(["*", "*", "127.0.0.1", "10.0.0.1"]),
        "operation": rng.choice([2, 3, 4, 7, 8, 10, 11]),
        "permission_type": rng.choice([2, 3, 3]),
    }


def random_filter(rng: Random) -> dict[str, Any]:
    acl = random_acl(rng)
    return {
        "resource_type_filter": rng.choice([1, acl["resource_type"]]),
        "resource_name_filter": rng.choice([None, acl["resource_name"]]),
        "pattern_type_filter": rng.choice([1, 2, 3, 4]),
        "principal_filter": rng.choice([None, None, acl["principal"]]),
        "host_filter": rng.choice([None, None, acl["host"]]),
        "operation": rng.choice([1, 1, acl["operation"]]),
        "permission_type": rng.choice([1, 1, acl["permission_type"]]),
    }


def described(client: RawClient, wanted: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    answer = client.call(ApiKey.DESCRIBE_ACLS, 3, **wanted)
    assert answer.error_code == 0
    return {
        (*(each.resource_type, each.resource_name, each.pattern_type), acl.principal, acl.host, acl.operation, acl.permission_type)
        for each in answer.resources
        for acl in each.acls
    }


def decisions(client: RawClient) -> dict[str, tuple[int, int]]:
    """What the client may do with each topic: the error, and the bit field."""
    topics = [{"topic_id": None, "name": name} for name in ("x", "xy", "xyzz", "y")]
    answer = client.call(
        ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )  # fmt: skip
    return {each.name: (int(each.error_code), each.topic_authorized_operations) for each in answer.topics}


@pytest.mark.parametrize("seeds", [range(12)], ids=str)
def test_seeded_requests_filters_and_decisions(both: Mapping[str, str], seeds: range) -> None:
    clients = [RawClient(bootstrap_servers, client_id="acls") for bootstrap_servers in both.values()]
    for client in clients:
        for name in ("x", "xy", "xyzz"):
            create_topic(client, name, 1)
        wait_until(lambda client=client: [error for error, _ in decisions(client).values()] == [0, 0, 0, 3], "topics")
    for seed in seeds:
        rng = Random(seed)
        creations = [random_acl(rng) for _ in range(rng.randrange(1, 12))]
        deletions = [random_filter(rng) for _ in range(2)]
        filters = [random_filter(rng) for _ in range(4)]
        seen: list[list[Any]] = []
        for client in clients:
            results = [each.error_code for each in client.call(ApiKey.CREATE_ACLS, 3, creations=creations).results]
            first = decisions(client)
            found = [described(client, each) for each in filters]
            deleted = client.call(ApiKey.DELETE_ACLS, 3, filters=deletions).filter_results
            matched = [(each.error_code, len(each.matching_acls)) for each in deleted]
            seen.append([results, first, found, matched, decisions(client), described(client, EVERYTHING)])
            client.call(ApiKey.DELETE_ACLS, 3, filters=[EVERYTHING])
        assert seen[0] == seen[1], f"seed {seed}: {creations}"
    for client in clients:
        client.close()
