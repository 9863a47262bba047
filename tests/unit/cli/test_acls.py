"""`ottla acls`: the cases of Kafka's AclCommandTest, `--explain`, and the ACLs that `--suggest` makes of audit lines."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.broker import Broker
from ottla.cli.commands.acls import COMMAND
from ottla.client.admin.client import AdminClient
from ottla.security.acl_suggestions import suggest
from ottla.security.acls import AclFilter

CONFIG = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=CONFIG) as broker:
        yield broker


@pytest.fixture
def run(broker: Broker) -> Iterator[Run]:
    """Runs a command line on the broker; its ACLs are gone afterwards."""

    def run(line: str, stdin: str = "", **words: str) -> Result:
        arguments = [words.get(word, word) for word in line.split()]
        return CliRunner().invoke(COMMAND, ["--bootstrap-server", broker.bootstrap_servers, *arguments], input=stdin)

    yield run
    with AdminClient(broker.bootstrap_servers) as admin:
        admin.delete_acls([AclFilter()])


def resource(kind: str, name: str, pattern: str = "LITERAL") -> str:
    return f"ResourcePattern(resourceType={kind}, name={name}, patternType={pattern})"


def entry(operation: str, principal: str = "User:a", host: str = "*", permission: str = "ALLOW") -> str:
    return f"(principal={principal}, host={host}, operation={operation}, permissionType={permission})"


def test_acls_are_added_listed_and_removed(run: Run) -> None:
    added = run("--add --allow-principal User:a --operation Read --topic t")
    assert (added.exit_code, added.output) == (0, f"Adding ACLs for resource `{resource('TOPIC', 't')}`: \n \t{entry('READ')}\n\n")
    again = run("--add --allow-principal User:a --operation Read --topic t")
    assert again.output == f"Acl (pattern={resource('TOPIC', 't')}, entry={entry('READ')}) already exists.\n"
    assert run("--list").output == f"Current ACLs for resource `{resource('TOPIC', 't')}`:\n\t{entry('READ')}\n\n"
    assert run("--list --topic u").output == ""
    asked = run("--remove --allow-principal User:a --operation Read --topic t", stdin="n\n")
    asking = f"Are you sure you want to remove ACLs: \n \t{entry('READ')}\n from resource filter `{resource('TOPIC', 't')}`? (y/n)"
    assert asked.output.startswith(asking)
    assert run("--list").output
    assert run("--remove --topic t", stdin="y\n").output.startswith("Are you sure you want to delete all ACLs for resource filter")
    assert run("--list").output == ""


def listed(run: Run, options: str = "") -> set[str]:
    acls = json.loads(run(f"--list --json {options}").output)["acls"]
    return {" ".join((each["operation"], each["resource_type"], each["name"], each["principal"], each["host"])) for each in acls}


def test_producers_and_consumers(run: Run) -> None:
    assert run("--add --producer --idempotent --allow-principal User:p --topic t --transactional-id x").exit_code == 0
    assert listed(run) == {
        *(f"{operation} TOPIC t User:p *" for operation in ("WRITE", "DESCRIBE", "CREATE")),
        *(f"{operation} TRANSACTIONAL_ID x User:p *" for operation in ("WRITE", "DESCRIBE")),
        "IDEMPOTENT_WRITE CLUSTER kafka-cluster User:p *",
    }
    assert run("--add --consumer --allow-principal User:c --allow-host 10.0.0.1 --topic t --group g").exit_code == 0
    assert listed(run, "--principal User:c") == {
        "READ TOPIC t User:c 10.0.0.1", "DESCRIBE TOPIC t User:c 10.0.0.1", "READ GROUP g User:c 10.0.0.1",
    }  # fmt: skip


def test_patterns(run: Run) -> None:
    run("--add --allow-principal User:a --topic or --resource-pattern-type prefixed")
    run("--add --deny-principal User:b --deny-host 10.0.0.2 --topic NAME", NAME="*")
    run("--add --allow-principal User:a --topic orders --cluster --operation Describe")
    assert listed(run, "--topic orders") == {"DESCRIBE TOPIC orders User:a *"}
    assert len(listed(run, "--topic orders --resource-pattern-type match")) == 3
    assert listed(run, "--topic or --resource-pattern-type any") == {"ALL TOPIC or User:a *"}
    run("--remove --force --topic orders --resource-pattern-type match")
    assert listed(run) == {"DESCRIBE CLUSTER kafka-cluster User:a *"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--add --list", "Command must include exactly one action"),
        ("--topic t", "Command must include exactly one action"),
        ("--add --topic t", "You must specify one of: --allow-principal, --deny-principal"),
        ("--add --allow-principal User:a", "You must provide at least one resource"),
        ("--add --allow-principal a --topic t", "expected a string in format principalType:principalName but got a"),
        ("--add --allow-principal User:a --topic t --operation Fly", "Fly is no operation"),
        ("--add --allow-principal User:a --group g --operation Write", "ResourceType GROUP only supports operations [ALL, READ, DELETE,"),
        ("--add --allow-principal User:a --topic t --resource-pattern-type match", "A '--resource-pattern-type' value of 'MATCH' is not"),
        ("--add --producer --allow-principal User:a --group g", "With --producer you must specify a --topic"),
        ("--add --consumer --allow-principal User:a --topic t", "With --consumer you must specify a --topic and a --group"),
        (
            "--add --consumer --operation Read --allow-principal User:a --topic t --group g",
            'Option "[consumer]" can\'t be used with option',
        ),
        ("--list --allow-principal User:a", 'Option "[list]" can\'t be used with option "[allow-principal]"'),
        ("--add --principal User:a --topic t", "The --principal option is only available if --list is set"),
        ("--explain alice READ topic:t", "expected a string in format"),
        ("--explain User:a READ t", "t is no resource: write topic:NAME"),
    ],
)
def test_command_lines_that_make_no_sense(run: Run, line: str, sentence: str) -> None:
    refused = run(line)
    assert refused.exit_code == 1
    assert sentence in refused.output


def test_a_broker_without_an_authorizer() -> None:
    with Broker() as broker:
        refused = CliRunner().invoke(COMMAND, ["--bootstrap-server", broker.bootstrap_servers, "--list"])
    assert (refused.exit_code, refused.output) == (
        1,
        "Error while executing ACL command: org.apache.kafka.common.errors.SecurityDisabledException: No Authorizer is configured on the"
        " broker\n",
    )


def test_which_rule_decides_is_explained(run: Run) -> None:
    assert "Denied: User:a READ topic orders" in run("--explain User:a READ topic:orders").output
    run("--add --allow-principal User:a --operation Read --topic orders")
    allowed = run("--explain User:a describe topic:orders").output
    assert "Allowed: User:a DESCRIBE topic orders" in allowed
    assert entry("READ") in allowed
    run("--add --deny-principal User:NAME --operation Read --topic or --resource-pattern-type prefixed".replace("NAME", "a"))
    denied = run("--explain User:a READ topic:orders").output
    assert "Denied" in denied
    assert resource("TOPIC", "or", "PREFIXED") in denied
    assert "A DENY decides, however specific ALLOWs are; 1 ALLOWs" in denied
    assert "none of them is for this principal" in run("--explain User:b READ topic:orders").output
    run("--add --allow-principal User:c --allow-host 10.0.0.1 --operation Read --topic orders")
    assert "single hosts (10.0.0.1)" in run("--explain User:c READ topic:orders").output
    assert "Allowed" in run("--explain User:c READ topic:orders --allow-host 10.0.0.1").output
    document = json.loads(run("--explain User:a READ topic:orders --json").output)
    assert (document["is_allowed"], document["acl"]["name"]) == (False, "or")
    assert "Denied: User:a ALTER cluster kafka-cluster" in run("--explain User:a ALTER cluster").output


def line(principal: str, operation: str, resource: str, request: str = "Fetch", word: str = "Allowed") -> str:
    kind, _, name = resource.partition(":")
    return (
        f"[2026-01-01] DEBUG Principal = {principal} is {word} operation = {operation} from host = 10.0.0.1 on resource ="
        f" {kind}:LITERAL:{name} for request = {request} with resourceRefCount = 1 based on rule SuperUser (kafka.authorizer.logger)"
    )


LINES = [
    line("User:a", "DESCRIBE", "Topic:orders", "Metadata"),
    line("User:a", "READ", "Topic:orders"),
    line("User:a", "READ", "Topic:orders"),
    line("User:a", "READ", "Group:g", "JoinGroup", "Denied"),
    line("User:a", "DESCRIBE", "Cluster:kafka-cluster", "DescribeCluster"),
    line("User:a", "DESCRIBE", "Topic:my topic"),
    line("User:CN=b, O=x", "WRITE", "TransactionalId:t", "EndTxn"),
    line("User:CN=b, O=x", "DESCRIBE_CONFIGS", "Cluster:kafka-cluster", "DescribeConfigs"),
    "another line",
]


def test_the_smallest_set_of_acls_for_what_was_done() -> None:
    found = {(acl.principal, acl.operation.name, acl.resource_type.name, acl.name) for acl in suggest(LINES)}
    assert found == {
        ("User:a", "READ", "TOPIC", "orders"),
        ("User:a", "READ", "GROUP", "g"),
        ("User:a", "DESCRIBE", "TOPIC", "my topic"),
        ("User:CN=b, O=x", "WRITE", "TRANSACTIONAL_ID", "t"),
        ("User:CN=b, O=x", "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"),
    }


def test_suggestions_are_printed_as_commands(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text("\n".join(LINES))
    printed = CliRunner().invoke(COMMAND, ["--suggest", str(path), "--principal", "User:a"]).output
    assert printed == (
        "ottla acls --add --allow-principal User:a \\\n  --operation Describe \\\n  --topic 'my topic'\n"
        "ottla acls --add --allow-principal User:a \\\n  --operation Read \\\n  --topic orders\n"
        "ottla acls --add --allow-principal User:a \\\n  --operation Read \\\n  --group g\n"
    )
    assert max(map(len, printed.splitlines())) <= 80
    assert len(json.loads(CliRunner().invoke(COMMAND, ["--suggest", "-", "--json"], input="\n".join(LINES)).output)["acls"]) == 5
    nothing = CliRunner().invoke(COMMAND, ["--suggest", "-"], input="no such line")
    assert (nothing.exit_code, "no audit line in -" in nothing.output) == (1, True)


def test_what_a_run_did_is_enough_for_it_when_it_is_granted(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "kafka.authorizer.logger"), AdminClient(broker.bootstrap_servers) as admin:
        admin.describe_topics(["new"])
        admin.committed(["g"])
    found = {(acl.operation.name, acl.resource_type.name, acl.name) for acl in suggest(caplog.text.splitlines(), "User:ANONYMOUS")}
    assert found == {("DESCRIBE", "TOPIC", "new"), ("DESCRIBE", "GROUP", "g")}
