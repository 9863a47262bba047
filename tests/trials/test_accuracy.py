"""The diagnosis is as often right on the measuring half of the corpus as docs/diagnosis-accuracy.md says, and as often as it must be."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.history.sources.evidence import Cause, Source
from ottla.history.verdicts.verdict import Confidence, Verdict
from trials.__main__ import main
from trials.incidents import measure as measure_module
from trials.incidents.corpus import CORPUS, MAKING, MEASURING, Incident, RecordedIncident
from trials.incidents.measure import PAGE, SETS, Measured, accuracy_page, in_half, measure, verdicts_of, wrong_lines
from trials.incidents.scoring import AIMS, MISSED, confusion, figures, is_said_by_broker_log, reached, score, unexplained

ROOT = Path(__file__).parents[2]

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
    assert main(["accuracy", "--half", "making", "--sources", "offsets topic", "--wrong"]) == 0
    printed = capsys.readouterr().out
    assert wrong_lines(offsets)
    assert all(line in printed for line in wrong_lines(offsets))
    with pytest.raises(SystemExit, match="--half making"):
        main(["accuracy", "--wrong"])


# --- a recorded run is read with Ottla's readers: each source gives evidence of each group

RUNS = sorted((ROOT / CORPUS).glob("*/"))


@pytest.fixture(scope="module", params=RUNS, ids=lambda path: path.name)
def run(request: pytest.FixtureRequest, recorded_incidents: Sequence[RecordedIncident]) -> list[RecordedIncident]:
    found = [each for each in recorded_incidents if each.incident.run == request.param.name]
    assert found
    return found


def test_each_source_knows_the_groups(run: list[RecordedIncident]) -> None:
    for source in run[0].evidence:
        known = [each for each in run if each.evidence[source]]
        if source is Source.CLIENT_LOG:  # librdkafka says little by default, and members of bare requests nothing
            assert all(each in known for each in run if {"java", "kafka-python"} & set(each.incident.clients))
        else:
            assert len(known) == len(run), source


def test_ottla_has_events_and_apache_kafka_has_none(run: list[RecordedIncident]) -> None:
    assert {Source.GROUP_EVENTS in each.evidence for each in run} == {run[0].incident.cluster == "ottla"}


def test_no_evidence_is_of_another_group(run: list[RecordedIncident]) -> None:
    for each in run:
        for items in each.evidence.values():
            assert {item.group for item in items} <= {each.incident.group, None}


# --- verdicts beside labels: right, wrong, missed, and what the broker's log can tell


def verdict(cause: Cause, at_ms: int, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "group": "g",
        "generation": 1,
        "started_ms": at_ms,
        "ended_ms": at_ms + 10,
        "kind": "rebalance",
        "cause": cause,
        "candidates": (cause,),
        "confidence": Confidence.HIGH,
        "planned": True,
        "avoidable": False,
    }
    return Verdict(**(fields | changes))


@pytest.fixture
def labelled(incident: Incident) -> Incident:
    """JOIN_NEW between 1000 and 2000; a second half is right as well."""
    return replace(incident, end_ms=9_000, rebalances=(replace(incident.rebalances[0], from_ms=1_000, to_ms=2_000),))


def test_the_labels_own_cause_must_be_found(labelled: Incident) -> None:
    (right,) = score(labelled, [verdict(Cause.JOIN_NEW, 1_500)])
    assert (right.is_right, right.holds, right.is_high, right.is_policy_right) == (True, True, True, True)
    both = score(labelled, [verdict(Cause.JOIN_NEW, 1_100), verdict(Cause.COOP_FOLLOWUP, 1_500), verdict(Cause.ADMIN, 1_900)])
    assert [each.is_right for each in both] == [True, True, False]
    alone = score(labelled, [verdict(Cause.COOP_FOLLOWUP, 1_500), verdict(Cause.COOP_FOLLOWUP, 1_600)])
    assert [(each.is_right, each.holds) for each in alone] == [(False, False)], "once, however many there are"


def test_candidates_hold_the_truth_or_not(labelled: Incident) -> None:
    (held,) = score(labelled, [verdict(Cause.ADMIN, 1_500, candidates=(Cause.ADMIN, Cause.JOIN_NEW), confidence=Confidence.LOW)])
    assert (held.is_right, held.holds, held.is_high) == (False, True, False)


def test_a_labelled_rebalance_without_a_verdict_is_missed_if_it_is_certain(labelled: Incident) -> None:
    (missed,) = score(labelled, [verdict(Cause.JOIN_NEW, 3_000)])
    assert (missed.found, missed.is_right, missed.holds) == (MISSED, False, False)
    uncertain = replace(labelled, rebalances=(replace(labelled.rebalances[0], is_certain=False),))
    assert score(uncertain, []) == []


def test_a_verdict_belongs_to_the_label_in_which_it_begins_or_ends(labelled: Incident) -> None:
    assert score(labelled, [verdict(Cause.JOIN_NEW, 700, ended_ms=1_200)])[0].is_right
    assert score(labelled, [verdict(Cause.JOIN_NEW, 950, ended_ms=None)])[0].is_right, "clocks differ a little"
    assert score(labelled, [verdict(Cause.JOIN_NEW, 700, ended_ms=None)])[0].found == MISSED


def test_verdicts_outside_of_labels_are_counted_until_the_end(labelled: Incident) -> None:
    verdicts = [verdict(Cause.JOIN_NEW, at_ms) for at_ms in (100, 1_500, 5_000, 9_500)]
    assert unexplained(labelled, verdicts) == 2


def test_figures_and_the_matrix_of_what_was_found(labelled: Incident) -> None:
    low = verdict(Cause.LEAVE_CLOSE, 1_500, confidence=Confidence.LOW, planned=False)
    scored = [*score(labelled, [verdict(Cause.JOIN_NEW, 1_500)]), *score(labelled, [low]), *score(labelled, [])]
    found = figures(scored)
    assert (found.count, found.high, found.missed) == (3, 1, 1)
    assert (found.right, found.high_right, found.planned_right) == (1 / 3, 1.0, 0.5)
    assert confusion(scored) == {"JOIN_NEW": {"JOIN_NEW": 1, "LEAVE_CLOSE": 1, MISSED: 1}}
    assert figures([]).right is None


@pytest.mark.parametrize(
    ("cause", "changes", "can_tell"),
    [
        (Cause.LEAVE_CLOSE, {}, True),
        (Cause.LEAVE_CLOSE, {"actor": 1}, False),
        (Cause.LEAVE_CLOSE, {"protocol": "consumer"}, False),
        (Cause.TOPIC_CHANGE, {}, False),
        (Cause.TOPIC_CHANGE, {"clients": ("java", "java")}, True),
        (Cause.JOIN_NEW, {"actor": 1}, True),
        (Cause.STATIC_FENCED, {}, False),
        (Cause.STATIC_FENCED, {"protocol": "consumer"}, True),
        (Cause.COORDINATOR_MOVE, {}, False),
    ],
)
def test_what_the_log_of_the_broker_can_tell(labelled: Incident, cause: Cause, changes: dict[str, Any], can_tell: bool) -> None:
    label = replace(labelled.rebalances[0], cause=cause)
    assert is_said_by_broker_log(replace(labelled, rebalances=(label,), **changes), label) is can_tell


def test_the_return_of_a_frozen_process_is_not_told(labelled: Incident) -> None:
    removal = replace(labelled.rebalances[0], cause=Cause.EXPIRE_HEARTBEAT)
    comeback = replace(removal, from_ms=3_000, to_ms=4_000)
    incident = replace(labelled, rebalances=(removal, comeback))
    assert is_said_by_broker_log(incident, removal)
    assert not is_said_by_broker_log(incident, comeback)


# --- aims: what was measured beside what is wanted


def test_an_aim_is_met_or_not_and_one_without_incidents_is_no_failure(incident: Incident) -> None:
    missed = score(incident, [])
    found = {each.aim.name: each for each in reached([("own events", missed)])}
    assert len(found) == len(AIMS)
    assert (found["own events: right"].share, found["own events: right"].total, found["own events: right"].is_met) == (0.0, 1, False)
    assert found["offsets topic: right"].is_met


def test_what_was_not_caused_does_not_count(incident: Incident) -> None:
    label = replace(incident.rebalances[0], is_action=False)
    (own, *_) = reached([("own events", score(replace(incident, rebalances=(label,)), []))])
    assert (own.total, own.is_met) == (0, True)
