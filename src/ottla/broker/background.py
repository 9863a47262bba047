"""Tasks of requests that wait for a worker thread: kept until they end, since the loop alone might forget them."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Background:
    """One for all brokers of a loop. What a task raises is its own to report."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs `work` from the next turn of the loop on."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        """Ends all of them: the broker stops, and nobody waits for an answer any more."""
        for task in self._tasks:
            task.cancel()
