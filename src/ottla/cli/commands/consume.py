"""`ottla consume`: prints the records of topics, on Ottla and on Apache Kafka."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.options import SettingType

if TYPE_CHECKING:
    from ottla.cli.consume import Render


@click.command("consume", short_help="Print the records of topics.")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT,...", help="The brokers to connect to first; Ottla or Apache Kafka.")
@click.option(
    "--topic", "topics", required=True, multiple=True, metavar="TOPIC", help="A topic, or a pattern as ^flights; may be repeated."
)
@click.option("--group", metavar="GROUP", help="Read as a member of this group, and commit what was printed.")
@click.option(
    "--group-protocol",
    "protocol",
    type=click.Choice(["classic", "consumer"]),
    help="How the member of --group joins; consumer is that of Kafka 4 (KIP-848). Default: classic.",
)
@click.option(
    "--partition", "partitions", multiple=True, type=click.IntRange(0), metavar="N", help="Read this partition only; may be repeated."
)
@click.option(
    "--offset",
    default="beginning",
    show_default=True,
    metavar="WHERE",
    help="Begin here: beginning, end, stored (by --group), N, -N (records before the end), @TIMESTAMP (milliseconds or ISO 8601).",
)
@click.option("-f", "--format", "text", metavar="FORMAT", help=r"How to print a record, as kcat: '%t %p %o %k %s\n'. Default: '%s\n'.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per record.")
@click.option("--key-only", is_flag=True, help=r"The same as --format '%k\n'.")
@click.option("--null", default="", metavar="TEXT", help="Print this for keys and values that are null. Default: nothing.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after this many records.")
@click.option("--exit-at-end", is_flag=True, help="End when every partition has been read to its end.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0), metavar="SECONDS", help="End when no record has come for this long.")
@click.option(
    "--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), help="Default: read_committed, as in librdkafka."
)
@click.option(
    "--config",
    multiple=True,
    type=SettingType("fetch.min.bytes=1"),
    metavar="NAME=VALUE",
    help="A property of the consumer (`ottla docs consumer`); may be repeated.",
)
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
def command(bootstrap_server: str, topics: tuple[str, ...], **given: Any) -> None:
    r"""Print the records of topics, until Ctrl-C or one of --count, --exit-at-end and --timeout.

    With --group it is a member of that group: partitions are shared with the other members, reading begins at the committed offsets (at
    --offset where there is none), and what was printed is committed. Otherwise, or with --partition, it reads the partitions that it is
    given, and commits nothing.

    Formats: %t topic, %p partition, %o offset, %T timestamp in milliseconds,
    %k key, %K bytes of the key, %s value, %S bytes of the value (-1: null),
    %h headers, %% a percent sign; \n, \t, \r, \0, \\ and \xHH.

    The exit status is 1 if something cannot be read, and if --timeout ends it before --count does.
    """
    from ottla.cli.consume import BEGINNING, END, STORED, ConsumeOptions, ConsumerSource, Limits, parse_start, run, write_all

    group, partitions = given["group"], given["partitions"]
    is_member = group is not None and not partitions
    try:
        start = parse_start(given["offset"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--offset") from error
    if is_member and start not in (BEGINNING, END):
        raise click.UsageError(
            "a group's members begin at its committed offsets: --offset can only be beginning or end, for partitions without one"
            " (`ottla groups --reset-offsets` changes the others)"
        )
    if start == STORED and group is None:
        raise click.UsageError("--offset stored needs --group and --partition: whose committed offsets?")
    if given["protocol"] is not None and not is_member:
        raise click.UsageError("--group-protocol is for members of a group: it needs --group, and no --partition")
    source = ConsumerSource(
        bootstrap_server=bootstrap_server,
        group=group,
        is_member=is_member,
        reset="latest" if start == END else "earliest",
        isolation_level=given["isolation_level"],
        protocol=given["protocol"],
        command_config=given["command_config"],
        config=given["config"],
    )
    limits = Limits(count=given["count"], at_end=given["exit_at_end"], timeout_s=given["timeout_s"])
    options = ConsumeOptions(source=source, topics=topics, render=_render(given), partitions=partitions, start=start, limits=limits)
    sys.exit(run(options, write=write_all, err=sys.stderr, shows_progress=not os.isatty(1)))


def _render(given: dict[str, Any]) -> "Render":
    from ottla.cli.consume import json_lines, text_format

    if (given["text"] is not None) + given["as_json"] + given["key_only"] > 1:
        raise click.UsageError("choose one of --format, --json and --key-only")
    if given["as_json"]:
        return json_lines
    text = r"%k\n" if given["key_only"] else given["text"]
    try:
        return text_format(r"%s\n" if text is None else text, null=given["null"].encode())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from error


COMMAND = command
