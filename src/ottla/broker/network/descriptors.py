"""How many of the process's file descriptors connections may take: the rest is for the storage's files, for modules and other uses.

A connection that is accepted and then closed costs its client a retry; a log that cannot be opened is offline for all clients.
"""

import asyncio
import resource
import socket
from collections.abc import Callable
from errno import EMFILE, ENFILE
from logging import getLogger
from typing import Any, Final

from ottla.broker.network.repeated_warning import RepeatedWarning
from ottla.core.config import ConfigError

log = getLogger(__name__)

OTHERS_MIN: Final = 32
"""For imports, workers, the metrics' listener and the like; an eighth of all where that is more."""

RAISED_MAX: Final = 1024 * 1024


def descriptor_limit() -> int | None:
    """The limit of this process (`ulimit -n`), None when there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raise the soft limit of this process to the hard one, as the JVM does; for a process that is only a broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RAISED_MAX if hard == resource.RLIM_INFINITY else min(hard, RAISED_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError) as error:  # macOS has a lower bound than its hard limit
            log.info("the limit of open files stays %d: %s", soft, error)


def check_limit(limit: int | None) -> None:
    """Raise ConfigError when so few descriptors are not enough for a broker without a client."""
    if limit is not None and limit < OTHERS_MIN:
        raise ConfigError(
            f"this process may have {limit} files open, and a broker needs {OTHERS_MIN} at least: raise the limit (ulimit -n)"
        )


def connections_max(limit: int, files_max: int) -> int:
    """How many of `limit` descriptors connections may have when the storage may have `files_max` files open; at least a quarter."""
    return max(limit - files_max - max(OTHERS_MIN, limit // 8), limit // 4, 1)


def limit_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """A loop of asyncio's tries once a second to accept, and prints a traceback each time: here it is a line a minute."""
    lines = RepeatedWarning(log)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
            lines.warning(loop.time(), f"connections are not accepted: {error}; raise the limit (ulimit -n)")
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


class Descriptors:
    """The connections of all the process's brokers, and their bound."""

    def __init__(self, limit: int | None, files_max: int) -> None:
        self.limit = limit
        self.connections = 0
        self.connections_max = None if limit is None else connections_max(limit, files_max)
        self._is_exhausted = False

    @property
    def are_left(self) -> bool:
        """Whether one more connection may be taken."""
        return self.connections_max is None or self.connections < self.connections_max

    def check(self, open_one: Callable[[], socket.socket] = socket.socket) -> None:
        """Log once when the process has no descriptor left, for whatever reason, and once when it has some again."""
        try:
            open_one().close()
        except OSError as error:
            if error.errno not in (EMFILE, ENFILE):
                raise
            if not self._is_exhausted:
                log.error("no file descriptor is left: new connections are closed, files cannot be opened; raise the limit (ulimit -n)")
            self._is_exhausted = True
            return
        if self._is_exhausted:
            log.warning("file descriptors are free again: connections are accepted")
        self._is_exhausted = False
