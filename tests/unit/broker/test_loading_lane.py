"""Small logs are read by the plain lane, large ones by the columnar one where its code is there."""

import sys
from typing import Any

import pytest

from ottla.broker.loading_lane import COLUMNAR_BYTES_MIN, LoadingLanes
from ottla.core.groups.log_fold import PlainFold


class Process:
    def __init__(self) -> None:
        self.is_killed = False

    def kill(self) -> None:
        self.is_killed = True

    def communicate(self) -> tuple[str, None]:
        return "", None


@pytest.fixture
def started() -> list[tuple[Any, Process]]:
    return []


@pytest.fixture
def lanes(started) -> LoadingLanes:
    def start(command: Any) -> Any:
        started.append((command, Process()))
        return started[-1][1]

    return LoadingLanes(start)


def test_a_small_log_needs_nothing_heavy(lanes, started) -> None:
    assert lanes.choose(COLUMNAR_BYTES_MIN - 1) is PlainFold
    assert started == []


def test_a_large_log_is_read_by_compiled_code_that_is_kept(lanes, started, monkeypatch) -> None:
    from ottla.columnar import kept
    from ottla.columnar.group_loading import ColumnarFold

    monkeypatch.setattr(kept, "is_kept", lambda _module: True)
    assert lanes.choose(COLUMNAR_BYTES_MIN) is ColumnarFold
    assert started == []


def test_where_it_is_not_another_process_compiles_it_once_for_the_next_time(lanes, started, monkeypatch) -> None:
    from ottla.columnar import kept

    monkeypatch.setattr(kept, "is_kept", lambda _module: False)
    assert [lanes.choose(COLUMNAR_BYTES_MIN) for _ in range(2)] == [PlainFold, PlainFold]
    ((command, process),) = started
    assert command[0] == sys.executable
    assert "group_loading" in command[2]
    lanes.close()
    assert process.is_killed


def test_without_the_extra_the_plain_lane_reads(monkeypatch, started) -> None:
    monkeypatch.setattr("ottla.broker.loading_lane.find_spec", lambda name: None if name == "numba" else object())
    assert LoadingLanes().choose(COLUMNAR_BYTES_MIN) is PlainFold


def test_a_process_that_cannot_be_started_is_no_harm(monkeypatch, caplog) -> None:
    from ottla.columnar import kept

    def fail(_command: Any) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr(kept, "is_kept", lambda _module: False)
    with caplog.at_level("INFO"):
        assert LoadingLanes(fail).choose(COLUMNAR_BYTES_MIN) is PlainFold
    assert "no more processes" in caplog.text
