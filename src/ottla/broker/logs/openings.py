"""Openings of partitions in worker threads: one for a partition at a time, shared by all requests that wait for it.

An opened log is handed over on the event loop; until then no other thread uses it. partitions.py decides what may be opened, and handles
failures.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from ottla.core.errors import StorageError
from ottla.core.model import TopicPartition

log = logging.getLogger(__name__)
T = TypeVar("T")


class NotOpen(StorageError):
    """The partition is being opened: `get` has a result once `opening` is done. A client that gets this error tries again."""

    def __init__(self, message: str, opening: "asyncio.Future[None]") -> None:
        super().__init__(message)
        self.opening = opening


class Opening(Generic[T]):
    """What is to be done: `load` in a worker thread, then `loaded` with its result or `failed` on the loop.

    `is_wanted`: the partition is to be kept open; else its log is borrowed for one call.
    """

    __slots__ = ("failed", "is_wanted", "load", "loaded")

    def __init__(
        self, load: Callable[[], T], loaded: Callable[[T, bool], None], failed: Callable[[StorageError, bool], None], *, is_wanted: bool
    ) -> None:
        self.load = load
        self.loaded = loaded
        self.failed = failed
        self.is_wanted = is_wanted


class Openings:
    """Belongs to the loop."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._under_way: dict[TopicPartition, tuple[Opening[object], asyncio.Task[None]]] = {}

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._under_way

    def wanted(self, name: TopicPartition) -> "asyncio.Task[None] | None":
        """The opening that is under way, after which the partition is now to be kept open; None when there is none."""
        known = self._under_way.get(name)
        if known is None:
            return None
        known[0].is_wanted = True
        return known[1]

    def start(self, name: TopicPartition, opening: Opening[T], *, after: "asyncio.Future[None] | None") -> "asyncio.Task[None]":
        """Start an opening when `after` is done. The task never raises."""
        assert name not in self._under_way, "one opening for a partition at a time"
        task = asyncio.get_running_loop().create_task(self._run(name, opening, after))
        self._under_way[name] = opening, task  # type: ignore[assignment]
        return task

    def under_way(self) -> "list[asyncio.Task[None]]":
        """All that have not ended."""
        return [task for _, task in self._under_way.values()]

    def take_out(self, names: Iterable[TopicPartition]) -> "Sequence[asyncio.Task[None]]":
        """The openings of a topic that was deleted: from now on another one for the same name may start."""
        if not self._under_way:
            return ()
        return [known[1] for name in names if (known := self._under_way.pop(name, None)) is not None]

    def close(self) -> None:
        """Return when no thread opens anything any more; openings that have not begun are dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    async def _run(self, name: TopicPartition, opening: Opening[T], after: "asyncio.Future[None] | None") -> None:
        try:
            if after is not None:
                await asyncio.wait([after])
            result = await asyncio.get_running_loop().run_in_executor(self._executor, opening.load)
        except StorageError as error:
            opening.failed(error, opening.is_wanted)
        except Exception as error:
            log.exception("%s-%d could not be opened", *name)
            opening.failed(StorageError(f"{name.topic}-{name.partition} could not be opened: {error!r}"), opening.is_wanted)
        else:
            opening.loaded(result, opening.is_wanted)
        finally:
            known = self._under_way.get(name)
            if known is not None and known[0] is opening:
                del self._under_way[name]
