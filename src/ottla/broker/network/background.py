"""Requests that wait for worker threads, each in a task of the event loop."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ottla.broker.protocol.request import Request


class Background:
    """One for all brokers of a loop. It keeps the tasks until they end, since the loop alone keeps only weak references."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, request: Request, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start `work` in the next iteration of the loop; an exception of it is passed to `request.fail`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                request.fail(error)

        task.add_done_callback(ended)
        return task

    def cancel(self) -> None:
        """Cancel all of them: the broker stops, and closes the connections that wait."""
        for task in self._tasks:
            task.cancel()
