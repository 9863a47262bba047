"""The command line of the kill tests: its defaults, and what it says; tests/spark/test_kill.py lives through runs."""

import pytest

from ottla.testing.streaming_kills import runs as program
from ottla.testing.streaming_kills.line_ups import COMMIT, LineUp
from ottla.testing.streaming_kills.world import Kill


class World:
    """A world in which nothing is killed: the second run of each goes wrong."""

    def __init__(self, broker: object, seed: int, directory: object, *, source: str, who: LineUp) -> None:
        self._runs = 0
        self._again = 0 if who.mode == COMMIT else 7

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def kill_one(self) -> Kill:
        self._runs += 1
        return Kill("worker killed after 0.10 s", 1.5, 100, 20, ["0@7 is lost"] if self._runs == 2 else [], self._again)

    def finish(self) -> list[str]:
        return []


class Broker:
    """No broker."""

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "World", World)
    monkeypatch.setattr(program, "make_broker", lambda kind, directory: Broker())


def test_runs_are_shared_among_the_seeds_and_a_wrong_one_is_the_exit_status(capsys: pytest.CaptureFixture[str]):
    assert program.main(["--runs", "3", "--seeds", "7,8"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines.pop(0) == "seed 7: a query that commits"
    assert lines[0] == "seed 7 run 1: worker killed after 0.10 s: caught up 1.5 s later, 100 records, 20 checks: ok"
    assert lines[1].endswith("20 checks: WRONG in 1 ways, such as 0@7 is lost")
    assert [line.partition(":")[0] for line in lines[2:6]] == ["seed 7 at the end", "seed 8", "seed 8 run 1", "seed 8 at the end"]
    assert lines[6].startswith("3 runs in 0 s on ottla: 3 worker, ")
    assert lines[6].endswith("1 wrong")


def test_in_member_mode_the_seed_decides_who_is_in_the_group(capsys: pytest.CaptureFixture[str]):
    assert program.main(["--mode", "member", "--runs", "2", "--seeds", "1,2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 1: one application"
    assert lines[1].endswith("100 records, 7 written again, 20 checks: ok")
    assert lines[3] == "seed 2: two applications"


def test_without_seeds_a_world_has_twenty_runs(capsys: pytest.CaptureFixture[str]):
    assert program.main(["--runs", "41"]) == 1
    assert capsys.readouterr().out.count("at the end: ok") == 3
    assert program.main(["--runs", "1"]) == 0
