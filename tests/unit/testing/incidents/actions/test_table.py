"""Each action says what it causes: in a world without brokers, in virtual time."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.table import ACTIONS
from ottla.testing.incidents.group_run import GroupRun, Plan
from ottla.testing.incidents.plan import TABLE

WITH_REQUESTS = {"never_sync"}
"""Its silent member is made of real requests: tests/unit/testing/incidents/members/test_raw_consumer.py."""
CAUSES = {row.action: row.cause for row in TABLE if row.action in ACTIONS}


@pytest.mark.parametrize("action", sorted(set(ACTIONS) - WITH_REQUESTS))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_action_labels_its_cause(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun], action: str, seed: int) -> None:
    run = new_run(new_plan(action, cause=CAUSES[action], seed=seed))
    ACTIONS[action](run)
    incident = run.finish()
    caused = [each for each in incident.rebalances if each.is_action]
    expected = Cause.JOIN_NEW if action == "join" else CAUSES[action]
    assert {each.cause for each in caused} == {expected}
    times = [(each.from_ms, each.to_ms) for each in incident.rebalances]
    assert times == sorted(times)
    assert all(begin < end for begin, end in times)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times)), "no time has two labels"
    assert incident.end_ms >= times[-1][1]
