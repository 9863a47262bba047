"""Removal of deleted files and directories: renamed first, removed in worker threads after `file.delete.delay.ms`.

Callers rename a file to `*.deleted` and pass its path. The directories of deleted topics are renamed here, to `*-delete`: the topic is no
longer in the cluster metadata when this begins, and a new topic of its name may be created at once, so that openings of its partitions wait
for `moving` first. A crash before the renames leaves directories of no topic: the next start logs them, and a new topic of that name
renames them, by their topic id (log_loading.py).
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from ottla.broker.partitions.log_loading import renamed_directory
from ottla.broker.partitions.partition import Partition
from ottla.log.file_system import Files
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

log = logging.getLogger(__name__)

DELETED_DIRECTORY_SUFFIX = "-delete"
_DELETED_DIRECTORY = re.compile(r".+-[0-9]+\.[0-9a-f]+-delete")
_THREADS = 2
_PATHS_AT_ONCE = 64
"""Paths of one job of a worker thread."""
_DELAY_S_MAX = 365 * 86_400
"""The event loop's timers accept no longer delay; a broker that runs longer than this removes early."""


def is_deleted_directory(name: str) -> bool:
    """Whether Ottla or Apache Kafka gave a directory this name so that it is removed; other programs' directories may end like it."""
    return _DELETED_DIRECTORY.fullmatch(name) is not None


class Removals:
    """What waits to be removed. Nothing of it is read again, except by fetches that began before."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ottla-removal")
        self._waiting: dict[asyncio.TimerHandle, tuple[str, ...]] = {}

    def remove_later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Remove the paths after `delay_ms`, or when the broker stops before that. On the event loop."""
        paths = tuple(paths)
        if not paths:
            return

        def remove() -> None:
            del self._waiting[timer]
            self.remove_now(paths)

        timer = asyncio.get_running_loop().call_later(min(delay_ms / 1000, _DELAY_S_MAX), remove)
        self._waiting[timer] = paths

    def remove_now(self, paths: Iterable[str]) -> None:
        """Remove the paths, without waiting for it."""
        paths = tuple(paths)
        for first in range(0, len(paths), _PATHS_AT_ONCE):
            self._pool.submit(self._remove_all, paths[first : first + _PATHS_AT_ONCE])

    def close(self) -> None:
        """Remove all paths that still wait, and return when they are removed."""
        for timer, paths in self._waiting.items():
            timer.cancel()
            self.remove_now(paths)
        self._waiting.clear()
        self._pool.shutdown(wait=True)

    def _remove_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._remove(path)

    def _remove(self, path: str) -> None:
        try:
            if not self._files.exists(path):  # its directory was deleted meanwhile
                return
            if path.endswith(DELETED_DIRECTORY_SUFFIX):
                self._files.remove_directory(path)
            else:
                self._files.remove(path)
        except StorageError as error:
            log.error("%s is not removed until the next start: %s", path, error)


_ENDED_PER_ITERATION: Final = 64
"""Partitions in use that are closed before the event loop continues with other work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """A topic that the cluster metadata has removed. `in_use`: its open partitions, which nothing finds by their name any more.

    `unused`: partitions that are not open and may have files. `openings`: what worker threads still do with directories of the topic.
    """

    name: str
    in_use: Sequence[Partition]
    unused: Sequence[TopicPartition]
    openings: Sequence["asyncio.Future[Any]"]
    delete_delay_ms: int


class DeletedDirectories:
    """Belongs to the loop; the renames run on `executor`. `moved` is called with the partitions whose files have other names now."""

    def __init__(self, files: Files, removals: Removals, executor: Executor, moved: Callable[[Collection[TopicPartition]], None]) -> None:
        self._files = files
        self._removals = removals
        self._executor = executor
        self._moved = moved
        self._moving: dict[str, asyncio.Task[None]] = {}
        self._ending = asyncio.Lock()

    def moving(self, topic_name: str) -> "asyncio.Task[None] | None":
        """Done when no directory of a deleted topic of this name has the topic's name any more; None when there is none."""
        return self._moving.get(topic_name)

    def under_way(self) -> "list[asyncio.Task[None]]":
        """All renames that have not ended."""
        return list(self._moving.values())

    def move(self, deleted: DeletedTopic) -> None:
        """Start the renames, and answer the requests that wait for a partition of the topic."""
        earlier = self._moving.get(deleted.name)
        task = asyncio.get_running_loop().create_task(self._move(deleted, earlier))
        self._moving[deleted.name] = task
        task.add_done_callback(lambda _: self._forget(deleted.name, task))

    def _forget(self, topic_name: str, task: "asyncio.Task[None]") -> None:
        if self._moving.get(topic_name) is task:
            del self._moving[topic_name]

    async def _move(self, deleted: DeletedTopic, earlier: "asyncio.Task[None] | None") -> None:
        async with self._ending:  # one topic at a time: many at once would keep the loop as long as one large topic
            for count, partition in enumerate(deleted.in_use, 1):
                partition.mark_deleted()
                partition.log.close(clean=False)  # its files were opened by this thread
                if count % _ENDED_PER_ITERATION == 0:
                    await asyncio.sleep(0)
        waits_for = [*deleted.openings, *([earlier] if earlier else [])]
        if waits_for:
            await asyncio.wait(waits_for)
        names = [partition.name for partition in deleted.in_use] + list(deleted.unused)
        logs = [partition.log for partition in deleted.in_use]
        moved, paths = await asyncio.get_running_loop().run_in_executor(self._executor, self._rename, names, logs)
        if self._moving.get(deleted.name) is asyncio.current_task():
            self._moved(moved)  # else a later topic of the name was deleted too, and its renames have not ended
        self._removals.remove_later(paths, deleted.delete_delay_ms)

    def _rename(self, names: Sequence[TopicPartition], logs: Sequence[PartitionLog]) -> tuple[list[TopicPartition], list[str]]:
        """Runs in a worker thread. Partitions that have no files under their name now, and the new paths. `logs` are of the first names."""
        moved, paths = [], []
        for count, name in enumerate(names):
            directory = f"{name.topic}-{name.partition}"
            away = renamed_directory(directory, DELETED_DIRECTORY_SUFFIX)
            partition_log = logs[count] if count < len(logs) else PartitionLog(self._files, directory, LogSettings())
            try:
                if partition_log.move_away(away):
                    paths.append(away)
                moved.append(name)
            except StorageError as error:
                log.error("%s of the deleted topic stays: %s", directory, error)
        return moved, paths
