"""One run of `ottla diagnose`: reads the sources, judges every rebalance, prints the verdicts."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final, TextIO

from ottla.cli.clusters import CommandFailed
from ottla.cli.diagnose.sources import OTHER_SOURCES, SourceOptions, read_sources
from ottla.cli.diagnose.verdict_table import WIDTH, verdict_table, wrapped
from ottla.history.patterns import sentences
from ottla.history.reading import Gathered
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import Verdict
from ottla.text import printable

OK: Final = 0
NOTHING_FOUND: Final = 1

COMPACTED: Final = (
    "Kafka compacts the offsets topic: of each group only the newest state stays, not its history. "
    "`ottla watch` keeps what comes from now on; the coordinator's log (--broker-log) names causes."
)


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
