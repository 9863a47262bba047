"""Writes to a pipe, a file or a terminal, whole, and without waiting on when a signal has come."""

import os
import select
import stat
from typing import Final

from ottla.cli.signals import Stopped, StopRequest

STDOUT: Final = 1
_WAIT_MS: Final = 100
_PIPE_BYTES: Final = select.PIPE_BUF
"""What a pipe that is ready takes without waiting (POSIX)."""


def write_all(data: bytes, stop: StopRequest, descriptor: int = STDOUT) -> None:
    """Write all of it, without a buffer that would be written later.

    Raises Stopped when a signal has come and the other side of a pipe does not read, and BrokenPipeError when that is closed.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    chunk = len(data) if stat.S_ISREG(os.fstat(descriptor).st_mode) else _PIPE_BYTES
    left = memoryview(data)
    while left:
        if poll.poll(_WAIT_MS):
            left = left[os.write(descriptor, left[:chunk]) :]
        elif stop.is_set:
            raise Stopped
