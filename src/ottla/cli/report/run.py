"""One run of `ottla report`: reads the sources, makes the stories, writes the page."""

from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

import click

from ottla.cli.diagnose.gathering import Gathered, SourceOptions, gather
from ottla.cli.diagnose.offsets_topic import SourceError
from ottla.cli.diagnose.run import NO_SOURCE, OTHER_SOURCES
from ottla.cli.groups.failures import CommandFailed, of_error
from ottla.cli.report.lag_table import LagTableError, read_lag_table
from ottla.cli.report.output import write_report
from ottla.client.errors import ClientError
from ottla.console.report.report import Report
from ottla.core.diagnosis.story.stories import StoryOptions
from ottla.core.errors import PeerError
from ottla.core.text import printable


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
    if not options.sources.names_a_source:
        raise click.ClickException(NO_SOURCE)
    try:
        gathered = gather(options.sources, zone=zone)
        lag = {} if options.lag_history is None else read_lag_table(options.lag_history)
    except (SourceError, CommandFailed, LagTableError, ValueError) as error:
        raise click.ClickException(printable(str(error))) from error
    except (ClientError, PeerError) as error:
        raise click.ClickException(printable(str(of_error(error)))) from error
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
