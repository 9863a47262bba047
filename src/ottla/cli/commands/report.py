"""`ottla report`: why groups rebalanced, as one page to open in a browser."""

import time
from pathlib import Path
from typing import Any

import click


@click.command("report")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Read the cluster's own topics; Ottla or Apache Kafka.")
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
@click.option("--broker-log", "broker_logs", multiple=True, metavar="FILE", help="A broker's log, also gzip or rotated; may be repeated.")
@click.option(
    "--offsets-topic",
    "offsets_topics",
    multiple=True,
    metavar="DIR",
    help="A Kafka data directory, or one with __consumer_offsets-N folders; may be repeated.",
)
@click.option("--client-log", "client_logs", multiple=True, metavar="FILE", help="A consumer's log, of any client; may be repeated.")
@click.option("--archive", "archives", multiple=True, metavar="DIR", help="What `ottla watch` stored; may be repeated.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@click.option("--since", metavar="TIME", help="Only rebalances from then on: 2026-11-22T14:31, 14:31, or how long ago (30m, 2h, 3d).")
@click.option("--until", metavar="TIME", help="Only rebalances before then.")
@click.option("--utc", is_flag=True, help="Times are UTC; without it, of this machine's zone.")
@click.option("--lag-history", type=click.Path(path_type=Path), metavar="DIR", help="The table of `ottla pipeline run lag`, for the lag.")
@click.option("--output", metavar="FILE", help="File to write; - is stdout.  [default: report.html; JSON to stdout]")
@click.option(
    "--format", "output_format", type=click.Choice(["html", "json"]), default="html", show_default=True, help="The page, or its data."
)
@click.option("--anonymise", is_flag=True, help="Replace the names of groups, members, hosts and topics.")
def command(
    groups: tuple[str, ...],
    since: str | None,
    until: str | None,
    utc: bool,
    lag_history: Path | None,
    output: str | None,
    output_format: str,
    anonymise: bool,
    **sources: Any,
) -> None:
    """Write one page that shows why groups rebalanced: members over time, causes, costs, lag, advice.

    Sources are those of `ottla diagnose`, and may be combined. The page holds everything it needs: it opens without a server and asks the
    network for nothing. The exit status is 1 if a source cannot be read, or nothing is found; the reason is printed.
    """
    from datetime import UTC

    from ottla.cli.diagnose.gathering import SourceOptions
    from ottla.cli.diagnose.time_bounds import parse_time_ms
    from ottla.cli.diagnose.time_zones import machine_zone
    from ottla.cli.report.run import ReportOptions, run
    from ottla.core.diagnosis.story.stories import StoryOptions
    from ottla.core.extras import require

    if lag_history is not None:
        require("arrow", "pyarrow")
    zone, now_ms = UTC if utc else machine_zone(), time.time_ns() // 1_000_000
    try:
        bounds = [None if text is None else parse_time_ms(text, now_ms=now_ms, zone=zone) for text in (since, until)]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    options = ReportOptions(
        sources=SourceOptions(groups=groups, **sources),
        stories=StoryOptions(groups=groups, since_ms=bounds[0], until_ms=bounds[1], is_anonymous=anonymise),
        lag_history=lag_history,
        output=output or ("report.html" if output_format == "html" else "-"),
        output_format=output_format,
    )
    run(options, zone=zone)


COMMAND = command
