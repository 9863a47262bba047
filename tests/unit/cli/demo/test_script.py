"""The day in its order: what is done to whom, and that each incident waits for what it set off."""

from typing import Any

from ottla.cli.demo.script import INCIDENTS


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
