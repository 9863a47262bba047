"""`ottla transactions`: Kafka's kafka-transactions, with its commands and options, for Ottla and Apache Kafka alike."""

import sys
from collections.abc import Callable
from typing import Any

import click

from ottla.cli.options import KafkaCommand


class KafkaGroup(KafkaCommand, click.Group):
    """A group of commands whose usage errors end with 1."""

    command_class = KafkaCommand

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            error.show()
            ctx.exit(1)


def _common(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`)."),
        click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers to connect to first."),
    ):
        command = option(command)
    return command


@click.group("transactions", cls=KafkaGroup, short_help="List, describe and abort transactions.")
@_common
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """List, describe and abort transactions, and say who holds readers back: Kafka's kafka-transactions, word for word.

    Works with Ottla and with Apache Kafka. Commands, options and columns are those of kafka-transactions 4.3; the three options of all
    commands may also stand behind the command; --json and the sentences on standard error are Ottla's own. The exit status is 1 for
    whatever fails.
    """
    context.obj = given


def _run(context: click.Context, action: str, **options: Any) -> None:
    from ottla.cli.transactions import run

    for name, value in context.obj.items():
        options[name] = options[name] or value
    sys.exit(run(action, options))


def _verb(name: str, help_text: str, *options: Callable[..., Any]) -> None:
    def act(context: click.Context, /, **given: Any) -> None:
        _run(context, name, **given)

    made = click.pass_context(act)
    for option in reversed(options):
        made = option(made)
    command.command(name, help=help_text, short_help=help_text)(_common(made))


_TOPIC = click.option("--topic", required=True, metavar="TOPIC", help="The topic.")
_PARTITION = click.option("--partition", type=int, required=True, metavar="N", help="The partition.")

_verb(
    "list",
    "List transactional ids, and say which transactions hold readers back.",
    click.option("--duration-filter", type=int, metavar="MS", help="Those alone whose transaction is open for longer (less than 0: all)."),
    click.option("--transactional-id-pattern", metavar="REGEX", help="Those alone whose whole name matches (RE2)."),
)
_verb(
    "describe",
    "Describe the transaction of a transactional id.",
    click.option("--transactional-id", required=True, metavar="ID", help="The transactional id."),
)
_verb(
    "describe-producers",
    "Describe what a partition knows of its producers.",
    click.option("--broker-id", type=int, metavar="ID", help="The replica on this broker, instead of the leader."),
    _TOPIC,
    _PARTITION,
)
_verb(
    "abort",
    "Abort a hanging transaction in one partition: by its start offset; before Kafka 3.0 by producer and epochs.",
    _TOPIC,
    _PARTITION,
    click.option("--start-offset", type=int, metavar="N", help="The first offset of the transaction."),
    click.option("--producer-id", type=int, metavar="ID", help="Before Kafka 3.0: the producer id."),
    click.option("--producer-epoch", type=click.IntRange(-(2**15), 2**15 - 1), metavar="N", help="Before Kafka 3.0: the producer's epoch."),
    click.option("--coordinator-epoch", type=int, metavar="N", help="Before Kafka 3.0: the coordinator's epoch."),
)
_verb(
    "find-hanging",
    "Find transactions that no coordinator will end. Needs --topic or --broker-id.",
    click.option("--broker-id", type=int, metavar="ID", help="Search the partitions of this broker."),
    click.option(
        "--max-transaction-timeout",
        type=int,
        default=15,
        show_default=True,
        metavar="MIN",
        help="Only those whose last record is older than this many minutes: the brokers' transaction.max.timeout.ms.",
    ),
    click.option("--topic", metavar="TOPIC", help="Search this topic."),
    click.option("--partition", type=int, metavar="N", help="Search this partition of --topic."),
)
_verb(
    "forceTerminateTransaction",
    "Abort the open transaction of a transactional id, and fence its producer.",
    click.option("--transactionalId", "transactional_id", required=True, metavar="ID", help="The transactional id."),
)

COMMAND = command
