"""`ottla doctor`: the health of the log cleaner and the growth of topics, from a running broker or from a data directory."""

import json
import sys
from pathlib import Path
from typing import Any

import click

HEALTHY, UNHEALTHY, UNKNOWN = 0, 1, 2


@click.command("doctor", short_help="Check the log cleaner and the growth of topics.")
@click.option("--metrics", metavar="HOST:PORT", help="Ask the running broker that serves its metrics there (or an http:// URL).")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Inspect a data directory, Ottla's or Apache Kafka's, whether its broker runs or not.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything that is known, as JSON.")
@click.option("--all", "show_all", is_flag=True, help="List every topic, not only compacted and growing ones.")
def command(metrics: str | None, data: Path | None, as_json: bool, show_all: bool) -> None:
    """Show whether the log cleaner is healthy and keeps up, how fast topics grow, and what to do.

    Consumer groups are not inspected: `ottla groups` and `ottla diagnose` do that. Nothing is changed. Exit status: 0 healthy, 1 unhealthy,
    2 unknown.
    """
    from rich.console import Console

    from ottla.cli.doctor import HealthUnknownError, ask_broker, inspect_directory, show

    if (metrics is None) == (data is None):
        raise click.UsageError("say what to inspect: --metrics HOST:PORT for a running broker, or --data DIR for its files")
    try:
        report: dict[str, Any] = ask_broker(metrics) if metrics is not None else inspect_directory(data or Path())
    except HealthUnknownError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(UNKNOWN)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        show(report, Console(), show_all=show_all)
    sys.exit(HEALTHY if report["healthy"] else UNHEALTHY)


COMMAND = command
