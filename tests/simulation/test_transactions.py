"""Transactions on a disk with faults, in virtual time: some seeds of the trial, and coordinators that are broken on purpose."""

import os

import pytest

from trials.simulation.broken_coordinators import BROKEN
from trials.simulation.transactions import appends_of_a_life, run_seed

SEEDS = int(os.environ.get("OTTLA_TRANSACTION_SEEDS", "8"))
FOUND_BY = {"no-fencing": 0, "lost-marker": 3, "early-offsets": 1, "unstable-reads": 0, "commit-that-aborts": 1, "late-records": 0}
"""A seed that finds each."""


# 81 found that a torn entry of a transaction index was taken for a whole one.
@pytest.mark.parametrize("seed", [*range(SEEDS), 81])
def test_seeds(seed: int) -> None:
    assert run_seed(seed).wrong == []


@pytest.mark.parametrize("torn", [False, True])
def test_a_kill_at_every_append_of_a_transaction(torn: bool) -> None:
    lives = list(appends_of_a_life(0, torn=torn))
    assert [wrong for life in lives for wrong in life.wrong] == []
    assert len(lives) > 6


@pytest.mark.parametrize("name", BROKEN)
def test_broken_coordinators_are_found(name: str) -> None:
    with BROKEN[name]():
        assert run_seed(FOUND_BY[name]).wrong
    assert run_seed(FOUND_BY[name]).wrong == []
