"""The trials are found and started by their names; a seed that fails says so, ends the trial with status 1, and says how to repeat it."""

import argparse
from importlib import import_module
from pathlib import Path

import pytest

from trials.__main__ import find_trials, main
from trials.harness.runs import Outcome, Results, add_seed_option, seeds_in

TRIALS = find_trials()


def test_the_trials_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out
    expected = {
        "simulation",
        "chaos",
        "fuzz",
        "attacks",
        "kills",
        "sharing",
        "migration",
        "whatif",
        "incidents",
        "accuracy",
        "group-scripts",
    }
    assert expected <= TRIALS.keys()
    assert all(f"  {name} " in lines and trial.sentence in lines for name, trial in TRIALS.items())
    assert main(["unheard-of"]) == 2


@pytest.mark.parametrize("name", TRIALS)
def test_each_trial_has_a_sentence_and_runs_without_options(name: str, tmp_path: Path) -> None:
    module = import_module(TRIALS[name].module)
    assert TRIALS[name].sentence.endswith(".")
    parser = argparse.ArgumentParser(exit_on_error=False)
    module.add_options(parser)
    parser.parse_args([])
    assert callable(module.run)


def test_a_seed_that_is_wrong_is_the_exit_status_and_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    results = Results("chaos", ["--seconds", "5", "--seed", "1-3", "--broker=ottla"])

    def run(seed: int, directory: Path) -> Outcome:
        assert directory.is_dir()
        if seed == 3:
            raise ValueError("no broker")
        return Outcome(["0@7 is lost"] if seed == 2 else [], "10 records")

    results.run_seeds([1, 2, 3], run)
    results.close()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("seed", "repeat", "chaos"))]
    assert lines[:4] == [
        "seed 1: 10 records: ok",
        "seed 2: 10 records: WRONG in 1 ways, such as 0@7 is lost",
        "repeat it: python -m trials chaos --seconds 5 --broker=ottla --seed 2",
        "seed 3: WRONG in 1 ways, such as ValueError('no broker')",
    ]
    assert lines[5].startswith("chaos: 1 ok, 2 wrong")
    assert results.status == 1


def test_seeds_are_numbers_and_ranges() -> None:
    assert seeds_in("7") == [7]
    assert seeds_in("1,2,5-7") == [1, 2, 5, 6, 7]
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_seed_option(parser, "0-2")
    assert parser.parse_args([]).seed == [0, 1, 2]
    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(["--seed", "one"])
