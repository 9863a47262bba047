"""`ottla doctor`: is the cleaner ill or behind, and how fast do the topics grow? It asks a running broker, or looks at a data directory."""

import json
import sys
from pathlib import Path
from typing import Any

import click

HEALTHY, ILL, CANNOT_TELL = 0, 1, 2


@click.command("doctor")
@click.option("--metrics", metavar="HOST:PORT", help="Ask the running broker that serves its metrics there (or an http:// URL).")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Look at a data directory, Ottla's or Apache Kafka's, whether its broker runs or not.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything that is known, as JSON.")
@click.option("--all", "show_all", is_flag=True, help="List every topic, not only compacted and growing ones.")
def command(metrics: str | None, data: Path | None, as_json: bool, show_all: bool) -> None:
    """Say whether the log cleaner is ill or falls behind, how fast the topics grow, and what to do.

    Nothing is changed. Exit status: 0 all is well, 1 something is ill, 2 cannot tell.
    """
    from rich.console import Console

    from ottla.cli.doctor import CannotTellError, ask_broker, look_at_directory, show

    if (metrics is None) == (data is None):
        raise click.UsageError("say what to look at: --metrics HOST:PORT for a running broker, or --data DIR for its files")
    try:
        report: dict[str, Any] = ask_broker(metrics) if metrics is not None else look_at_directory(data or Path())
    except CannotTellError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(CANNOT_TELL)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        show(report, Console(), show_all=show_all)
    sys.exit(HEALTHY if report["healthy"] else ILL)


COMMAND = command
