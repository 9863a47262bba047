"""A run with members that only note what is done to them; real ones are in tests/clients/test_whatif.py."""

from pathlib import Path
from typing import Any

import pytest

from ottla.core.whatif.settings import Settings
from ottla.testing.incidents.members.settings import MemberSettings
from ottla.testing.whatif_trials import run as run_module
from ottla.testing.whatif_trials.run import PARTITIONS, TrialRun
from ottla.testing.whatif_trials.trial import Do, MemberTimes, Step, Trial


class NotingMember:
    """Owns every partition of its topic."""

    def __init__(self, name: str, topic: str, done: list[tuple[str, str]]) -> None:
        self.name = name
        self._topic = topic
        self._done = done

    def assignment(self) -> set[str]:
        return {f"{self._topic}-{number}" for number in range(PARTITIONS)}

    def do(self, action: str, **more: Any) -> None:
        self._done.append((action, self.name))

    def close(self) -> None:
        self._done.append(("close", self.name))

    def freeze(self) -> None:
        self._done.append(("freeze", self.name))

    def thaw(self) -> None:
        self._done.append(("thaw", self.name))

    def kill(self) -> None:
        self._done.append(("kill", self.name))


class NotingWorld:
    """Starts such members."""

    servers = "nowhere:1"

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.settings: list[MemberSettings] = []

    def create_topic(self, name: str, partitions: int) -> None:
        self.done.append(("create", name))

    def stop_producing(self, topics: list[str]) -> None:
        self.done.append(("stop producing", *topics))

    def start_member(self, settings: MemberSettings, log_path: Path, *, is_alone: bool) -> NotingMember:
        self.settings.append(settings)
        log_path.touch()
        return NotingMember(settings.name, settings.topics[0], self.done)


@pytest.mark.parametrize(
    ("do", "expected", "lives"),
    [
        (Do.FREEZE, ["freeze", "thaw"], 1),
        (Do.SLOW, ["sleep"], 1),
        (Do.RESTART, ["close"], 2),
        (Do.KILL, ["kill"], 2),
    ],
)
def test_each_step_is_done_to_its_member(do: Do, expected: list[str], lives: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "SETTLED_S", 0)
    monkeypatch.setattr(Trial, "lasts_s", 0)
    trial = Trial(name="t", cluster="ottla", clients=("java",), steps=(Step(0, 0, do, 0.01),), change=Settings())
    world = NotingWorld()
    run = TrialRun(trial=trial, times=MemberTimes(is_static=True), group="g", logs=tmp_path / "logs")
    run.carry_out(world)  # type: ignore[arg-type]
    steps = [what for what, *_ in world.done]
    assert steps == ["create", *expected, "thaw", "kill", "stop producing"]
    assert {settings.instance_id for settings in world.settings} == {"g-0"}
    assert (len(run.log_paths()), len(world.settings)) == (lives, lives)
    assert run.ready_ms <= run.ended_ms


def test_a_group_that_is_never_stable_fails_and_its_members_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "STABLE_SECONDS_MAX", 0)
    trial = Trial(name="t", cluster="ottla", clients=("java",), steps=(Step(0, 0, Do.SLOW, 0),), change=Settings())
    world = NotingWorld()
    with pytest.raises(TimeoutError, match="not stable"):
        TrialRun(trial=trial, times=MemberTimes(), group="g", logs=tmp_path / "logs").carry_out(world)  # type: ignore[arg-type]
    assert world.done[-2:] == [("kill", "g-0"), ("stop producing", "g")]
