"""The directories of deleted topics: renamed to `*-delete` in a worker thread, then removed after `file.delete.delay.ms`.

The topic is no longer in the cluster metadata when this begins, and a new topic of its name may be created at once: openings of its
partitions wait for `moving` first. A crash before the renames leaves directories of no topic: the next start logs them, and a new topic
of that name renames them, by their topic id (log_loading.py).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

from ottla.broker.logs.log_loading import renamed_directory
from ottla.broker.logs.partition import Partition
from ottla.broker.logs.removals import DELETED_DIRECTORY_SUFFIX, Removals
from ottla.core.errors import StorageError
from ottla.core.model import TopicPartition
from ottla.storage.file_system import Files
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings

log = logging.getLogger(__name__)

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
