"""The experiment with runs that are made by the model; real ones are in tests/clients/test_whatif.py."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.history.whatif.behaviour import Action, ActionKind
from ottla.history.whatif.replay import replay
from ottla.history.whatif.settings import apply_settings
from tests.support.kit.group_behaviours import behaviour, process
from trials.whatif import experiment as module
from trials.whatif.cases import TRIALS
from trials.whatif.experiment import BEGIN, END, Experiment, Result, table, write_table

START = Action(at_ms=0, kind=ActionKind.START)
FREEZE = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=30_000)
TRIAL = TRIALS[0]


def test_a_prediction_is_checked_against_a_second_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster: Any = SimpleNamespace(events=[])

    def carry_out(run: Any, _world: Any) -> None:
        members = (process("a", START, FREEZE), process("b", START))
        group = behaviour(*(replace(each, rebalance_timeout_ms=TRIAL.times.max_poll_ms) for each in members))
        changed = apply_settings(group, TRIAL.change) if run.group.endswith("after") else group
        cluster.events = list(replay(changed).events)
        for at, event in enumerate(cluster.events):
            cluster.events[at] = type(event)(**{**event.to_dict(), "members": event.members, "group": run.group})
        run.ready_ms, run.ended_ms = 10_000, 10_000_000

    monkeypatch.setattr(module.TrialRun, "carry_out", carry_out)
    monkeypatch.setattr(module.TrialRun, "log_paths", lambda _: [])
    kept: dict[str, list[Any]] = {}
    original = module.evidence_of_run
    monkeypatch.setattr(module, "evidence_of_run", lambda run, of: kept.setdefault(run.group, original(run, of)))
    result = Experiment(cluster, None, tmp_path).check(TRIAL)  # type: ignore[arg-type]
    assert (result.recorded, result.replayed, result.predicted, result.actual) == (2, 2, 0, 0)


def test_a_run_that_fails_is_a_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(_run: Any, _world: Any) -> None:
        raise TimeoutError("not stable")

    monkeypatch.setattr(module.TrialRun, "carry_out", fail)
    result = Experiment(None, None, tmp_path).check(TRIAL)  # type: ignore[arg-type]
    assert (result.is_right, result.failure) == (False, "TimeoutError: not stable")


RIGHT = Result(TRIALS[0], recorded=2, replayed=2, predicted=0, actual=0)
WRONG = Result(TRIALS[1], recorded=2, replayed=2, predicted=0, actual=1)
FAILED = Result(TRIALS[2], failure="TimeoutError: not stable")


def test_a_prediction_is_right_when_it_came_true() -> None:
    assert [result.is_right for result in (RIGHT, WRONG, FAILED)] == [True, False, False]


def test_the_table_says_how_many_came_true() -> None:
    found = table([RIGHT, WRONG, FAILED])
    assert "| 2 | 2 | 0 | 0 | yes |" in found
    assert "TimeoutError: not stable |" in found
    assert found.endswith("1 of 3 predictions came true.\n")


def test_the_table_replaces_the_one_before(tmp_path: Path) -> None:
    document = tmp_path / "whatif.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_table(document, [RIGHT])
    text = document.read_text()
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
