"""`ottla whatif`: what a group would have done with other settings."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from ottla.cli.options import AssignorType
from ottla.cli.source_options import TimeRange, source_options, time_options
from ottla.config.broker_settings import CONSUMER_ASSIGNORS


@click.command("whatif", short_help="Replay a group's rebalances with other settings.")
@click.argument("group")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A setting to change; may be repeated.")
@click.option(
    "--assignor",
    type=AssignorType(more=CONSUMER_ASSIGNORS),
    help="The assignor to change to, or your own as module:Class (`ottla docs assignors`).",
)
@click.option("--group-protocol", type=click.Choice(["classic", "consumer"]), help="The group protocol to change to (KIP-848: consumer).")
@click.option("--recorded", multiple=True, metavar="NAME=VALUE", help="A setting that the group had and no source shows; may be repeated.")
@click.option("--search", is_flag=True, help="Find the cheapest settings with --at-most unplanned rebalances an hour.")
@click.option("--at-most", type=click.FloatRange(min=0), metavar="N", help="Unplanned rebalances an hour; with --search.")
@source_options
@time_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (`ottla docs whatif`).")
def command(
    group: str,
    given: tuple[str, ...],
    assignor: str | None,
    group_protocol: str | None,
    recorded: tuple[str, ...],
    search: bool,
    at_most: float | None,
    times: TimeRange,
    as_json: bool,
    **sources: Any,
) -> None:
    """Replay what the members of GROUP did, with other settings, and print what changes.

    Arrivals, closes, silences and slow polls are taken from the evidence and replayed through Ottla's group coordinator, with the recorded
    settings and with those of --set: session.timeout.ms, heartbeat.interval.ms, max.poll.interval.ms, max.poll.records,
    group.instance.id=on|off, group.initial.rebalance.delay.ms; --group-protocol replays the group on the other protocol. Sources are those
    of `ottla diagnose`. Nothing is changed in the cluster. The exit status is 1 if a source cannot be read, or shows no rebalance of GROUP.
    """
    from ottla.cli.diagnose import SourceOptions
    from ottla.cli.whatif import WhatifOptions, run
    from ottla.history.whatif.settings import parse_settings

    strategy: Sequence[str] = () if assignor is None else (f"partition.assignment.strategy={assignor}",)
    protocol: Sequence[str] = () if group_protocol is None else (f"group.protocol={group_protocol}",)
    try:
        changes, known = parse_settings([*given, *strategy, *protocol]), parse_settings(recorded)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if search != (at_most is not None):
        raise click.UsageError("--search and --at-most go together")
    if search == bool(changes.texts()):
        raise click.UsageError("give settings with --set, --assignor or --group-protocol, or else --search with --at-most")
    options = WhatifOptions(
        sources=SourceOptions(groups=(group,), **sources),
        group=group,
        settings=changes,
        recorded=known,
        at_most=at_most,
        since_ms=times.since_ms,
        until_ms=times.until_ms,
        as_json=as_json,
    )
    sys.exit(run(options, zone=times.zone, out=sys.stdout, err=sys.stderr))


COMMAND = command
