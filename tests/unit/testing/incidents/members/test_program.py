"""The program of one member: what it does on commands, what it reports, and when it gives up."""

import asyncio
import json
import queue
from typing import Any

import pytest

from ottla.testing.incidents.members.program import ERRORS_MAX, Slowness, run
from ottla.testing.incidents.members.settings import MemberSettings

SETTINGS = MemberSettings(name="m", client="java", servers="", group="g")


class ScriptedClient:
    """A client that gets a partition at its first poll, and notes what is asked of it."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.owned: set[str] = set()
        self.done: list[Any] = []
        self.error = error

    async def start(self) -> None:
        self.done.append("start")

    async def subscribe(self, topics: list[str]) -> None:
        self.done.append(topics)

    async def unsubscribe(self) -> None:
        self.done.append("unsubscribe")

    async def poll(self) -> None:
        await asyncio.sleep(0)
        self.owned = {"t-0"}
        if self.error is not None:
            raise self.error

    def assignment(self) -> set[str]:
        return self.owned

    async def close(self) -> None:
        self.done.append("close")


def reports_of(client: ScriptedClient, commands: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    queued: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    slowness = Slowness()

    async def polled_first() -> None:
        running = asyncio.create_task(run(SETTINGS, client, queued, slowness))
        while not client.owned:
            await asyncio.sleep(0)
        for command in commands:
            queued.put(command)
        await running

    asyncio.run(polled_first())
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_it_carries_out_commands_and_reports_its_assignment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    client = ScriptedClient()
    commands = [{"do": "subscribe", "topics": ["a"]}, {"do": "sleep", "seconds": 0}, {"do": "close"}]
    reports = reports_of(client, commands, capsys)
    assert client.done == ["start", ["a"], "close"]
    assert [each["event"] for each in reports] == ["started", "assignment", "done", "done", "done"]
    assert reports[1] == {"member": "m", "event": "assignment", "partitions": ["t-0"]}


def test_one_that_fails_again_and_again_gives_up(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real_sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _seconds: real_sleep(0))  # it waits after each error
    reports = reports_of(ScriptedClient(error=RuntimeError("no broker")), [], capsys)
    assert reports[-1]["event"] == "failed"
    assert ERRORS_MAX > 1


def test_slowness_is_used_once() -> None:
    slowness = Slowness()
    slowness.set(2.5)
    assert (slowness.take(), slowness.take()) == (2.5, 0.0)
