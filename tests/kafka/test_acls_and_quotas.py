"""ACLs and quotas beside Apache Kafka's: its tools on both brokers, our commands on both, and seeded requests, filters and decisions.

Apache Kafka's tools print hash maps: lines are compared without their order. Everything is allowed where no ACL is about it, so that a
client without a password may administer, and ACLs about topics decide for it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.commands import acls, configs
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from tests.support.reference.apache_kafka import KafkaTools
from trials.acl_scripts import CONFIG, EVERYTHING, AclScripts

pytestmark = pytest.mark.kafka

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


def test_what_cannot_be_created_is_refused_in_the_same_words(both: Mapping[str, str]) -> None:
    def create(client: RawClient) -> Any:
        creations = [ACL | invalid for invalid in INVALID]
        return [(each.error_code, each.error_message or None) for each in client.call(ApiKey.CREATE_ACLS, 3, creations=creations).results]

    assert len({message for _, message in same(both, create)}) == len(INVALID)
    same(both, lambda client: len(client.call(ApiKey.DELETE_ACLS, 3, filters=[EVERYTHING]).filter_results[0].matching_acls))


@pytest.mark.parametrize("seeds", [range(12)], ids=str)
def test_seeded_requests_filters_and_decisions(both: Mapping[str, str], seeds: range) -> None:
    """`python -m trials acl-scripts` runs more of them."""
    with AclScripts(list(both.values())) as scripts:
        for seed in seeds:
            assert scripts.differences(seed) == []
