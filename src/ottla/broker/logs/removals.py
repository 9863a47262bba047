"""Files and directories that were deleted: kept under their new name for a while, then removed in worker threads.

The callers rename a file to `*.deleted` or a directory to `*-delete`, and pass its path.
"""

import asyncio
import logging
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ottla.core.errors import StorageError
from ottla.storage.file_system import Files

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
