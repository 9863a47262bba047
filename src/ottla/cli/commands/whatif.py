"""`ottla whatif`: what a group would have done with other settings."""

import sys
import time
from collections.abc import Sequence
from typing import Any

import click

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


@click.command("whatif")
@click.argument("group")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A setting to change; may be repeated.")
@click.option("--assignor", type=click.Choice(ASSIGNORS), help="The assignor to change to.")
@click.option("--recorded", multiple=True, metavar="NAME=VALUE", help="A setting that the group had and no source shows; may be repeated.")
@click.option("--search", is_flag=True, help="Find the cheapest settings with --at-most unplanned rebalances an hour.")
@click.option("--at-most", type=click.FloatRange(min=0), metavar="N", help="Unplanned rebalances an hour; with --search.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Read the cluster's own topics; Ottla or Apache Kafka.")
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
@click.option("--broker-log", "broker_logs", multiple=True, metavar="FILE", help="A broker's log, also gzip or rotated; may be repeated.")
@click.option("--offsets-topic", "offsets_topics", multiple=True, metavar="DIR", help="As of `ottla diagnose`; may be repeated.")
@click.option("--client-log", "client_logs", multiple=True, metavar="FILE", help="A consumer's log, of any client; may be repeated.")
@click.option("--archive", "archives", multiple=True, metavar="DIR", help="What `ottla watch` stored; may be repeated.")
@click.option("--since", metavar="TIME", help="Only what happened from then on: 2026-11-22T14:31, 14:31, or how long ago (30m, 2h, 3d).")
@click.option("--until", metavar="TIME", help="Only what happened before then.")
@click.option("--utc", is_flag=True, help="Times are UTC; without it, of this machine's zone.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (`ottla docs whatif`).")
def command(
    group: str,
    given: tuple[str, ...],
    assignor: str | None,
    recorded: tuple[str, ...],
    search: bool,
    at_most: float | None,
    since: str | None,
    until: str | None,
    utc: bool,
    as_json: bool,
    **sources: Any,
) -> None:
    """Replay what the members of GROUP did, with other settings, and print what changes.

    Arrivals, closes, silences and slow polls are taken from the evidence and replayed through Ottla's group coordinator, with the recorded
    settings and with those of --set: session.timeout.ms, heartbeat.interval.ms, max.poll.interval.ms, max.poll.records,
    group.instance.id=on|off, group.initial.rebalance.delay.ms. Sources are those of `ottla diagnose`. Nothing is changed in the
    cluster. The exit status is 1 if a source cannot be read, or shows no rebalance of GROUP.
    """
    from datetime import UTC

    from ottla.cli.diagnose.gathering import SourceOptions
    from ottla.cli.diagnose.time_bounds import parse_time_ms
    from ottla.cli.diagnose.time_zones import machine_zone
    from ottla.cli.whatif.run import WhatifOptions, run
    from ottla.core.whatif.settings import parse_settings

    strategy: Sequence[str] = () if assignor is None else (f"partition.assignment.strategy={assignor}",)
    zone, now_ms = UTC if utc else machine_zone(), time.time_ns() // 1_000_000
    try:
        changes, known = parse_settings([*given, *strategy]), parse_settings(recorded)
        bounds = [None if time_text is None else parse_time_ms(time_text, now_ms=now_ms, zone=zone) for time_text in (since, until)]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if search != (at_most is not None):
        raise click.UsageError("--search and --at-most go together")
    if search == bool(changes.texts()):
        raise click.UsageError("give settings with --set or --assignor, or else --search with --at-most")
    options = WhatifOptions(
        sources=SourceOptions(groups=(group,), **sources),
        group=group,
        settings=changes,
        recorded=known,
        at_most=at_most,
        since_ms=bounds[0],
        until_ms=bounds[1],
        as_json=as_json,
    )
    sys.exit(run(options, zone=zone, out=sys.stdout, err=sys.stderr))


COMMAND = command
