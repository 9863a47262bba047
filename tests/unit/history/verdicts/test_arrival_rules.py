from typing import Any

import pytest

from ottla.history.rounds.identity import Identity
from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.verdicts.arrival_rules import ARRIVAL_RULES, COLD_START_MS, Joining
from ottla.history.verdicts.rule import findings_of

GONE = Departure(who=Identity("m1"), at_ms=0, clock="c")


def joining(count_before: int | None = 2, since_cold_start_ms: int | None = None, **fields: Any) -> Joining:
    arrival = Arrival(**({"who": Identity("m2"), "at_ms": 0, "clock": "c"} | fields))
    each = Round(group="g", generation=2, parts=[], count_before=count_before, since_cold_start_ms=since_cold_start_ms)
    return Joining(arrival, each)


HOLDS = {
    "the first of the group": joining(0),
    "soon after the first": joining(1, COLD_START_MS),
    "joined a group with members": joining(),
    "not seen before": joining(),
    "its predecessor was still there": joining(replaces=True, loss=GONE),
    "another member was lost soon after": joining(may_replace=True),
    "the assignor changed with it": joining(is_protocol_changed=True),
}


def names(subject: Joining) -> list[str]:
    return [finding.name for finding in findings_of(ARRIVAL_RULES, subject)]


def test_every_rule_has_its_example() -> None:
    assert set(HOLDS) == {rule.name for rule in ARRIVAL_RULES}


@pytest.mark.parametrize("name", HOLDS)
def test_the_rule_holds_for_its_example(name: str) -> None:
    assert name in names(HOLDS[name])


def test_exactly_one_rule_says_when_it_joined() -> None:
    for subject in (joining(0, 0), joining(1, 1_000), joining(None), joining(1, COLD_START_MS + 1)):
        assert len([name for name in names(subject) if name in list(HOLDS)[:3]]) == 1


def test_members_that_start_a_group_choose_its_assignor() -> None:
    assert "the assignor changed with it" not in names(joining(1, 500, is_protocol_changed=True))
