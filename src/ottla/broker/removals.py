"""Files and directories that are to go: kept under their new name for a while, then removed in worker threads.

It is told what and when, and decides nothing: whoever renames a file to `*.deleted` or a directory to `*-delete` hands the path over.
"""

import asyncio
import logging
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ottla.core.errors import StorageError
from ottla.storage.files import Files

log = logging.getLogger("ottla.broker.removals")

DELETED_DIRECTORY_SUFFIX = "-delete"
_DELETED_DIRECTORY = re.compile(r".+-[0-9]+\.[0-9a-f]+-delete")
_THREADS = 2
_PATHS_AT_ONCE = 64
"""Paths of one job of a worker thread."""
_DELAY_S_MAX = 365 * 86_400
"""Timers of the loop take no delay without an end; a broker that runs longer than this removes early."""


def is_deleted_directory(name: str) -> bool:
    """Whether Ottla or Apache Kafka gave a directory this name so that it is removed; other programs' directories may end like it."""
    return _DELETED_DIRECTORY.fullmatch(name) is not None


class Removals:
    """What waits to be removed. Nothing of it is read again, except by fetches that began before."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ottla-removal")
        self._waiting: dict[asyncio.TimerHandle, tuple[str, ...]] = {}

    def later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Removes the paths after `delay_ms`; when the broker stops before, then. Belongs to the loop."""
        paths = tuple(paths)
        if not paths:
            return

        def begin() -> None:
            del self._waiting[timer]
            self.now(paths)

        timer = asyncio.get_running_loop().call_later(min(delay_ms / 1000, _DELAY_S_MAX), begin)
        self._waiting[timer] = paths

    def now(self, paths: Iterable[str]) -> None:
        """Removes the paths, without waiting for it."""
        paths = tuple(paths)
        for first in range(0, len(paths), _PATHS_AT_ONCE):
            self._pool.submit(self._remove_all, paths[first : first + _PATHS_AT_ONCE])

    def close(self) -> None:
        """Removes all that still waits, and returns when it is gone."""
        for timer, paths in self._waiting.items():
            timer.cancel()
            self.now(paths)
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
            log.error("%s stays until the next start: %s", path, error)
