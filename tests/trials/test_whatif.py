"""The experiment with runs that are made by the model; real ones are in tests/clients/test_whatif.py."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.replay import replay
from ottla.core.whatif.settings import apply_settings
from ottla.testing.kit.group_behaviours import behaviour, process
from ottla.testing.whatif_trials import experiment as module
from ottla.testing.whatif_trials.experiment import Experiment
from ottla.testing.whatif_trials.trials import TRIALS

START = Action(at_ms=0, kind=ActionKind.START)
FREEZE = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=30_000)
TRIAL = TRIALS[0]


def test_a_prediction_is_checked_against_a_second_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster: Any = SimpleNamespace(events=[])

    def carry_out(run: Any, _world: Any) -> None:
        group = behaviour(process("a", START, FREEZE), process("b", START))
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
