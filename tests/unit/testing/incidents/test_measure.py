"""The diagnosis is as often right on the measuring half of the corpus as docs/diagnosis-accuracy.md says, and as often as it must be."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.core.diagnosis.evidence.model import Source
from ottla.testing.incidents import measure as measure_module
from ottla.testing.incidents.accuracy_page import accuracy_page
from ottla.testing.incidents.aims import reached
from ottla.testing.incidents.corpus import CORPUS, RecordedIncident
from ottla.testing.incidents.labels import MAKING, MEASURING
from ottla.testing.incidents.measure import PAGE, SETS, Measured, in_half, main, measure, verdicts_of, wrong_lines

ROOT = Path(__file__).parents[4]

NOT_YET = {
    "own events: right",
    "broker log, where it cannot: the cause is among the candidates",
    "broker log + client logs: right",
}
"""Aims that are not reached on the measuring half. May only shrink."""
FLOORS = {
    "own events: right": 0.97,
    "broker log, where it cannot: the cause is among the candidates": 0.96,
    "broker log + client logs: right": 0.94,
}
"""What holds until then."""


@pytest.fixture(scope="module")
def corpus(recorded_incidents: Sequence[RecordedIncident]) -> list[RecordedIncident]:
    return list(recorded_incidents)


@pytest.fixture(scope="module")
def measured(corpus: list[RecordedIncident]) -> list[Measured]:
    return measure(in_half(corpus, MEASURING))


def test_the_corpus_is_large_and_whole(corpus: list[RecordedIncident]) -> None:
    clusters = [each.incident.cluster for each in corpus]
    assert clusters.count("apache-kafka") >= 150
    assert clusters.count("ottla") >= 60
    assert sum(path.stat().st_size for path in (ROOT / CORPUS).rglob("*")) < 3_000_000


def test_aims_are_reached_or_known_not_to_be(measured: list[Measured]) -> None:
    found = {each.aim.name: each for each in reached((one.name, one.scored) for one in measured)}
    assert {name for name, each in found.items() if not each.is_met} <= NOT_YET
    for name, floor in FLOORS.items():
        share = found[name].share
        assert share is not None
        assert share >= floor, name


def test_the_page_is_of_this_corpus_and_these_rules(corpus: list[RecordedIncident], measured: list[Measured]) -> None:
    assert (ROOT / PAGE).read_text() == accuracy_page([each.incident for each in corpus], measured), "make accuracy"


def test_verdicts_need_evidence(corpus: list[RecordedIncident]) -> None:
    assert verdicts_of(corpus[0], frozenset()) == []
    assert verdicts_of(corpus[0], frozenset({Source.OFFSETS_TOPIC}))


def test_wrong_ones_of_the_making_half_are_listed(
    corpus: list[RecordedIncident], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_module, "read_corpus", lambda _directory: corpus)
    (offsets,) = measure(in_half(corpus, MAKING), [each for each in SETS if each.name == "offsets topic"])
    printed: list[str] = []
    assert main(["--half", "making", "--sources", "offsets topic", "--wrong"], write=printed.append) == 0
    assert wrong_lines(offsets)
    assert all(line in "".join(printed) for line in wrong_lines(offsets))
    with pytest.raises(SystemExit):
        main(["--wrong"])
    assert "--half making" in capsys.readouterr().err
