"""Aims: what was measured beside what is wanted."""

from dataclasses import replace

from ottla.testing.incidents.aims import AIMS, reached
from ottla.testing.incidents.labels import Incident
from ottla.testing.incidents.scoring import score


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
