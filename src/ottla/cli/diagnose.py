"""One run of `ottla diagnose`: reads the sources, judges every rebalance, prints the incidents, or the verdicts.

The sources that a command line names are read here for every command that tells the history of groups.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final, TextIO

from ottla.cli.clusters import CommandFailed, client_settings, of_error
from ottla.cli.incident_screen import LINES, first_screen
from ottla.cli.text_tables import WIDTH, table, wrapped
from ottla.client.errors import ClientError
from ottla.history.incidents import find_incidents
from ottla.history.patterns import sentences
from ottla.history.reading import Gathered, Sources, gather
from ottla.history.sources.evidence import SourceError
from ottla.history.story.incident_texts import YES_NO, incident_dict
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
    times = [datetime.fromtimestamp(verdict.started_ms / 1000, zone) for verdict in verdicts]
    return table(titles, times, [_cells(verdict, several=several) for verdict in verdicts], width)


def _cells(verdict: Verdict, *, several: bool) -> list[str]:
    return [
        *([printable(verdict.group)] if several else []),
        "-" if verdict.generation is None else str(verdict.generation),
        verdict.cause.value,
        verdict.confidence.name.lower(),
        YES_NO[verdict.planned],
        "avoided" if verdict.kind == AVOIDED else YES_NO[verdict.avoidable],
        "-" if verdict.who is None else printable(verdict.who.label),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseOptions:
    """What to read, and what to print of rebalances that started in [since_ms, until_ms): incidents, or each rebalance."""

    sources: SourceOptions
    since_ms: int | None = None
    until_ms: int | None = None
    as_json: bool = False
    as_rebalances: bool = False


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
    incidents = [] if options.as_rebalances else find_incidents(verdicts)
    if options.as_json:
        lines = [incident_dict(each, time_text=lambda at_ms: time_text(at_ms, zone)) for each in incidents]
        _print_json([*lines, *(verdict.to_dict() for verdict in verdicts)], gathered, out, err)
    elif options.as_rebalances or not verdicts:
        _print_text(by_group, gathered, zone, out)
    else:
        out.write("\n".join(first_screen(incidents, zone=zone, width=_width_of(out), height=_height_of(out)).lines) + "\n")
    _print_waiting(gathered, out=err if options.as_json else out)
    if not verdicts and gathered.waiting:
        return OK
    if not verdicts:
        err.write(f"{_why_nothing(gathered, options)}\n")
        return NOTHING_FOUND
    return OK


def _is_wanted(verdict: Verdict, options: DiagnoseOptions) -> bool:
    since_ms, until_ms = options.since_ms, options.until_ms
    return (since_ms is None or verdict.started_ms >= since_ms) and (until_ms is None or verdict.started_ms < until_ms)


def time_text(at_ms: int, zone: tzinfo) -> str:
    """A time of day, with its date."""
    return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%Y-%m-%d %H:%M:%S")


def _print_json(lines: Sequence[Mapping[str, Any]], gathered: Gathered, out: TextIO, err: TextIO) -> None:
    for line in lines:
        out.write(json.dumps(line) + "\n")
    for note in gathered.notes:
        err.write(f"{note}\n")


def _print_waiting(gathered: Gathered, *, out: TextIO) -> None:
    for sentence in gathered.waiting:
        out.write("\n" + "\n".join(wrapped(f"{sentence}.")) + "\n")


def _width_of(out: TextIO) -> int:
    return max(WIDTH, shutil.get_terminal_size().columns) if out.isatty() else WIDTH


def _height_of(out: TextIO) -> int:
    # The last line is the prompt's.
    return max(LINES, shutil.get_terminal_size().lines - 1) if out.isatty() else LINES


def _print_text(by_group: dict[str, list[Verdict]], gathered: Gathered, zone: tzinfo, out: TextIO) -> None:
    everything = sorted((verdict for of_group in by_group.values() for verdict in of_group), key=_started_ms)
    if everything:
        out.write("\n".join(verdict_table(everything, zone=zone, width=_width_of(out))) + "\n")

    def time_of_day(at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%H:%M:%S")

    for group, verdicts in by_group.items():
        if verdicts:
            out.write(f"\n{printable(group)}\n")
            for sentence in sentences(verdicts, time_text=time_of_day):
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
