"""`ottla acls`: Kafka's kafka-acls, with its options and output, for Ottla and Apache Kafka alike."""

import sys
from typing import Any

import click

from ottla.cli.options import KafkaCommand


def _many(name: str, metavar: str, text: str) -> Any:
    return click.option(f"--{name}", multiple=True, metavar=metavar, help=text)


def _flag(name: str, text: str) -> Any:
    return click.option(f"--{name}", is_flag=True, help=text)


_OPTIONS = (
    click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers to connect to first."),
    click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`)."),
    _flag("add", "Add ACLs."),
    _flag("remove", "Remove ACLs: those that the options name, or all of the resources."),
    _flag("list", "List ACLs, all or those of the resources."),
    _many("allow-principal", "User:NAME", "Who is allowed; User:* stands for all."),
    _many("deny-principal", "User:NAME", "Who is denied, however specific ALLOWs are."),
    _many("allow-host", "ADDRESS", "From where --allow-principal is allowed (default: *)."),
    _many("deny-host", "ADDRESS", "From where --deny-principal is denied (default: *)."),
    _many("operation", "NAME", "Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, ... (All)."),
    _many("topic", "TOPIC", "A topic; '*' stands for all."),
    _many("group", "GROUP", "A group; '*' stands for all."),
    _many("transactional-id", "ID", "A transactional id; '*' stands for all."),
    _flag("cluster", "The cluster."),
    _many("delegation-token", "ID", "A delegation token."),
    _many("user-principal", "User:NAME", "A user as a resource, for tokens."),
    click.option(
        "--resource-pattern-type",
        type=click.Choice(["literal", "prefixed", "any", "match"], case_sensitive=False),
        default="literal",
        show_default=True,
        help="How names of resources are meant; any and match only with --list and --remove.",
    ),
    _flag("producer", "Write, Describe and Create on the topics, Write and Describe on the transactional ids."),
    _flag("consumer", "Read and Describe on the topics, Read on the groups."),
    _flag("idempotent", "With --producer: IdempotentWrite on the cluster."),
    _many("principal", "User:NAME", "With --list and --suggest: the ACLs of this principal alone."),
    _flag("force", "Do not ask before ACLs are removed."),
    click.option(
        "--explain",
        nargs=3,
        metavar="User:NAME OPERATION RESOURCE",
        help="Say which rule decides, and why: User:x READ topic:y (--allow-host: from there).",
    ),
    _many("suggest", "FILE", "Print the smallest set of ACLs for what audit lines in FILE say; - is standard input."),
    click.option("--json", is_flag=True, help="Print JSON."),
)


def command(**given: Any) -> None:
    """Add, remove and list ACLs: Kafka's kafka-acls, word for word.

    Works with Ottla and with Apache Kafka. --explain, --suggest and --json are Ottla's own. The exit status is 1 for whatever fails.
    """
    from ottla.cli.acls import run

    sys.exit(run(given))


for _option in reversed(_OPTIONS):
    command = _option(command)
COMMAND = click.command("acls", cls=KafkaCommand, short_help="Add, remove, list and explain ACLs.")(command)
