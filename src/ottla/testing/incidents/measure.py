"""How often the diagnosis is right on the corpus: `python -m ottla.testing.incidents.measure [--half making|measuring] [--sources ...]`.

Judges every incident once for each set of sources, compares the verdicts with the labels, and prints figures and confusion matrices;
`--write` puts those of the measuring half into docs/diagnosis-accuracy.md.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.core.diagnosis.evidence.model import Source
from ottla.core.diagnosis.verdicts.judging import judge
from ottla.core.diagnosis.verdicts.verdict import Verdict
from ottla.testing.incidents.accuracy_page import accuracy_page, caused, figures_table, matrix_table, set_up
from ottla.testing.incidents.corpus import CORPUS, RecordedIncident, read_corpus
from ottla.testing.incidents.labels import MAKING, MEASURING
from ottla.testing.incidents.scoring import Scored, score, unexplained

PAGE: Final = Path("docs", "diagnosis-accuracy.md")


@dataclass(frozen=True, slots=True)
class SourceSet:
    """Sources that people have together, and on which cluster."""

    name: str
    sources: frozenset[Source]
    cluster: str | None = None


SETS: Final = (
    SourceSet("own events", frozenset({Source.GROUP_EVENTS}), "ottla"),
    SourceSet("broker log", frozenset({Source.BROKER_LOG}), "apache-kafka"),
    SourceSet("offsets topic", frozenset({Source.OFFSETS_TOPIC})),
    SourceSet("client logs", frozenset({Source.CLIENT_LOG})),
    SourceSet("broker log + client logs", frozenset({Source.BROKER_LOG, Source.CLIENT_LOG}), "apache-kafka"),
    SourceSet("all", frozenset(Source)),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What became of the incidents with one set of sources. unexplained: verdicts outside of every label's time."""

    name: str
    scored: list[Scored]
    unexplained: int


def measure(incidents: Sequence[RecordedIncident], sets: Iterable[SourceSet] = SETS) -> list[Measured]:
    """Judge the incidents with each set of sources."""
    return [_measure_set(incidents, each) for each in sets]


def _measure_set(incidents: Sequence[RecordedIncident], chosen: SourceSet) -> Measured:
    scored: list[Scored] = []
    outside = 0
    for recorded in incidents:
        incident = recorded.incident
        if chosen.cluster in (None, incident.cluster):
            verdicts = verdicts_of(recorded, chosen.sources)
            scored += score(incident, verdicts)
            outside += unexplained(incident, verdicts)
    return Measured(chosen.name, scored, outside)


def verdicts_of(recorded: RecordedIncident, sources: frozenset[Source]) -> list[Verdict]:
    """The verdicts on an incident's group, from some of its sources."""
    evidence = [item for source, items in recorded.evidence.items() if source in sources for item in items]
    return judge(evidence).get(recorded.incident.group, [])


def in_half(recorded: Iterable[RecordedIncident], half: str) -> list[RecordedIncident]:
    """The incidents of one half."""
    return [each for each in recorded if each.incident.half == half]


def wrong_lines(measured: Measured) -> list[str]:
    """One line for each verdict that is wrong."""
    return [_wrong_line(each) for each in measured.scored if not each.is_right]


def _wrong_line(scored: Scored) -> str:
    incident, verdict = scored.incident, scored.verdict
    who = f"{incident.id} {incident.action} {incident.protocol} {'/'.join(incident.clients)} actor {incident.actor}"
    found = f"{scored.label.cause} taken for {scored.found} ({scored.confidence})"
    candidates = "" if verdict is None else f" of {', '.join(verdict.candidates)} by {', '.join(verdict.rules)}"
    return f"{who}: {found}{candidates}"


def main(arguments: Sequence[str], *, write: Callable[[str], object] = sys.stdout.write) -> int:
    """Print the figures, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=[MAKING, MEASURING], default=MEASURING)
    parser.add_argument("--sources", choices=[each.name for each in SETS], action="append", help="one set of sources; may be repeated")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--wrong", action="store_true", help="list each verdict that is wrong (the making half only)")
    parser.add_argument("--write", action="store_true", help=f"write the measuring half into {PAGE}")
    given = parser.parse_args(arguments)
    if given.wrong and given.half == MEASURING:
        parser.error("--wrong is for --half making: rules are not made with the measuring half")
    incidents = list(read_corpus(given.corpus))
    if given.write:
        PAGE.write_text(accuracy_page([each.incident for each in incidents], measure(in_half(incidents, MEASURING))))
        return 0
    sets = [each for each in SETS if given.sources is None or each.name in given.sources]
    for measured in measure(in_half(incidents, given.half), sets):
        write(f"\n{measured.name}\n\n{figures_table([*caused([measured]), *set_up([measured])])}\n{matrix_table(measured.scored)}")
        write("".join(f"{line}\n" for line in wrong_lines(measured)) if given.wrong else "")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
