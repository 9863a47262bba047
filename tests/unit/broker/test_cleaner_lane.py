"""Small logs take the plain lane; large ones the columnar one, as soon as another process has compiled it."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import cleaner_lane as room
from ottla.broker.cleaner_lane import COLUMNAR_BYTES_MIN, LOAD_SECONDS_MAX, Lanes, start_process
from ottla.core.cleaning.plain import PlainLane


class Process:
    """A compiling process as the test wants it."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.said = ""
        self.is_killed = False

    def poll(self) -> int | None:
        return self.returncode

    def communicate(self) -> tuple[str, None]:
        return self.said, None

    def kill(self) -> None:
        self.is_killed = True


class Compiling:
    """Starts such processes, and remembers them."""

    def __init__(self) -> None:
        self.started: list[Process] = []

    def __call__(self, command: Sequence[str]) -> Any:
        assert command[0] == sys.executable
        self.started.append(Process())
        return self.started[-1]

    def end(self, status: int, seconds: float | None = None) -> None:
        self.started[-1].said = f"{seconds}\n"
        self.started[-1].returncode = status


@pytest.fixture
def compiling() -> Compiling:
    return Compiling()


@pytest.fixture
def lanes(compiling: Compiling) -> Lanes:
    return Lanes(compiling)


def chosen(lanes: Lanes) -> str:
    return type(lanes.choose(COLUMNAR_BYTES_MIN)).__name__


def test_small_logs_start_nothing(lanes: Lanes, compiling: Compiling) -> None:
    assert isinstance(lanes.choose(COLUMNAR_BYTES_MIN - 1), PlainLane)
    assert compiling.started == []


def test_the_plain_lane_works_until_the_other_is_ready(lanes: Lanes, compiling: Compiling) -> None:
    assert [chosen(lanes), chosen(lanes)] == ["PlainLane", "PlainLane"]
    assert len(compiling.started) == 1
    compiling.end(0, LOAD_SECONDS_MAX / 2)
    assert [chosen(lanes), chosen(lanes)] == ["ColumnarLane", "ColumnarLane"]
    assert len(compiling.started) == 1


def test_what_took_long_was_compiled_and_is_tried_again(lanes: Lanes, compiling: Compiling) -> None:
    assert chosen(lanes) == "PlainLane"
    compiling.end(0, LOAD_SECONDS_MAX * 10)
    assert chosen(lanes) == "PlainLane"
    compiling.end(0, LOAD_SECONDS_MAX / 10)
    assert chosen(lanes) == "ColumnarLane"
    assert len(compiling.started) == 2


def test_machine_code_that_cannot_be_kept_is_given_up(lanes: Lanes, compiling: Compiling) -> None:
    for _ in range(10):
        assert chosen(lanes) == "PlainLane"
        compiling.end(0, LOAD_SECONDS_MAX * 10)
    assert len(compiling.started) == room.ATTEMPTS_MAX


def test_a_process_that_fails_is_not_started_again(lanes: Lanes, compiling: Compiling) -> None:
    for _ in range(3):
        assert chosen(lanes) == "PlainLane"
        compiling.end(1)
    assert len(compiling.started) == 1


def test_no_process_can_be_started() -> None:
    def refuse(_: Sequence[str]) -> "subprocess.Popen[str]":
        raise OSError("too many processes")

    lanes = Lanes(refuse)
    assert [chosen(lanes), chosen(lanes)] == ["PlainLane", "PlainLane"]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, compiling: Compiling) -> None:
    monkeypatch.setattr(room, "find_spec", lambda name: None if name == "numba" else object())
    assert chosen(Lanes(compiling)) == "PlainLane"
    assert compiling.started == []


def test_the_end_of_the_broker_ends_the_process(lanes: Lanes, compiling: Compiling) -> None:
    chosen(lanes)
    lanes.close()
    assert compiling.started[0].is_killed
    assert chosen(lanes) == "PlainLane"
    assert len(compiling.started) == 1
    lanes.close()


def test_the_real_process_loads_the_lane(tmp_path: Path) -> None:
    process = start_process([sys.executable, "-c", room._WARM_UP])
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert float(said) > 0
