"""`ottla diagnose`: why groups rebalanced, from whatever evidence there is, and which setting would have avoided it."""

import sys
from typing import Any

import click

from ottla.cli.source_options import TimeRange, source_options, time_options


@click.command("diagnose", short_help="Print why groups rebalanced, and what to set.")
@source_options
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@time_options
@click.option("--rebalances", is_flag=True, help="Print each rebalance, not only incidents, with advice and what was read.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, an object a line: the incidents, then each rebalance.")
def command(groups: tuple[str, ...], times: TimeRange, rebalances: bool, as_json: bool, **sources: Any) -> None:
    """Say what happened to groups and to whom, how sure that is, and which setting would have avoided it.

    It prints incidents on one screen, each of one or many rebalances; with --rebalances only each rebalance and its cause.

    Sources may be combined: each makes the verdicts sharper. FILE and DIR may be patterns, such as 'logs/server.log*'. On a cluster it
    reads __ottla_group_events, which Ottla writes, and __consumer_offsets. The exit status is 1 if no rebalance is found, or a source
    cannot be read; the reason is printed.
    """
    from ottla.cli.diagnose import DiagnoseOptions, SourceOptions, run

    options = DiagnoseOptions(
        sources=SourceOptions(groups=groups, **sources),
        since_ms=times.since_ms,
        until_ms=times.until_ms,
        as_json=as_json,
        as_rebalances=rebalances,
    )
    sys.exit(run(options, zone=times.zone, out=sys.stdout, err=sys.stderr))


COMMAND = command
