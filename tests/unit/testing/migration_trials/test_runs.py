"""The command line of the migration trials: its defaults, and what it says; tests/clients/test_migration_trial.py runs one."""

import pytest

from ottla.testing.migration_trials import runs as program
from ottla.testing.migration_trials.world import MIGRATE, Outcome, Trial


class World:
    """A world in which nothing is moved: seed 2 goes wrong."""

    trials: list[Trial] = []

    def __init__(self, broker: object, trial: Trial, directory: object) -> None:
        self._trial = trial
        self.trials.append(trial)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def dry_run(self) -> dict[str, int]:
        return {"g": 3}

    def start(self) -> None:
        pass

    def moments(self, kills: int) -> list[str]:
        return ["copying"] * kills

    def kill(self, moment: str) -> str:
        return f"{moment}, 0 records copied: all its processes were killed"

    def finish(self) -> Outcome:
        return Outcome(["1@2 is lost"] if self._trial.seed == 2 else [], "10 records")


class Broker:
    """No broker."""

    kind = "ottla"

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "World", World)
    monkeypatch.setattr(program, "_broker", lambda kind, directory: Broker())
    monkeypatch.setattr(World, "trials", [])


def test_a_trial_that_is_wrong_is_the_exit_status(capsys: pytest.CaptureFixture[str]):
    assert (
        program.main(["--records", "10", "--kills", "1", "--follow", "--seeds", "1,2", "--more=--cores=1", "--victims", "broker,java"]) == 1
    )
    assert capsys.readouterr().out.splitlines() == [
        "24 to 6 on ottla, seed 1: 10 records are in the source",
        "24 to 6 on ottla, seed 1: copying, 0 records copied: all its processes were killed",
        "24 to 6 on ottla, seed 1: 10 records: ok",
        "24 to 6 on ottla, seed 2: 10 records are in the source",
        "24 to 6 on ottla, seed 2: copying, 0 records copied: all its processes were killed",
        "24 to 6 on ottla, seed 2: 10 records: WRONG in 1 ways, such as 1@2 is lost",
    ]
    assert World.trials[0].command == MIGRATE
    assert World.trials[0].more == ["--cores=1"]
    assert World.trials[0].victims == ("broker", "java")


def test_what_cannot_be_killed_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        program.main(["--victims", "broker,cat"])
    assert "write some of tree,command,java,broker" in capsys.readouterr().err


def test_without_follow_the_replay_is_stated_beforehand(capsys: pytest.CaptureFixture[str]):
    assert program.main(["--kills", "0", "--from", "6", "--to", "24"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "6 to 24 on ottla, seed 1: stated beforehand: {'g': 3}"
