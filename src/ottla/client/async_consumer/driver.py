"""The driver of a consumer in an event loop: its sockets are waited for by the loop, and no call waits.

Connections are opened in threads of their own, by the code of all clients: names, TLS and authentication may take long. It decides nothing.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from ottla.client.brokers import Connect
from ottla.client.consumer.exchange import Exchange
from ottla.client.engine.engine import Engine
from ottla.client.network.connection import BrokerConnection
from ottla.client.settings import ClientSettings

_ROUNDS_PER_HEARTBEAT: Final = 3
"""Rounds in heartbeat.interval.ms, at least: how exactly a blocked event loop is noticed."""


class AsyncDriver(Exchange):
    """Runs `engine` in `loop`, in whose thread all of it is used. `on_change`: something happened that a method may wait for.

    `failure`: an error that ended the driver.
    """

    def __init__(
        self,
        engine: Engine,
        settings: ClientSettings,
        *,
        loop: asyncio.AbstractEventLoop,
        connect: Connect,
        rng: Callable[[], float],
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(engine, settings, connect=connect, rng=rng, clock=clock, wake=self._wake_from_thread, is_loop=True)
        self.failure: BaseException | None = None
        self._loop = loop
        self._on_change = on_change
        self._heartbeat_ms = engine.settings.group.heartbeat_interval_ms
        self._watched: dict[int, tuple[BrokerConnection, bool]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next: asyncio.Handle | None = None
        self._timer_ms = 0.0
        self._is_running = False

    def start(self) -> None:
        """Begin to send."""
        self._is_running = True
        self.collections.start()
        self.stalls.waits(0)
        self.wake()

    def stop(self) -> None:
        """Close all connections; nothing of it is left in the loop."""
        if self._is_running:
            self.collections.stop()
            self.write_log()
        self._is_running = False
        for handle in (self._timer, self._next):
            if handle is not None:
                handle.cancel()
        for fileno in list(self._watched):
            self._unwatch(fileno)
        self.links.close()

    def wake(self) -> None:
        """The engine may have something to send: look when the loop comes to it."""
        if self._is_running and self._next is None:
            self._next = self._loop.call_soon(self.run)

    def run(self) -> None:
        """Send what is due now, and ask the loop to wait for the rest."""
        self._next = None
        self._step(set(), is_due=True)

    def _on_ready(self, fileno: int) -> None:
        """A socket can be read or written. Most often it has a part of a response, from which nothing follows yet."""
        self._step({fileno}, is_due=False)

    def _step(self, ready: set[int], *, is_due: bool) -> None:
        if not self._is_running:
            return
        try:
            is_due = is_due or self.now_ms() >= self._timer_ms
            if is_due:
                self.stalls.woke()
            outcomes = self.links.step(ready)
            if outcomes:
                self.report(outcomes)
            if outcomes or is_due:
                self.send_due()
                self._set_timer()
                self.write_log()
            self._watch_sockets()
            if outcomes or self.refusal is not None or self.engine.has_news():
                self._on_change()
        except Exception as error:  # noqa: BLE001 - it is raised in the application's next call
            self.stop()
            self.failure = error
            self._on_change()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = min(self.wait_ms(), self._heartbeat_ms / _ROUNDS_PER_HEARTBEAT)
        self._timer_ms = self.now_ms() + wait_ms
        self.stalls.waits(wait_ms)
        self._timer = self._loop.call_later(wait_ms / 1000, self.run)

    def _watch_sockets(self) -> None:
        """Ask the loop for the sockets that are open now. A number may belong to another connection than before."""
        connections = {connection.fileno(): connection for connection in self.links.connections()}
        for fileno, (connection, _) in list(self._watched.items()):
            if connections.get(fileno) is not connection:
                self._unwatch(fileno)
        for fileno, connection in connections.items():
            wants_write = connection.wants_write
            _, had_write = self._watched.get(fileno, (None, False))
            if fileno not in self._watched:
                self._loop.add_reader(fileno, self._on_ready, fileno)
            if wants_write and not had_write:
                self._loop.add_writer(fileno, self._on_ready, fileno)
            elif had_write and not wants_write:
                self._loop.remove_writer(fileno)
            self._watched[fileno] = connection, wants_write

    def _unwatch(self, fileno: int) -> None:
        _, had_write = self._watched.pop(fileno)
        self._loop.remove_reader(fileno)
        if had_write:
            self._loop.remove_writer(fileno)

    def _wake_from_thread(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self.wake)
        except RuntimeError:
            return  # the loop is closed
