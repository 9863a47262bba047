"""What looks again and again, on the broker's loop, at what metrics and health pages show. What is seen is for those who derive from it."""

import asyncio
import logging
from abc import ABC, abstractmethod

log = logging.getLogger("ottla.broker.watch")


class Watch(ABC):
    """`begin` when the broker serves, `stop` before its logs are closed. A look that fails is said, and the next one comes all the same."""

    what: str
    """What is drawn, for the sentence about a look that failed."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def look(self) -> None:
        """Draws the picture anew."""

    @abstractmethod
    def pause_s(self) -> float:
        """How long to wait after a look."""

    def begin(self) -> None:
        """Begins to watch, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Ends the watch; what it has drawn stays."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("%s could not be drawn; it is tried again", self.what)
            await asyncio.sleep(self.pause_s())
