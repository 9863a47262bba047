"""Waiting has a limit and says what did not come about; work between incidents is real work."""

from pathlib import Path
from typing import Any

import pytest

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.results import Results
from ottla.cli.demo.scene import Progress, Scene
from ottla.cli.demo.timing import Timing


class FakeEvents:
    """Gives one list of events a turn."""

    def __init__(self, turns: list[list[dict[str, Any]]]) -> None:
        self._turns = turns

    def read(self, _seconds: float) -> list[dict[str, Any]]:
        return self._turns.pop(0) if self._turns else []


class FakeConsumers:
    def check(self) -> None:
        pass


class FakeReplay:
    acknowledged = 700
    failure: str | None = None

    def __init__(self) -> None:
        self.end_offsets = {0: 10, 3: 5}


class FakeScene(Scene):
    """A scene without processes; each look at the group's offsets finds 40 flights more."""

    def __init__(self, tmp_path: Path, turns: list[list[dict[str, Any]]] | None = None) -> None:
        self.seen: list[Progress] = []
        timing = Timing(flights_per_second=100, wait_seconds_max=0.05)
        flights: Any = range(1_000)
        super().__init__(Results(tmp_path), flights, timing, "range", self.seen.append)
        self._events: Any = FakeEvents(turns or [])
        self.consumers: Any = FakeConsumers()
        self.replay: Any = FakeReplay()

    def _ask_committed(self) -> dict[int, int]:
        self._asked_s = 0.0
        return {0: self.committed + 40, 1: 0}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.demo.scene._ASK_S", -1)


def synced(client: str, partitions: int) -> dict[str, Any]:
    members = [{"client_id": client, "assignment": {"flights": list(range(partitions))}}]
    return {"group": "flight-desk", "kind": "sync_completed", "generation": 1, "members": members}


def trigger(cause: str, client: str) -> dict[str, Any]:
    return {"group": "flight-desk", "kind": "trigger", "generation": 1, "trigger": cause, "client_id": client, "members": []}


def test_what_does_not_come_about_is_named(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path, [[synced("consumer-1", 11)]])
    with pytest.raises(DemoFailedError, match=r"waiting for consumer-1 to share 12 partitions; the group is stable .*consumer-1: 11"):
        scene.wait_until_settled("consumer-1")


def test_the_group_is_settled_when_its_events_say_so(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path, [[], [synced("consumer-1", 12)]])
    scene.wait_until_settled("consumer-1")
    assert scene.seen[-1].replayed == 700
    assert scene.seen[-1].waiting_for == "consumer-1 to share 12 partitions"


def test_ends_are_kept_where_they_are_news(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path, [[], [synced("consumer-1", 12)]])
    scene.wait_until_settled("consumer-1")
    scene.replay.end_offsets[3] = 6
    scene.wait_for("a turn", lambda: len(scene.end_offsets) > 2)
    assert sorted((each.partition, each.end_offset) for each in scene.end_offsets) == [(0, 10), (3, 5), (3, 6)]
    assert 0 < scene.end_offsets[0].at_ms <= scene.end_offsets[-1].at_ms


def test_only_triggers_after_the_mark_count(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path, [[trigger("LEAVE", "consumer-1")], [], [trigger("LEAVE", "consumer-1")]])
    scene.wait_for("the first trigger", lambda: scene.triggers_seen == 1)
    scene.wait_for_trigger("consumer-1", "LEAVE", since=1, what="another")
    assert scene.triggers_seen == 2


def test_work_means_more_committed_flights(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path)
    scene.let_work()
    assert 100 <= scene.committed < 200


def test_work_never_waits_for_more_flights_than_there_are(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path)
    scene.flights_total = 60
    scene.let_work()
    assert scene.committed == 80


def test_a_failed_replay_ends_the_waiting(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path)
    scene.replay.failure = "the disk is full"
    with pytest.raises(DemoFailedError, match="the disk is full"):
        scene.wait_until_settled("consumer-1")
