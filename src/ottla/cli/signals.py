"""SIGINT and SIGTERM of commands that run until they are stopped."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal ends the command. Only the command's own run catches it."""


@contextmanager
def raising_stopped() -> Iterator[None]:
    """SIGINT and SIGTERM raise Stopped, the first of them only: closing is not interrupted."""

    def stop(_number: int, _frame: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StopRequest:
    """`is_set` after the first SIGINT or SIGTERM; the next one ends the process. A context manager, which puts the handlers back."""

    def __init__(self) -> None:
        self.is_set = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._set) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _set(self, _number: int, _frame: object) -> None:
        self.is_set = True
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
