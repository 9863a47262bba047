"""`ottla report`: reads the sources, makes the stories of the groups, and writes them as a page or as JSON.

Lag comes from the table `lag_history` of the pipeline `lag` (docs/pipelines.md).
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.clusters import CommandFailed
from ottla.cli.diagnose import OTHER_SOURCES, SourceOptions, read_sources
from ottla.console.report.report import Report
from ottla.history.reading import Gathered
from ottla.history.story.arrays import LagHistory
from ottla.history.story.stories import StoryOptions
from ottla.protocol.model import TopicPartition
from ottla.text import printable

SAMPLES_MAX: Final = 1_440
STEPS_MS: Final = (250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 86_400_000)
"""The smallest of these with at most so many samples is taken: a minute for a day."""
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
    by_group: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in zip(*(table[name].to_pylist() for name in COLUMNS), strict=True):
        by_group[row[0]].append(row[1:])
    return {group: _history(rows) for group, rows in by_group.items()}


def _history(rows: list[tuple[Any, ...]]) -> LagHistory:
    times = [at_ms for _, _, at_ms, _ in rows]
    from_ms, to_ms = min(times), max(times)
    step_ms = next((step for step in STEPS_MS if (to_ms - from_ms) // step < SAMPLES_MAX), STEPS_MS[-1])
    count = min(SAMPLES_MAX, (to_ms - from_ms) // step_ms + 1)
    found: dict[TopicPartition, list[int]] = {}
    for topic, partition, at_ms, lag in sorted(rows, key=lambda row: row[2]):
        samples = found.setdefault(TopicPartition(topic, partition), [-1] * count)
        at = min(count - 1, (at_ms - from_ms) // step_ms)
        samples[at] = max(samples[at], -1 if lag is None else max(0, lag))
    return LagHistory(from_ms, step_ms, {partition: _filled(samples) for partition, samples in found.items()})


def _filled(samples: list[int]) -> list[int]:
    """With the last known value where there is none."""
    last = -1
    for at, sample in enumerate(samples):
        last = samples[at] = last if sample < 0 else sample
    return samples


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
        lag = {} if options.lag_history is None else read_lag_table(options.lag_history)
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
    return "; ".join(["ottla report", *gathered.notes])
