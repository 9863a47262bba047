"""`ottla groups`: Kafka's kafka-consumer-groups, with its options, columns, messages and exit codes, for Ottla and Apache Kafka alike."""

import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from ottla import __version__
from ottla.cli.options import KafkaCommand

FLAGS = (
    ("list", "List all consumer groups."),
    ("describe", "Describe groups: the offset and the lag of each partition, unless --members or --state is given."),
    ("delete", "Delete whole groups. They must have no members."),
    ("reset-offsets", "Set the offsets of groups without members. Needs a scenario (--to-...) and a scope (--topic or --all-topics)."),
    ("delete-offsets", "Delete the offsets that a group has committed for --topic."),
    ("all-groups", "Apply the action to every group."),
    ("members", "Describe the members."),
    ("offsets", "Describe the offsets (the default)."),
    ("verbose", "Describe more: epochs and assignments."),
    ("all-topics", "Reset every topic that the group has committed offsets for."),
    ("to-earliest", "Reset to the first offset."),
    ("to-latest", "Reset to the end."),
    ("to-current", "Reset to the committed offset, or to the end if there is none."),
    ("dry-run", "Only print the new offsets (the default)."),
    ("execute", "Reset the offsets."),
    ("export", "Print the new offsets as CSV."),
)
VALUES = (
    ("bootstrap-server", "HOST:PORT,...", "The brokers to connect to first."),
    ("group", "GROUP", "A group; may be given several times."),
    ("topic", "TOPIC[:0,1,...]", "A topic or some of its partitions; may be given several times."),
    ("to-offset", "N", "Reset to this offset."),
    ("shift-by", "N", "Reset to the committed offset plus N, which may be negative."),
    ("to-datetime", "TIME", "Reset to the first record at or after 'YYYY-MM-DDThh:mm:ss.sss' (UTC, or with a zone as +02:00)."),
    ("by-duration", "PnDTnHnMnS", "Reset to the first record since this duration before now."),
    ("from-file", "CSV", "Reset to the offsets in the file: lines of [group,]topic,partition,offset, as --export prints them."),
    ("timeout", "MS", "Timeout of each request to the cluster (default: 30000)."),
    ("command-config", "FILE", "Client settings, including security, as a properties file (`ottla docs clients`)."),
    ("validate-regex", "REGEX", "Check a regular expression by the rules of RE2, which brokers use; needs no broker."),
)
OPTIONAL = (
    (
        "state",
        "STATES",
        "With --list: show states, or list these only (stable,empty). With --describe: describe the state.",
    ),
    ("watch", "SECONDS", "With --describe: describe again at this interval (default: 2), until Ctrl-C. With --json, one object per line."),
    ("type", "TYPES", "With --list: show types, or list these only (classic,consumer)."),
)
ORDER = (
    *("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex", "bootstrap-server", "group", "all-groups"),
    *("state", "type", "members", "offsets", "verbose", "topic", "all-topics", "to-earliest", "to-latest", "to-current", "to-offset"),
    *("shift-by", "to-datetime", "by-duration", "from-file", "dry-run", "execute", "export", "timeout", "command-config", "watch"),
)


def _parameter(name: str) -> str:
    return name.replace("-", "_") + "_"


def _options() -> list[click.Parameter]:
    made: dict[str, click.Parameter] = {}
    for name, text in FLAGS:
        made[name] = click.Option([f"--{name}", _parameter(name)], is_flag=True, help=text)
    for name, metavar, text in VALUES:
        made[name] = click.Option([f"--{name}", _parameter(name)], multiple=True, metavar=metavar, help=text)
    for name, metavar, text in OPTIONAL:
        made[name] = click.Option(
            [f"--{name}", _parameter(name)], multiple=True, is_flag=False, flag_value="", metavar=f"[{metavar}]", help=text
        )
    as_json = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON; a failure then exits with 1.")
    version = click.version_option(__version__, message="%(version)s")
    holder = version(lambda: None)
    return [*(made[name] for name in ORDER), as_json, *holder.__click_params__]  # type: ignore[attr-defined]


def groups_options(given: dict[str, Any]) -> Any:
    """The options by the names of the command line."""
    from ottla.cli.groups.options import GroupsOptions

    flags = frozenset(name for name, _ in FLAGS if given[_parameter(name)])
    named: Sequence[tuple[str, str, str]] = (*VALUES, *OPTIONAL)
    return GroupsOptions(flags, {name: tuple(given[_parameter(name)]) for name, _, _ in named})


def command(as_json: bool, **given: Any) -> None:
    """List, describe and delete consumer groups, and reset their offsets: Kafka's kafka-consumer-groups, word for word.

    Works with Ottla and with Apache Kafka. Actions, options, columns, CSV, messages and exit codes are those of kafka-consumer-groups 4.3;
    --json and --watch are Ottla's own.
    """
    from ottla.cli.groups.groups_run import run, watch

    options = groups_options(given)
    if options.has("watch"):
        sys.exit(watch(options, out=sys.stdout, err=sys.stderr, as_json=as_json))
    outcome = run(options, now_ms=lambda: time.time_ns() // 1_000_000, as_json=as_json)
    sys.stderr.write(outcome.err)
    sys.stdout.write(outcome.out)
    sys.exit(outcome.status)


COMMAND = KafkaCommand(
    "groups", callback=command, params=_options(), help=command.__doc__, short_help="Describe, reset and delete consumer groups."
)
