"""`ottla diagnose`: why groups rebalanced, from whatever evidence there is, and which setting would have avoided it."""

import sys
from typing import Any

import click

from ottla.cli.source_options import TimeRange, source_options, time_options


@click.command("diagnose", short_help="Print why groups rebalanced, and what to set.")
@source_options
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@time_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per rebalance and line.")
def command(groups: tuple[str, ...], times: TimeRange, as_json: bool, **sources: Any) -> None:
    """Say of each rebalance why it happened, how sure that is, and which setting would have avoided it.

    Sources may be combined: each makes the verdicts sharper. FILE and DIR may be patterns, such as 'logs/server.log*'. On a cluster it
    reads __ottla_group_events, which Ottla writes, and __consumer_offsets. The exit status is 1 if no rebalance is found, or a source
    cannot be read; the reason is printed.
    """
    from ottla.cli.diagnose import DiagnoseOptions, SourceOptions, run

    options = DiagnoseOptions(
        sources=SourceOptions(groups=groups, **sources), since_ms=times.since_ms, until_ms=times.until_ms, as_json=as_json
    )
    sys.exit(run(options, zone=times.zone, out=sys.stdout, err=sys.stderr))


COMMAND = command
