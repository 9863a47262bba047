"""Where no signal interrupts: functions of the application's calls that must not end in the middle.

Python runs handlers of signals in the main thread, between any two steps of what it does, and they may raise there, as that of Ctrl-C does.
A lock would stay held, records would be taken and not handed out. So the main thread leaves the work on a consumer's state to a thread of
the consumer, and waits; an exception ends the waiting alone. Other threads are never interrupted, and do the work themselves; so does a
handler that calls the consumer while the main thread waits, or holds the lock.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class _Call:
    """A function, and what became of it. `is_abandoned`: nothing waits for it any more."""

    __slots__ = ("done", "error", "function", "is_abandoned", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.done = threading.Lock()
        self.done.acquire()
        self.is_abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.function()
        except BaseException as error:  # noqa: BLE001 - it is raised where the call waits
            self.error = error
        finally:
            self.done.release()


class Calls:
    """Runs functions, one after another. `lock` is that of the state; `wake` ends what an abandoned one waits for, and takes no lock."""

    def __init__(self, lock: Any, wake: Callable[[], None]) -> None:
        self._lock = lock
        self._wake = wake
        self._main = threading.main_thread().ident
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._running: _Call | None = None
        self._is_waiting = self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="ottla-consumer-calls", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_abandoned(self) -> bool:
        """Whether the call that runs was interrupted: it has to end, and its result is lost."""
        return self._running is not None and self._running.is_abandoned

    def run(self, function: Callable[[], T]) -> T:
        """The result of a function."""
        if self._is_stopped or self._is_waiting or threading.get_ident() != self._main or self._lock._is_owned():
            return function()
        if self.is_abandoned:
            self._wake()  # an exception may have come before that
        call = _Call(function)
        self._is_waiting = True
        try:
            self._queue.put(call)
            call.done.acquire()
        except BaseException:
            call.is_abandoned = True
            self._is_waiting = False
            self._wake()
            raise
        self._is_waiting = False
        error, call.error = call.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it has this frame, which would keep it and the memory of all its frames
        result: T = call.result
        return result

    def stop(self) -> None:
        """End the thread when it has done what it was given. Further functions run where they are called."""
        self._is_stopped = True
        self._queue.put(None)
        self._thread.join(1)

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            self._running = call
            call.run()
            self._running = None
            del call  # its result is the application's
