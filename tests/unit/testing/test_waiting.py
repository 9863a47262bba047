"""Waiting ends with the condition's value, or fails and says what was waited for."""

import asyncio
import threading

import pytest

from ottla.testing.waiting import NotYet, wait_until, wait_until_in_threads


def test_the_value_of_the_condition_is_returned() -> None:
    polled: list[int] = []
    assert wait_until(lambda: len(polled) if len(polled) > 2 else 0, "three polls", lambda: polled.append(1)) == 3


def test_it_fails_with_what_was_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"^waited 0.02 s for: a topic"):
        wait_until(lambda: False, "a topic", seconds=0.02)
    seen: list[int] = []
    with pytest.raises(AssertionError, match=r"^waited 0.02 s for: 3, not \[1"):
        wait_until(lambda: seen.append(1), lambda: f"3, not {seen}", seconds=0.02)


def test_checks_in_threads_leave_the_loop_to_other_tasks() -> None:
    asked, answered = threading.Event(), threading.Event()

    def condition() -> str:
        asked.set()
        assert answered.wait(30)
        return "value"

    async def answer() -> None:
        while not asked.is_set():
            await asyncio.sleep(0)
        answered.set()

    async def story() -> None:
        task = asyncio.create_task(answer())
        assert await wait_until_in_threads(condition, lambda: "an answer", seconds=30) == "value"
        await task
        with pytest.raises(AssertionError, match="waited 0 s for: nothing"):
            await wait_until_in_threads(lambda: False, lambda: "nothing", seconds=0)

    asyncio.run(story())


def test_what_is_not_there_yet_is_waited_for() -> None:
    asked: list[int] = []

    def condition() -> bool:
        asked.append(1)
        if len(asked) < 3:
            raise NotYet("there is no topic t")
        return True

    assert wait_until(condition, "a record")
    asked.clear()
    with pytest.raises(AssertionError, match=r"^waited 0 s for: a record \(there is no topic t\)$"):
        wait_until(condition, "a record", seconds=0)
