"""`ottla report`: reads the sources, makes the stories of the groups, and writes them as a page or as JSON.

Lag comes from the table `lag_history` of the pipeline `lag` (docs/pipelines.md), or from the looks in archives of `ottla watch`.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Final

import click

from ottla.cli.clusters import CommandFailed
from ottla.cli.diagnose import OTHER_SOURCES, SourceOptions, read_sources
from ottla.console.report.report import Report
from ottla.history.lag import LagSample, lag_history, lag_of_archives
from ottla.history.reading import Gathered, directories
from ottla.history.story.arrays import LagHistory
from ottla.history.story.stories import StoryOptions
from ottla.text import printable

COLUMNS: Final = ("group", "topic", "partition", "at", "lag")


class LagTableError(Exception):
    """The table cannot be read; the text says why."""


def read_lag_table(directory: Path) -> dict[str, LagHistory]:
    """The lag of each group in a directory of Parquet files: the greatest of each step, kept until the next known one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(directory, columns=list(COLUMNS))
    except (OSError, pa.ArrowException) as error:
        raise LagTableError(f"{directory} is no table lag_history: {error}") from error
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise LagTableError(f"{directory} is no table lag_history: it has no column {', '.join(missing)}")
    table = table.set_column(table.column_names.index("at"), "at", table["at"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()))
    by_group: dict[str, list[LagSample]] = defaultdict(list)
    for row in zip(*(table[name].to_pylist() for name in COLUMNS), strict=True):
        by_group[row[0]].append(LagSample(*row[1:]))
    return {group: lag_history(samples) for group, samples in by_group.items()}


STDOUT = "-"


def write_report(report: Report, *, output: str, output_format: str) -> None:
    """Write the report. Raises click.ClickException when the file cannot be written."""
    text = report.html() if output_format == "html" else json.dumps(report.to_dict(), indent=1, ensure_ascii=False) + "\n"
    if output == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror or error}") from error
    click.echo("\n".join(map(printable, str(report).splitlines())))
    click.echo(f"\n{output}: {len(text.encode('utf-8', 'replace')):,} bytes", err=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What to read, what of it to show, and where to."""

    sources: SourceOptions
    stories: StoryOptions
    lag_history: Path | None
    output: str
    output_format: str


def run(options: ReportOptions, *, zone: tzinfo) -> None:
    """Write the report. Raises click.ClickException with a sentence where a source cannot be read or shows nothing."""
    try:
        gathered = read_sources(options.sources, zone=zone)
        archives = [directory for pattern in options.sources.archives for directory in directories(pattern)]
        lag = lag_of_archives(archives) | ({} if options.lag_history is None else read_lag_table(options.lag_history))
    except (CommandFailed, LagTableError) as error:
        raise click.ClickException(printable(str(error))) from error
    report = Report.of_evidence(gathered.evidence, options=options.stories, lag=lag, note=_note(gathered, options))
    if not report.stories:
        asked = f" of {', '.join(map(printable, options.sources.groups))}" if options.sources.groups else ""
        raise click.ClickException(f"no evidence{asked} was found. {OTHER_SOURCES}")
    write_report(report, output=options.output, output_format=options.output_format)


def _note(gathered: Gathered, options: ReportOptions) -> str:
    """What was read; not in an anonymous report, as it names files and servers."""
    if options.stories.is_anonymous:
        return "ottla report --anonymise"
    return "; ".join(["ottla report", *gathered.notes, *gathered.waiting])
