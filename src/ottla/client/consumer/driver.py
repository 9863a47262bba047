"""The background thread of a consumer: connections, heartbeats and prefetching go on while the application works (KIP-62).

The engine is shared by this thread and the application's, under `condition`, which is notified when the application may have something to
do. It decides nothing.
"""

import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from ottla.client.addresses import parse_addresses
from ottla.client.brokers import Connect
from ottla.client.consumer.links import Links, Outcome
from ottla.client.errors import AuthenticationError, UnsupportedBrokerError
from ottla.client.settings import ClientSettings
from ottla.core.client.consumer.engine import Engine
from ottla.core.errors import PeerError

_LOG: Final = logging.getLogger("ottla.consumer")
WAIT_MS_MAX: Final = 60_000.0


class Driver:
    """Runs `engine` in a thread. `failure`: an error that ended the thread; `refusal`: a broker rejects the client, or the other way round.

    `unreachable`: why the last broker could not be reached, "" since one answered.
    """

    def __init__(
        self,
        engine: Engine,
        settings: ClientSettings,
        *,
        connect: Connect,
        rng: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.condition = threading.Condition()
        self.failure: BaseException | None = None
        self.refusal: Exception | None = None
        self.unreachable = ""
        self._clock = clock
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._is_stopping = self._must_notify = False
        bootstrap = parse_addresses(settings.bootstrap_servers)
        self._links = Links(settings, bootstrap, connect=connect, wake=self.wake, now_ms=self.now_ms, rng=rng)
        self._thread = threading.Thread(target=self._run, name="ottla-consumer", daemon=True)

    def now_ms(self) -> float:
        """The engine's clock."""
        return self._clock() * 1000

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close all connections."""
        self._is_stopping = True
        self.wake()
        self._thread.join()
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

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._round()
        except BaseException as error:  # noqa: BLE001 - it is raised in the application's thread
            with self.condition:
                self.failure = error
                self.engine.settle()
                self.condition.notify_all()
        finally:
            self._links.close()

    def _round(self) -> None:
        """Send what is due, wait for the brokers, and report what came."""
        with self.condition:
            self._send_all()
            now_ms = self.now_ms()
            times = [each for each in (self.engine.next_ms(now_ms), self._links.next_ms()) if each is not None]
        wait_ms = min(max(min(times, default=WAIT_MS_MAX + now_ms) - now_ms, 0.0), WAIT_MS_MAX)
        ready = self._wait(wait_ms)
        outcomes = self._links.step(ready)
        with self.condition:
            if outcomes:
                self._report(outcomes)
                self._send_all()
            if self._must_notify or self.engine.has_news() or self.refusal is not None:
                self._must_notify = False
                self.condition.notify_all()

    def _send_all(self) -> None:
        while sends := self.engine.next_sends(self.now_ms()):
            outcomes = [outcome for send in sends for outcome in self._links.send(send, self.engine.cluster.endpoints)]
            if not outcomes:
                # What was sent may have changed what is due.
                continue
            self._report(outcomes)

    def _wait(self, wait_ms: float) -> set[int]:
        poll = select.poll()
        poll.register(self._wake_receiver.fileno(), select.POLLIN)
        for fileno, wants_write in self._links.filenos().items():
            poll.register(fileno, select.POLLIN | (select.POLLOUT if wants_write else 0))
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

    def _report(self, outcomes: list[Outcome]) -> None:
        now_ms = self.now_ms()
        for send, response, error in outcomes:
            if error is None:
                self.unreachable = ""
                try:
                    self.engine.on_response(send, response, now_ms)
                except PeerError as nonsense:
                    self.refusal = nonsense
                    self.engine.on_no_response(send, str(nonsense), now_ms)
                continue
            self.unreachable = str(error)
            if isinstance(error, AuthenticationError | UnsupportedBrokerError | PeerError):
                self.refusal = error
            _LOG.debug("%s was not answered: %s", type(send.request).__name__, error)
            self.engine.on_no_response(send, str(error), now_ms)
        self.condition.notify_all()
