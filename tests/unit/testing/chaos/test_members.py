"""Tests of the consumers of a chaos run: processes that do nothing, and what is done to them."""

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from ottla.testing.chaos import members as members_module
from ottla.testing.chaos.members import FREEZE_S, Members


class Process:
    """What was sent to it."""

    def __init__(self, command: list[str], log_path: Path) -> None:
        self.command = command
        self.signals: list[str] = []

    def send_signal(self, name: str) -> None:
        assert hasattr(signal, f"SIG{name}")
        self.signals.append(name)

    def stop(self, *, seconds_max: float) -> int:
        self.signals.append("stop")
        return 0


@pytest.fixture
def members(monkeypatch: Any, tmp_path: Path) -> Members:
    monkeypatch.setattr(members_module, "ServerProcess", Process)
    return Members(
        rng=random.Random(1),
        directory=tmp_path,
        libraries=["ottla", "confluent"],
        servers=lambda: "h:1",
        group="g",
        topic="t",
        assignor="range",
    )


def signals(members: Members) -> list[list[str]]:
    return [each.process.signals for each in members.started]  # type: ignore[attr-defined]


def test_libraries_take_turns(members: Members, tmp_path: Path) -> None:
    for _ in range(3):
        members.start()
    assert [each.library for each in members.running] == ["ottla", "confluent", "ottla"]
    job = members.running[1].process.command[3:]  # type: ignore[attr-defined]
    assert job == ["confluent", "h:1", "g", "t", "range", str(tmp_path / "journal-1")]


def test_those_that_end_are_not_running_any_more(members: Members) -> None:
    for end, name in ((members.leave, "TERM"), (members.die, "KILL")):
        members.start()
        end()
        assert members.running == []
        assert signals(members)[-1] == [name]


def test_a_frozen_one_goes_on_when_its_time_is_over(members: Members) -> None:
    members.start()
    members.freeze(100.0)
    members.thaw(100.0 + FREEZE_S[0] / 2)
    assert signals(members) == [["STOP"]]
    members.thaw(100.0 + FREEZE_S[1])
    members.thaw(200.0)
    assert signals(members) == [["STOP", "CONT"]]


def test_connections_of_one_that_has_begun_are_broken(members: Members) -> None:
    members.start()
    members.cut()
    assert signals(members) == [[]]
    members.running[0].journal.touch()
    members.cut()
    assert signals(members) == [["USR1"]]


def test_all_are_ended(members: Members) -> None:
    members.start()
    members.freeze(0.0)
    members.start()
    members.close()
    assert signals(members) == [["STOP", "CONT", "TERM", "stop"], ["CONT", "TERM", "stop"]]
    assert members.running == []
    assert [read.processed for read in members.journals()] == [[], []]
