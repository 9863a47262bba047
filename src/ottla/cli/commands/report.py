"""`ottla report`: why groups rebalanced, as one page to open in a browser."""

from pathlib import Path
from typing import Any

import click

from ottla.cli.source_options import TimeRange, source_options, time_options


@click.command("report", short_help="Draw why groups rebalanced, as one page.")
@source_options
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@time_options
@click.option("--lag-history", type=click.Path(path_type=Path), metavar="DIR", help="The table of `ottla pipeline run lag`, for the lag.")
@click.option("--output", metavar="FILE", help="File to write; - is stdout.  [default: report.html; JSON to stdout]")
@click.option(
    "--format", "output_format", type=click.Choice(["html", "json"]), default="html", show_default=True, help="The page, or its data."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--anonymise", is_flag=True, help="Replace the names of groups, members, hosts and topics.")
def command(
    groups: tuple[str, ...],
    times: TimeRange,
    lag_history: Path | None,
    output: str | None,
    output_format: str,
    as_json: bool,
    anonymise: bool,
    **sources: Any,
) -> None:
    """Write one page that shows why groups rebalanced: members over time, causes, costs, lag, advice.

    Sources are those of `ottla diagnose`, and may be combined. The page holds everything it needs: it opens without a server and asks the
    network for nothing. The exit status is 1 if a source cannot be read, or nothing is found; the reason is printed.
    """
    from ottla.cli.diagnose import SourceOptions
    from ottla.cli.report import ReportOptions, run
    from ottla.extras import require
    from ottla.history.story.stories import StoryOptions

    output_format = "json" if as_json else output_format
    if lag_history is not None:
        require("arrow", "pyarrow")
    options = ReportOptions(
        sources=SourceOptions(groups=groups, **sources),
        stories=StoryOptions(groups=groups, since_ms=times.since_ms, until_ms=times.until_ms, is_anonymous=anonymise),
        lag_history=lag_history,
        output=output or ("report.html" if output_format == "html" else "-"),
        output_format=output_format,
    )
    run(options, zone=times.zone)


COMMAND = command
