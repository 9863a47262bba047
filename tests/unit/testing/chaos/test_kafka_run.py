"""Tests of the chaos on Apache Kafka: what it does to members and broker, and what it finds wrong. `make soak` runs it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.values import Failure
from ottla.core.errors import ErrorCode
from ottla.testing.chaos import kafka_run
from ottla.testing.chaos.kafka_run import ASSIGNORS, KafkaChaos, main
from ottla.testing.chaos.oracle import JournalRead


class Broker:
    """Counts what is done to it."""

    bootstrap_servers, pid = "h:1", 4711

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def kill(self) -> None:
        self.calls.append("kill")


class Members:
    """Processes that do nothing."""

    def __init__(self, **_: Any) -> None:
        self.running: list[int] = []
        self.started: list[int] = []
        self.calls: set[str] = set()
        self.reads = [JournalRead([((0, 0), "a")], [])]

    def start(self) -> None:
        self.running.append(len(self.started))
        self.started.append(len(self.started))

    def leave(self) -> None:
        self.running.pop()

    def die(self) -> None:
        self.running.pop()

    def cut(self) -> None:
        self.calls.add("cut")

    def freeze(self, now_s: float) -> None:
        self.calls.add("freeze")

    def thaw(self, now_s: float) -> None:
        self.calls.add("thaw")

    def close(self) -> None:
        self.running.clear()

    def journals(self) -> list[JournalRead]:
        return self.reads


class Ledger:
    def __init__(self, *_: Any) -> None:
        self.produced = {(0, 0): "a"}
        self.behind_of_group: dict[int, tuple[int, int]] = {}

    @contextmanager
    def growing(self) -> Iterator[None]:
        yield

    def behind(self, _: str) -> dict[int, tuple[int, int]]:
        return self.behind_of_group


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def signals(monkeypatch: Any) -> list[int]:
    """What was sent to the broker's process."""
    sent: list[int] = []
    monkeypatch.setattr(kafka_run.os, "kill", lambda pid, number: sent.append(number))
    monkeypatch.setattr(kafka_run, "Members", Members)
    monkeypatch.setattr(kafka_run, "Ledger", Ledger)
    monkeypatch.setattr(kafka_run, "time", Time())
    return sent


def test_everything_happens_to_members_and_broker(signals: list[int], tmp_path: Path) -> None:
    broker = Broker()
    chaos = KafkaChaos(broker, 1, tmp_path)  # type: ignore[arg-type]
    chaos.run(900)
    assert set(chaos.acts) == {"join", "leave", "die", "freeze", "cut", "stop_broker", "kill_broker", "freeze_broker"}
    assert set(broker.calls[::2]) == {"stop", "kill"}
    assert set(broker.calls[1::2]) == {"start"}
    assert signals[::2] == [signal.SIGSTOP] * (len(signals) // 2)
    assert signals[1::2] == [signal.SIGCONT] * (len(signals) // 2)


@pytest.mark.usefixtures("signals")
def test_seeds_try_every_assignor(tmp_path: Path) -> None:
    assert {KafkaChaos(Broker(), seed, tmp_path).assignor for seed in range(30)} == set(ASSIGNORS)  # type: ignore[arg-type]


@pytest.mark.usefixtures("signals")
def test_what_does_not_hold_is_said(monkeypatch: Any, tmp_path: Path) -> None:
    chaos = KafkaChaos(Broker(), 1, tmp_path)  # type: ignore[arg-type]
    monkeypatch.setattr(chaos, "_group_problem", list)
    assert chaos.wrong() == []
    assert len(chaos.members.started) == 4
    chaos.ledger.produced[1, 7] = "b"
    chaos.ledger.behind_of_group = {1: (7, 8)}  # type: ignore[attr-defined]
    chaos.members.reads.append(JournalRead([], [], ("0 at 5 instead of 4",)))  # type: ignore[attr-defined]
    monkeypatch.setattr(chaos, "_group_problem", lambda: ["the group is Empty"])
    assert chaos.wrong() == [
        "partition 1 is committed to 7 of 8",
        "the group is Empty",
        "record (1, 7) was not processed",
        "a record came for partition 0 at 5 instead of 4",
    ]


@pytest.mark.usefixtures("signals")
def test_a_group_that_cannot_be_described(monkeypatch: Any, tmp_path: Path) -> None:
    class Admin:
        def __init__(self, _: Any) -> None: ...
        def __enter__(self) -> "Admin":
            return self

        def __exit__(self, *_: object) -> None: ...
        def describe_groups(self, groups: list[str]) -> dict[str, Any]:
            return {groups[0]: Failure(ErrorCode.GROUP_ID_NOT_FOUND)}

    monkeypatch.setattr(kafka_run, "AdminClient", Admin)
    assert "the group cannot be described" in KafkaChaos(Broker(), 1, tmp_path)._group_problem()[0]  # type: ignore[arg-type]


def test_arguments_that_are_wrong(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["--seconds", "many"])
    assert "--seconds" in capsys.readouterr().err
