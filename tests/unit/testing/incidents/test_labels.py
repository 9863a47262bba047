"""Labels of incidents: written and read, and divided into two halves."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.labels import AVOIDABLE, MAKING, MEASURING, PLANNED, Incident, from_json, halved, to_json


def test_what_is_written_is_read_again(incident: Incident) -> None:
    incidents = [incident, replace(incident, id="a2", rebalances=())]
    assert from_json(to_json(incidents)) == incidents


@pytest.mark.parametrize("seed", range(20))
def test_halves_are_balanced_over_causes_and_do_not_depend_on_the_order(incident: Incident, seed: int) -> None:
    rng = random.Random(seed)
    causes = rng.choices(["JOIN_NEW", "CAPACITY", "ADMIN"], k=rng.randrange(30))
    incidents = [replace(incident, id=f"{seed}-{number}", cause=cause) for number, cause in enumerate(causes)]
    found = halved(incidents)
    assert [each.id for each in found] == [each.id for each in incidents]
    assert sorted(halved(incidents[::-1]), key=str) == sorted(found, key=str)
    counts = Counter((each.cause, each.half) for each in found)
    for cause in set(causes):
        assert 0 <= counts[cause, MAKING] - counts[cause, MEASURING] <= 1


def test_what_can_be_avoided_was_not_planned() -> None:
    assert set() == PLANNED & AVOIDABLE
    assert set(Cause) > PLANNED | AVOIDABLE
