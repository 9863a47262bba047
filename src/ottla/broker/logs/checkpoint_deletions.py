"""Deleted topics that checkpoints on the disk still name: the checkpoints are written off the event loop, and before any topic of such a
name is created.

What a checkpoint says of a topic that is gone does no harm, as the next start drops it; applied to the next topic of that name it would
lose records. This module decides when they are written.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.core.errors import StorageError

log = logging.getLogger(__name__)


class CheckpointDeletions:
    """Belongs to the loop. `writes` make the checkpoints durable where they have changed; any thread may call them."""

    def __init__(self, writes: Sequence[Callable[[], None]]) -> None:
        self._writes = writes
        self._noted = 0
        self._names: dict[str, int] = {}

    def note(self, topic_name: str) -> None:
        """The topic is gone; the checkpoints in memory do not have it any more."""
        self._noted += 1
        self._names[topic_name] = self._noted

    async def write(self) -> None:
        """Write the checkpoints in a worker thread. A failure is logged; the creation of a topic of such a name tries again."""
        if not self._names:
            return
        noted = self._noted
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._write)
        except StorageError as error:
            log.error("the checkpoints still name deleted topics: %s", error)
        else:
            self._names = {name: number for name, number in self._names.items() if number > noted}

    def write_for(self, topic_name: str) -> None:
        """Write the checkpoints, if they name such a topic, before it is created. Raises StorageError; then it must not be created."""
        if topic_name in self._names:
            self._write()
            self._names = {}

    def _write(self) -> None:
        for write in self._writes:
            write()
