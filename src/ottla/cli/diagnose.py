"""One run of `ottla diagnose`: reads the sources, judges every rebalance, prints the verdicts.

The sources that a command line names are read here for every command that tells the history of groups. The table of verdicts has one line
each, as wide as the terminal, and a line with the date where the day changes.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final, TextIO

from ottla.cli.clusters import CommandFailed, client_settings, of_error
from ottla.client.errors import ClientError
from ottla.history.patterns import sentences
from ottla.history.reading import Gathered, Sources, gather
from ottla.history.sources.evidence import SourceError
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import AVOIDED, Verdict
from ottla.protocol.errors import PeerError
from ottla.text import printable

CLIENT_ID: Final = "ottla-diagnose"
NO_SOURCE: Final = (
    "nothing to read: give --bootstrap-server HOST:PORT for a running cluster, --broker-log FILE for the log of a coordinator, "
    "--offsets-topic DIR for a data directory, --archive DIR for what `ottla watch` stored, or --client-log FILE"
)
OTHER_SOURCES: Final = (
    "The lines of the group coordinator are in the broker's log of level INFO; a cluster's history is in its offsets topic and in the "
    "archives of `ottla watch`."
)

WIDTH: Final = 80
"""Columns of a terminal, and of files and pipes. A wider terminal shows more of the names."""
_YES_NO: Final = {True: "yes", False: "no", None: "?"}
_NAME_MIN: Final = 6

OK: Final = 0
NOTHING_FOUND: Final = 1

COMPACTED: Final = (
    "Kafka compacts the offsets topic: of each group only the newest state stays, not its history. "
    "`ottla watch` keeps what comes from now on; the coordinator's log (--broker-log) names causes."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a command line names. Files and directories may be patterns."""

    bootstrap_server: str | None = None
    command_config: str | None = None
    broker_logs: Sequence[str] = ()
    client_logs: Sequence[str] = ()
    offsets_topics: Sequence[str] = ()
    archives: Sequence[str] = ()
    groups: Sequence[str] = ()


def read_sources(options: SourceOptions, *, zone: tzinfo) -> Gathered:
    """All evidence; `zone`: of times without one. Raises CommandFailed with a sentence where a source cannot be used."""
    try:
        server, client = options.bootstrap_server, None
        if server:
            client = client_settings(server, options.command_config, client_id=CLIENT_ID)
        sources = Sources(
            broker_logs=options.broker_logs,
            client_logs=options.client_logs,
            offsets_topics=options.offsets_topics,
            archives=options.archives,
            client=client,
            groups=options.groups,
        )
        if not sources:
            raise CommandFailed(NO_SOURCE)
        return gather(sources, zone=zone)
    except (SourceError, CommandFailed, ValueError) as error:
        raise CommandFailed(printable(str(error))) from error
    except (ClientError, PeerError) as error:
        raise CommandFailed(printable(str(of_error(error)))) from error


def verdict_table(verdicts: Sequence[Verdict], *, zone: tzinfo, width: int = WIDTH) -> list[str]:
    """The lines, in the order of the verdicts; the group has a column where there are several."""
    several = len({verdict.group for verdict in verdicts}) > 1
    titles = ["started", *(["group"] if several else []), "gen", "cause", "sure", "planned", "avoidable", "who"]
    rows = [_cells(verdict, zone, several=several) for verdict in verdicts]
    widths = _widths(titles, rows, width)
    lines = [_line(titles, widths)]
    day = None
    for verdict, row in zip(verdicts, rows, strict=True):
        date = datetime.fromtimestamp(verdict.started_ms / 1000, zone).date()
        if date != day:
            lines.append(str(date))
            day = date
        lines.append(_line(row, widths))
    return lines


def _cells(verdict: Verdict, zone: tzinfo, *, several: bool) -> list[str]:
    started = datetime.fromtimestamp(verdict.started_ms / 1000, zone)
    return [
        started.strftime("%H:%M:%S"),
        *([printable(verdict.group)] if several else []),
        "-" if verdict.generation is None else str(verdict.generation),
        verdict.cause.value,
        verdict.confidence.name.lower(),
        _YES_NO[verdict.planned],
        "avoided" if verdict.kind == AVOIDED else _YES_NO[verdict.avoidable],
        "-" if verdict.who is None else printable(verdict.who.label),
    ]


def _widths(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """As wide as the longest text; names share what the other columns leave."""
    widths = [max(len(row[at]) for row in (titles, *rows)) for at in range(len(titles))]
    names = [at for at, title in enumerate(titles) if title in ("group", "who")]
    left = width - sum(wanted for at, wanted in enumerate(widths) if at not in names) - (len(titles) - 1)
    for position, at in enumerate(names):
        share = left // (len(names) - position)
        widths[at] = min(widths[at], max(_NAME_MIN, share))
        left -= widths[at]
    return widths


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(_cut(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cut(text: str, width: int) -> str:
    """Names mostly differ at the end: what is left out is their middle."""
    if len(text) <= width:
        return text
    end = width // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def wrapped(text: str) -> Iterator[str]:
    """A sentence in lines of the table's width, the later ones indented."""
    line = "-"
    for word in text.split():
        if len(line) + 1 + len(word) > WIDTH:
            yield line
            line = " "
        line += f" {word}"
    yield line


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseOptions:
    """What to read, and which verdicts to print: those of rebalances that started in [since_ms, until_ms)."""

    sources: SourceOptions
    since_ms: int | None = None
    until_ms: int | None = None
    as_json: bool = False


def run(options: DiagnoseOptions, *, zone: tzinfo, out: TextIO, err: TextIO) -> int:
    """Print the verdicts; returns the exit status. `zone`: of times without one, and of those that are printed."""
    try:
        gathered = read_sources(options.sources, zone=zone)
    except CommandFailed as error:
        err.write(f"Error: {error}\n")
        return NOTHING_FOUND
    by_group = {
        group: [verdict for verdict in verdicts if _is_wanted(verdict, options)]
        for group, verdicts in sorted(judge(gathered.evidence).items())
        if not options.sources.groups or group in options.sources.groups
    }
    verdicts = [verdict for of_group in by_group.values() for verdict in of_group]
    if options.as_json:
        _print_json(verdicts, gathered, out, err)
    else:
        _print_text(by_group, gathered, zone, out)
    if not verdicts:
        err.write(f"{_why_nothing(gathered, options)}\n")
        return NOTHING_FOUND
    return OK


def _is_wanted(verdict: Verdict, options: DiagnoseOptions) -> bool:
    since_ms, until_ms = options.since_ms, options.until_ms
    return (since_ms is None or verdict.started_ms >= since_ms) and (until_ms is None or verdict.started_ms < until_ms)


def _print_json(verdicts: Sequence[Verdict], gathered: Gathered, out: TextIO, err: TextIO) -> None:
    for verdict in verdicts:
        out.write(json.dumps(verdict.to_dict()) + "\n")
    for note in gathered.notes:
        err.write(f"{note}\n")


def _print_text(by_group: dict[str, list[Verdict]], gathered: Gathered, zone: tzinfo, out: TextIO) -> None:
    everything = sorted((verdict for of_group in by_group.values() for verdict in of_group), key=_started_ms)
    if everything:
        width = max(WIDTH, shutil.get_terminal_size().columns) if out.isatty() else WIDTH
        out.write("\n".join(verdict_table(everything, zone=zone, width=width)) + "\n")

    def time_text(at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%H:%M:%S")

    for group, verdicts in by_group.items():
        if verdicts:
            out.write(f"\n{printable(group)}\n")
            for sentence in sentences(verdicts, time_text=time_text):
                out.write("\n".join(wrapped(printable(sentence))) + "\n")
    if gathered.notes:
        out.write("\nWhat was read\n")
        for note in gathered.notes:
            out.write("\n".join(wrapped(note)) + "\n")


def _started_ms(verdict: Verdict) -> int:
    return verdict.started_ms


def _why_nothing(gathered: Gathered, options: DiagnoseOptions) -> str:
    if not gathered.evidence:
        return f"No evidence of any rebalance was found. {COMPACTED if options.sources.bootstrap_server else OTHER_SOURCES}"
    if options.since_ms is not None or options.until_ms is not None or options.sources.groups:
        return "No rebalance of these groups and times was found."
    return f"Groups were found, and no rebalance of theirs. {COMPACTED}"
