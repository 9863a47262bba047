"""An executor that holds what is submitted, so that a test decides when it runs."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class HeldExecutor(Executor):
    """`run` runs what was submitted, in the thread of the caller; a shutdown runs all of it."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def submit(self, call: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(call(*args, **named))
            except Exception as error:  # noqa: BLE001 - as an executor does
                future.set_exception(error)

        self.held.append(run)
        return future

    def run(self, count: int | None = None) -> None:
        """The first `count` of what is held, or all."""
        running, self.held = self.held[:count], self.held[count:] if count is not None else []
        for each in running:
            each()

    async def run_for(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, while everything that is submitted runs."""
        task = asyncio.ensure_future(work)
        while not task.done():
            self.run()
            await asyncio.sleep(0)
        return await task

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.run()
