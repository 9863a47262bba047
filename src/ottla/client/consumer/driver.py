"""The background thread of a consumer: connections, heartbeats and prefetching go on while the application works (KIP-62).

The engine is shared by this thread and those of the application, under `condition`, which is notified when the application may have
something to do. In the main thread, where handlers of signals raise, only `lock` may be used, and only for one step that changes the
engine: see `calls`. It decides nothing.
"""

import select
import socket
import threading
import time
from collections.abc import Callable

from ottla.client.brokers import Connect
from ottla.client.consumer.exchange import Exchange
from ottla.client.consumer.links import Outcome
from ottla.client.consumer.monitoring import QUIET, Reporting
from ottla.client.engine.engine import Engine
from ottla.client.settings import ClientSettings


class Driver(Exchange):
    """Runs `engine` in a thread. `failure`: an error that ended the thread."""

    def __init__(
        self,
        engine: Engine,
        settings: ClientSettings,
        *,
        connect: Connect,
        rng: Callable[[], float],
        reporting: Reporting = QUIET,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(engine, settings, connect=connect, rng=rng, clock=clock, wake=self.wake, reporting=reporting)
        self.lock = threading.RLock()
        self.condition = threading.Condition(self.lock)
        self.failure: BaseException | None = None
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._is_stopping = self._must_notify = False
        self._thread = threading.Thread(target=self._run, name="ottla-consumer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.collections.start()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close all connections."""
        self._is_stopping = True
        self.wake()
        self._thread.join()
        self.collections.stop()
        self._wake_receiver.close()
        self._wake_sender.close()

    def wake(self) -> None:
        """The engine may have something to send now."""
        try:
            self._wake_sender.send(b"\0")
        except (BlockingIOError, OSError):
            return  # it is being woken already, or has stopped

    def notify(self) -> None:
        """Let the application look again. For handlers of signals, too: it takes no lock."""
        self._must_notify = True
        self.wake()

    def report(self, outcomes: list[Outcome]) -> None:
        """Tell the engine what became of its requests, and the application that it may have something to do."""
        super().report(outcomes)
        self.condition.notify_all()

    def _run(self) -> None:
        try:
            self.stalls.waits(0)
            while not self._is_stopping:
                self._round()
        except BaseException as error:  # noqa: BLE001 - it is raised in the application's thread
            with self.condition:
                self.failure = error
                self.engine.settle()
                self.condition.notify_all()
        finally:
            self.links.close()
            self.write_log()

    def _round(self) -> None:
        """Send what is due, wait for the brokers, and report what came."""
        with self.condition:
            self.send_due()
            if self.engine.membership.failure is not None:
                self.condition.notify_all()  # an assignor failed where JoinGroup asks it for user data
            wait_ms = self.wait_ms()
        self.write_log()
        self.stalls.waits(wait_ms)
        ready = self._wait(wait_ms)
        self.stalls.woke()
        outcomes = self.links.step(ready)
        with self.condition:
            if outcomes:
                self.report(outcomes)
                self.send_due()
            has_notice = self.monitor is not None and self.monitor.step(self.now_ms())
            if self._must_notify or has_notice or self.engine.has_news() or self.refusal is not None:
                self._must_notify = False
                self.condition.notify_all()

    def _wait(self, wait_ms: float) -> set[int]:
        poll = select.poll()
        poll.register(self._wake_receiver.fileno(), select.POLLIN)
        for connection in self.links.connections():
            poll.register(connection.fileno(), select.POLLIN | (select.POLLOUT if connection.wants_write else 0))
        # Rounded up: a poll that ends just before a timer would be repeated at once.
        ready = {fileno for fileno, _ in poll.poll(int(wait_ms) + 1 if wait_ms else 0)}
        if self._wake_receiver.fileno() in ready:
            self._drain_wakes()
        return ready

    def _drain_wakes(self) -> None:
        try:
            while self._wake_receiver.recv(4096):
                continue
        except BlockingIOError:
            return
