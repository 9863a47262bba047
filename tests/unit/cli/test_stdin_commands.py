"""What is typed to several brokers, and what they say."""

import asyncio
import json
import os
import threading

import pytest

from ottla.broker.running_brokers import BrokerTask
from ottla.cli.stdin_commands import carry_out, read_verbs


@pytest.fixture
def answers() -> list[str]:
    """The answers to a conversation with two brokers."""

    async def story() -> list[str]:
        task = BrokerTask(None, {}, "127.0.0.1:0", brokers=2)
        await task.start()
        lines = (
            "stop 2", "coordinator g", "start 2", "move-coordinator g 2", "add", "move-leader __consumer_offsets 0 3", "", "stop x",
            "stop", "fly 1", "stop 9", "move-leader t 0 1",
        )  # fmt: skip
        answers = [await carry_out(task, line) for line in lines]
        second, third = task.address(2), task.address(3)
        first = task.address(1)
        await task.stop()
        return [answer.replace(first, "FIRST").replace(second, "SECOND").replace(third, "THIRD") for answer in answers]

    return asyncio.run(story())


def test_every_line_has_its_answer(answers: list[str]) -> None:
    usage = answers[8]
    assert usage.startswith("error: write one of: stop BROKER")
    assert answers == [
        "ok: broker 2 is stopped",
        "ok: g has hash 103, partition 3, and is coordinated by broker 1 on FIRST",
        "ok: broker 2 listens on SECOND",
        "ok: g has hash 103, partition 3, and is coordinated by broker 2 on SECOND",
        "ok: broker 3 listens on THIRD",
        "ok: broker 3 leads __consumer_offsets-0",
        "",
        "error: stop x: a broker and a partition are numbers",
        usage,
        usage,
        "error: there is no broker 9: the brokers are 1, 2, 3",
        "error: There is no partition t-0.",
    ]


def test_answers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()

    async def story() -> None:
        task = BrokerTask(None, {}, "127.0.0.1:0", brokers=2)
        await task.start()
        os.write(writing, b"stop 2\nstop 9\n")
        os.close(writing)
        read_verbs(task, reading, as_json=True)
        (thread,) = [each for each in threading.enumerate() if each.name == "ottla-verbs"]
        await asyncio.to_thread(thread.join, 10)
        await task.stop()

    asyncio.run(story())
    os.close(reading)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"ok": True, "message": "broker 2 is stopped"},
        {"ok": False, "message": "there is no broker 9: the brokers are 1, 2"},
    ]


def test_lines_come_in_pieces_and_end_with_the_input(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()

    async def story() -> None:
        task = BrokerTask(None, {}, "127.0.0.1:0", brokers=2)
        await task.start()
        read_verbs(task, reading)
        (thread,) = [each for each in threading.enumerate() if each.name == "ottla-verbs"]
        for piece in (b"st", b"op 2\nst", b"art 2\n"):
            os.write(writing, piece)
        os.close(writing)
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()
        await task.stop()

    asyncio.run(story())
    os.close(reading)
    said = capsys.readouterr().out.splitlines()
    assert [line.split(" on ")[0] for line in said] == ["ok: broker 2 is stopped", "ok: broker 2 listens"]
