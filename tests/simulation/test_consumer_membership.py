"""The membership of `ottla.Consumer` against our coordinator in virtual time: no member is stuck, and each partition has one owner.

One seed is one run with an unreliable network, a failing broker, processes that freeze, crash and return, and topics that grow.
"""

import os

import pytest

from trials.simulation.consumer_member import CONSUMERS
from trials.simulation.simulator import simulate

SEEDS = int(os.environ.get("OTTLA_CONSUMER_SEEDS", "100"))
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_groups_of_consumers_recover(part: int) -> None:
    outcomes = [simulate(seed, kind=CONSUMERS) for seed in range(part, SEEDS, PARTS)]
    assert sum(outcome.generations for outcome in outcomes) > 2 * len(outcomes), "the groups did rebalance"


def test_a_seed_runs_twice_with_the_same_trace() -> None:
    assert simulate(7, kind=CONSUMERS) == simulate(7, kind=CONSUMERS)
