"""The stage of the demo."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.results import Results
from ottla.cli.demo.scene import INCIDENTS, Consumers, GroupPicture, Progress, Scene, Timing

KAFKA_MIN_SESSION_TIMEOUT_MS = 6_000


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"group": "g", "kind": kind, "generation": 1, "trigger": None, "client_id": None, "members": [], **fields}


def member(client: str, *partitions: int) -> dict[str, Any]:
    return {"client_id": client, "assignment": {"flights": list(partitions)} if partitions else {}}


def synced(*members: dict[str, Any]) -> dict[str, Any]:
    return event("sync_completed", members=list(members))


def picture_of(*events: dict[str, Any]) -> GroupPicture:
    picture = GroupPicture("g")
    for each in events:
        picture.apply(each)
    return picture


BOTH = frozenset({"a", "b"})


def test_settled_means_these_members_and_every_partition() -> None:
    assert picture_of(synced(member("a", 0), member("b", 1))).is_settled(BOTH, 2)
    assert not picture_of(synced(member("a", 0), member("b", 1))).is_settled(BOTH, 3)
    assert not picture_of(synced(member("a", 0), member("b"))).is_settled(BOTH, 2)
    assert not picture_of(synced(member("a", 0, 1))).is_settled(BOTH, 2)
    assert not picture_of(synced(member("a", 0), member("b", 0))).is_settled(BOTH, 2)


def test_a_trigger_ends_what_was_settled() -> None:
    settled = synced(member("a", 0), member("b", 1))
    for next_event in (event("trigger", trigger="LEAVE", client_id="a"), event("join_completed"), event("emptied")):
        assert not picture_of(settled, next_event).is_settled(BOTH, 2)


def test_other_groups_and_other_kinds_change_nothing() -> None:
    settled = synced(member("a", 0), member("b", 1))
    other = {**event("trigger", trigger="LEAVE", client_id="a"), "group": "other"}
    assert picture_of(settled, other, event("loaded"), event("static_replaced")).is_settled(BOTH, 2)


def test_a_consumer_group_is_settled_when_it_is_described_so_until_the_next_trigger() -> None:
    picture = picture_of(event("epoch_bumped", trigger="JOIN_NEW", client_id="a"), event("target_assigned"))
    assert picture.has_seen("a", frozenset({"JOIN_NEW"}), since=0)
    picture.described({"a": [0], "b": [1]}, is_stable=False)
    assert not picture.is_settled(BOTH, 2)
    picture.described({"a": [0], "b": [1]}, is_stable=True)
    assert picture.is_settled(BOTH, 2)
    picture.apply(event("epoch_bumped", trigger="LEAVE", client_id="a"))
    assert not picture.is_settled(BOTH, 2)


def test_triggers_are_found_after_a_mark() -> None:
    picture = picture_of(event("trigger", trigger="LEAVE", client_id="a"), event("trigger", trigger="JOIN_NEW", client_id="b"))
    assert picture.has_seen("a", frozenset({"LEAVE"}), since=0)
    assert not picture.has_seen("a", frozenset({"LEAVE"}), since=1)
    assert not picture.has_seen("b", frozenset({"LEAVE"}), since=0)


def test_a_picture_can_be_told() -> None:
    text = str(picture_of(synced(member("a", 0, 1)), event("trigger", trigger="LEAVE", client_id="a")))
    assert "rebalancing" in text
    assert "LEAVE by a" in text
    assert "a: 2" in str(picture_of(synced(member("a", 0, 1))))


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


def synced_scene(client: str, partitions: int) -> dict[str, Any]:
    members = [{"client_id": client, "assignment": {"flights": list(range(partitions))}}]
    return {"group": "flight-desk", "kind": "sync_completed", "generation": 1, "members": members}


def trigger(cause: str, client: str) -> dict[str, Any]:
    return {"group": "flight-desk", "kind": "trigger", "generation": 1, "trigger": cause, "client_id": client, "members": []}


def test_what_does_not_come_about_is_named(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path, [[synced_scene("consumer-1", 11)]])
    with pytest.raises(DemoFailedError, match=r"waiting for consumer-1 to share 12 partitions; the group is stable .*consumer-1: 11"):
        scene.wait_until_settled("consumer-1")


def test_the_group_is_settled_when_its_events_say_so(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path, [[], [synced_scene("consumer-1", 12)]])
    scene.wait_until_settled("consumer-1")
    assert scene.seen[-1].replayed == 700
    assert scene.seen[-1].waiting_for == "consumer-1 to share 12 partitions"


def test_ends_are_kept_where_they_are_news(tmp_path: Path) -> None:
    scene = FakeScene(tmp_path, [[], [synced_scene("consumer-1", 12)]])
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


class Recorder:
    """A scene on which everything happens at once; it remembers what was done and what was waited for."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.waits = 0
        self.triggers_seen = 7
        self.consumers: Any = self
        self.pace: Any = self
        self.replay: Any = self
        self.timing: Any = self
        self.run_out_seconds_max = 1
        self.is_done = True
        self.committed = self.flights_total = 10

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.done.append(" ".join((name, *map(str, arguments))))

    def has_ended(self, _name: str) -> bool:
        return True

    def wait_until_settled(self, *clients: str) -> None:
        self.done.append(f"settled {len(clients)}")

    def wait_for_trigger(self, client: str, *causes: str, since: int, what: str) -> None:
        assert since == 7
        self.done.append(f"{causes[0]} {client}")

    def wait_for(self, what: str, is_so: Any, *, seconds_max: float | None = None) -> None:
        assert is_so(), what

    def let_work(self) -> None:
        self.waits += 1


def test_the_day() -> None:
    scene: Any = Recorder()
    for incident in INCIDENTS:
        incident.play(scene)
    assert scene.done == [
        *("start consumer-1", "settled 1"),
        *("start consumer-2", "start consumer-3", "settled 3"),
        *("freeze consumer-2", "EXPIRE_HEARTBEAT consumer-2", "settled 2", "thaw consumer-2", "settled 3"),
        *("make_slow consumer-3", "LEAVE consumer-3", "settled 2", "settled 3"),
        *("ask_to_close consumer-1", "take_leave consumer-1", "LEAVE consumer-1", "settled 2"),
        *("add_partitions 16", "settled 2"),
        *("release", "ask_to_close consumer-2", "take_leave consumer-2", "ask_to_close consumer-3", "take_leave consumer-3"),
    ]
    assert scene.waits == 6


def test_titles_fit_beside_the_seconds() -> None:
    assert all(len(incident.title) < 80 for incident in INCIDENTS)


def test_each_incident_shows_its_own_cause() -> None:
    timing = Timing()
    assert timing.session_timeout_ms >= KAFKA_MIN_SESSION_TIMEOUT_MS
    assert timing.heartbeat_interval_ms * 3 <= timing.session_timeout_ms
    # Frozen: noticed and thawed before the poll interval is over. Slow: still at work when the client gives up.
    assert timing.max_poll_interval_ms >= timing.session_timeout_ms + 1_500
    assert timing.slow_batch_ms >= timing.max_poll_interval_ms + 1_500
    assert timing.wait_seconds_max * 1000 > 2 * timing.slow_batch_ms


def test_work_between_incidents_follows_the_pace() -> None:
    assert Timing(flights_per_second=400, work_between_seconds=0.5).flights_between_incidents == 200


class FakeProcess:
    """Remembers its command and its signals; a TERM ends it with `status`."""

    status = 0

    def __init__(self, command: list[str], *, log_path: Path) -> None:
        self.command = command
        self.signals: list[str] = []
        self.is_running = True
        log_path.write_text("what it had to say\n")

    def send_signal(self, name: str) -> None:
        self.signals.append(name)
        self.is_running = self.is_running and name != "TERM"

    def stop(self) -> int:
        self.is_running = False
        return self.status

    def kill(self) -> None:
        self.signals.append("KILL")
        self.is_running = False


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[FakeProcess]:
    processes: list[FakeProcess] = []

    def start(*arguments: Any, **named: Any) -> FakeProcess:
        processes.append(FakeProcess(*arguments, **named))
        return processes[-1]

    monkeypatch.setattr("ottla.cli.demo.scene.ServerProcess", start)
    return processes


@pytest.fixture
def consumers(tmp_path: Path, started: list[FakeProcess]) -> Consumers:
    return Consumers("127.0.0.1:9", "flights", "range", Timing(), Results(tmp_path))


def test_a_process_gets_its_name_and_the_timeouts(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("consumer-1")
    command = started[0].command
    config = json.loads(command[command.index("--config") + 1])
    assert config["client.id"] == "consumer-1"
    assert config["session.timeout.ms"] == Timing().session_timeout_ms
    assert config["max.poll.interval.ms"] == Timing().max_poll_interval_ms
    assert config["enable.auto.commit"] is False


def test_the_consumer_protocol_has_its_timeouts_from_the_broker(tmp_path: Path, started: list[FakeProcess]) -> None:
    Consumers("127.0.0.1:9", "flights", "uniform", Timing(), Results(tmp_path), "consumer").start("a")
    config = json.loads(started[0].command[started[0].command.index("--config") + 1])
    assert (config["group.protocol"], config["group.remote.assignor"]) == ("consumer", "uniform")
    assert not config.keys() & {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
    settings = Timing(session_timeout_ms=5_000).broker_settings("consumer")
    assert settings["group.consumer.session.timeout.ms"] == settings["group.consumer.min.session.timeout.ms"] == "5000"
    assert Timing(session_timeout_ms=5_000).broker_settings("classic") == {"group.min.session.timeout.ms": "5000"}


def test_what_is_done_to_them_is_a_signal(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("a")
    consumers.freeze("a")
    consumers.thaw("a")
    consumers.make_slow("a")
    consumers.ask_to_close("a")
    assert started[0].signals == ["STOP", "CONT", "USR1", "TERM"]
    assert consumers.has_ended("a")
    consumers.check()
    consumers.take_leave("a")
    consumers.kill_all()
    assert "KILL" not in started[0].signals


def test_one_that_ends_unasked_is_reported_with_its_log(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("a")
    consumers.check()
    started[0].is_running = False
    with pytest.raises(DemoFailedError, match="what it had to say"):
        consumers.check()


def test_one_that_does_not_close_well_is_reported(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("a")
    started[0].status = 1
    consumers.ask_to_close("a")
    with pytest.raises(DemoFailedError, match="status 1"):
        consumers.take_leave("a")


def test_all_are_killed_in_the_end(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("a")
    consumers.start("b")
    consumers.freeze("b")
    consumers.kill_all()
    assert [process.signals[-1] for process in started] == ["KILL", "KILL"]
