"""The trials of sharing on a world in which time and generations are given; `make sharing` runs them on real members."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.testing.streaming_kills import sharing
from ottla.testing.streaming_kills.world import Kill


class Member:
    """A member whose restarts begin a new generation or not."""

    def __init__(self, directory: Path, *, keeps_generation: bool = True) -> None:
        self.directory = directory
        self.acts: list[str] = []
        self._keeps_generation = keeps_generation
        (directory / "checkpoint" / "offsets").mkdir(parents=True)
        self._plan(5)

    def _plan(self, generation: int) -> None:
        offsets = json.dumps({"#member": {"generation": generation}})
        (self.directory / "checkpoint" / "offsets" / "0").write_text(f"v1\n{{}}\n{offsets}")

    def start(self) -> None:
        self.acts.append("start")
        if not self._keeps_generation:
            self._plan(6)

    def stop(self) -> None:
        self.acts.append("stop")

    def kill(self) -> None:
        self.acts.append("kill")


class World:
    """Two members; everything that is waited for is there, `late_s` seconds later."""

    producer: Any = property(lambda self: self)

    def __init__(self, members: list[Member], monkeypatch: pytest.MonkeyPatch, late_s: float = 0) -> None:
        self.members: Any = members
        self._now_s, self._late_s = 0.0, late_s
        monkeypatch.setattr(sharing.time, "monotonic", lambda: self._now_s)

    def settle(self) -> None: ...

    def wait_for_records(self) -> None: ...

    def ends(self) -> dict[Any, int]:
        return {}

    def wait_until_processed(self, ends: dict[Any, int]) -> None:
        self._now_s += self._late_s

    def kill_one(self, victim: str) -> Kill:
        return Kill(f"{victim} after 0.10 s", 1.0, 10, 3, ["0@7 is lost"])


@pytest.fixture
def members(tmp_path: Path) -> list[Member]:
    return [Member(tmp_path / "a"), Member(tmp_path / "b")]


@pytest.mark.parametrize(("late_s", "wrong"), [(6.9, 0), (7.1, 2)])
def test_a_takeover_may_take_as_long_as_a_session_and_a_trigger(
    members: list[Member], late_s: float, wrong: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    world: Any = World(members, monkeypatch, late_s)
    assert len(sharing.take_over(world, 2)) == wrong
    assert [member.acts for member in members] == [["kill", "start"]] * 2
    assert f"{late_s:.2f} s later" in capsys.readouterr().out


def test_what_goes_wrong_in_a_visit_is_wrong(members: list[Member], monkeypatch: pytest.MonkeyPatch):
    world: Any = World(members, monkeypatch)
    assert sharing.visit(world, 2) == ["0@7 is lost"] * 2


@pytest.mark.parametrize("keeps_generation", [True, False])
def test_a_rolling_restart_keeps_the_generation(tmp_path: Path, keeps_generation: bool, monkeypatch: pytest.MonkeyPatch):
    members = [Member(tmp_path / name, keeps_generation=keeps_generation) for name in ("a", "b")]
    world: Any = World(members, monkeypatch)
    assert (sharing.restart(world, 2) == []) == keeps_generation
    assert [member.acts for member in members] == [["stop", "start"] * 2] * 2


def test_each_trial_has_a_world_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    tried: list[tuple[str, str]] = []

    def attempt(broker: Any, directory: Path, who: Any, trial: Any, rounds: int) -> list[str]:
        tried.append((who.name, trial.__name__))
        return ["lost"] if rounds > 1 else []

    monkeypatch.setattr(sharing, "_try", attempt)
    assert sharing.main(["--rounds", "1"]) == 0
    assert [trial for _, trial in tried] == ["take_over", "visit", "visit", "restart"]
    assert sharing.main(["--rounds", "2"]) == 1
