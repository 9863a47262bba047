"""The consumer's connections to brokers: opened in the background, one for each route and broker.

It carries out the engine's sends and reports their outcomes; it decides nothing about them. It is used by one thread, but for connecting,
which may wait for a name server, a handshake or an authentication, and has a thread of its own for each attempt.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from ottla.client.addresses import Address
from ottla.client.backoff import backoff_ms
from ottla.client.brokers import Connect
from ottla.client.consumer.monitoring import Monitor
from ottla.client.consumer.requests import Encoded, encode_request
from ottla.client.engine.values import Endpoint, Route, Send
from ottla.client.errors import ClientError
from ottla.client.network.connection import BrokerConnection
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import PeerError


class Outcome(NamedTuple):
    """What became of a request: a response, or an error that is a ClientError or PeerError."""

    send: Send
    response: Any
    error: Exception | None


class _Key(NamedTuple):
    """Which connection: requests to any broker share one."""

    route: Route
    broker_id: int


class _InFlight(NamedTuple):
    send: Send
    encoded: Encoded
    sent_ms: float
    ends_ms: float


class _Link:
    """A connection, or an attempt to open one; `waiting` are requests for it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connection: BrokerConnection | None = None
        self.is_connecting = False
        self.waiting: list[tuple[Send, float]] = []
        self.in_flight: deque[_InFlight] = deque()


class Links:
    """All connections of a consumer. `wake` is called in a connecting thread when that is done; `now_ms` is the clock of the engine.

    `monitor` notes what happens, where the application wants to know.
    """

    def __init__(
        self,
        settings: ClientSettings,
        bootstrap: list[Address],
        *,
        connect: Connect,
        wake: Callable[[], None],
        now_ms: Callable[[], float],
        rng: Callable[[], float],
        monitor: Monitor | None = None,
    ) -> None:
        self._settings = settings
        self._monitor = monitor
        self._bootstrap = bootstrap
        self._connect = connect
        self._wake = wake
        self._now_ms = now_ms
        self._rng = rng
        self._links: dict[_Key, _Link] = {}
        self._opened: SimpleQueue[tuple[_Link, BrokerConnection | Exception]] = SimpleQueue()
        self._failures: dict[Address, int] = {}
        self._may_connect_ms: dict[Address, float] = {}
        self._is_closed = False

    def set_credentials(self, username: str, password: str) -> None:
        """Authenticate connections that are opened from now on with these. Any thread may call it."""
        self._settings = self._settings.with_credentials(username, password)

    def close(self) -> None:
        """Close every connection; attempts to open one end by themselves."""
        self._is_closed = True
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()
        self._links.clear()
        self._close_opened()

    def connections(self) -> list[BrokerConnection]:
        """The open connections, whose sockets are to be waited for."""
        return [link.connection for link in self._links.values() if link.connection is not None]

    def send(self, send: Send, endpoints: dict[int, Endpoint]) -> list[Outcome]:
        """Send a request, or keep it until its connection is open. What failed at once is in the result."""
        key = _Key(send.route, send.broker_id)
        address = self._address(send, endpoints)
        if address is None:
            return [Outcome(send, None, ClientError(f"broker {send.broker_id} is not there"))]
        link = self._links.get(key)
        outcomes: list[Outcome] = []
        if link is not None and link.address != address and send.route is not Route.ANY:
            outcomes += self._drop(key, ClientError(f"broker {send.broker_id} has another address now"), is_planned=True)
            link = None
        if link is not None and link.connection is not None and link.connection.is_stale(self._settings.connections_max_idle_ms):
            outcomes += self._drop(key, ClientError("the connection was idle"), is_planned=True)
            link = None
        if link is None:
            link = self._links[key] = _Link(address)
        link.waiting.append((send, self._now_ms() + send.timeout_ms))
        return outcomes + self._progress(key, link)

    def step(self, ready: set[int]) -> list[Outcome]:
        """Read and write what the sockets allow (`ready`: those that are), and end what took too long."""
        outcomes = self._take_opened()
        for key, link in list(self._links.items()):
            if link.connection is not None and (link.connection.fileno() in ready or link.connection.has_pending):
                outcomes += self._exchange(key, link, link.connection)
        now_ms = self._now_ms()
        for key, link in list(self._links.items()):
            late = [each.ends_ms for each in link.in_flight if each.ends_ms <= now_ms]
            late += [ends_ms for _, ends_ms in link.waiting if ends_ms <= now_ms]
            if late:
                outcomes += self._drop(
                    key, ClientError(f"no answer from broker {link.address.host}:{link.address.port} in time"), is_late=True
                )
            elif not link.is_connecting and link.connection is None:
                outcomes += self._progress(key, link)
        return outcomes

    def next_ms(self) -> float | None:
        """When `step` has something to do although no socket is ready."""
        times = [each.ends_ms for link in self._links.values() for each in link.in_flight]
        for link in self._links.values():
            times += [ends_ms for _, ends_ms in link.waiting]
            if link.connection is None and not link.is_connecting and link.waiting:
                times.append(self._may_connect_ms.get(link.address, 0.0))
            elif link.connection is not None and link.connection.has_pending:
                times.append(0.0)
        return min(times, default=None)

    def _address(self, send: Send, endpoints: dict[int, Endpoint]) -> Address | None:
        if send.route is Route.ANY:
            known = [Address(*each) for each in endpoints.values()]
            # The one that failed least often since it was last reached.
            return min(dict.fromkeys([*known, *self._bootstrap]), key=lambda each: self._failures.get(each, 0))
        endpoint = endpoints.get(send.broker_id)
        return None if endpoint is None else Address(*endpoint)

    def _progress(self, key: _Key, link: _Link) -> list[Outcome]:
        """Send what waits, or begin to connect."""
        if link.connection is not None:
            try:
                while link.waiting:
                    send, ends_ms = link.waiting[0]
                    encoded = encode_request(send.request, link.connection)
                    link.in_flight.append(_InFlight(send, encoded, self._now_ms(), ends_ms))
                    del link.waiting[0]
                    if self._monitor is not None:
                        self._monitor.sent(link.address, send.request, len(encoded.body))
                    link.connection.send(encoded.api_key, encoded.version, encoded.body, is_flexible=encoded.is_flexible)
            except ClientError as error:
                return self._drop(key, error)
            return []
        if link.waiting and not link.is_connecting and self._now_ms() >= self._may_connect_ms.get(link.address, 0.0):
            link.is_connecting = True
            if self._monitor is not None:
                self._monitor.connecting(link.address)
            threading.Thread(target=self._open, args=(link,), name="ottla-consumer-connect", daemon=True).start()
        return []

    def _open(self, link: _Link) -> None:
        """In a thread of its own: connect, and authenticate."""
        try:
            self._opened.put((link, self._connect(link.address, self._settings, self._settings.request_timeout_ms)))
        except (ClientError, PeerError, OSError) as error:
            self._opened.put((link, error))
        if self._is_closed:
            self._close_opened()
        self._wake()

    def _close_opened(self) -> None:
        """Close connections that nothing needs any more: this thread and the connecting one both look, so that one of them finds each."""
        try:
            while True:
                _, opened = self._opened.get_nowait()
                if isinstance(opened, BrokerConnection):
                    opened.close()
        except Empty:
            return

    def _take_opened(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while not self._opened.empty():
            link, opened = self._opened.get()
            key = next((key for key, each in self._links.items() if each is link), None)
            if isinstance(opened, BrokerConnection):
                self._failures.pop(link.address, None)
                self._may_connect_ms.pop(link.address, None)
                if key is None:
                    opened.close()
                    continue
                link.connection, link.is_connecting = opened, False
                if self._monitor is not None:
                    self._monitor.connected(link.address)
                outcomes += self._progress(key, link)
                continue
            failures = self._failures[link.address] = self._failures.get(link.address, 0) + 1
            waits = (self._settings.reconnect_backoff_ms, self._settings.reconnect_backoff_max_ms)
            self._may_connect_ms[link.address] = self._now_ms() + backoff_ms(failures, *waits, self._rng())
            if key is not None:
                outcomes += self._drop(key, opened)
        return outcomes

    def _exchange(self, key: _Key, link: _Link, connection: BrokerConnection) -> list[Outcome]:
        outcomes = []
        try:
            connection.flush()
            for body in connection.receive():
                sent = link.in_flight[0]
                outcomes.append(Outcome(sent.send, sent.encoded.read(body), None))
                link.in_flight.popleft()
                if self._monitor is not None:
                    self._monitor.received(link.address, sent.send.request, body, self._now_ms() - sent.sent_ms)
        except (ClientError, PeerError) as error:
            outcomes += self._drop(key, error)
        return outcomes

    def _drop(self, key: _Key, error: Exception, *, is_planned: bool = False, is_late: bool = False) -> list[Outcome]:
        """Close a connection: its requests have no responses. `is_planned`: nothing is wrong; `is_late`: there was no response in time."""
        link = self._links.pop(key)
        if self._monitor is not None and is_planned:
            self._monitor.closed(link.address, len(link.in_flight))
        elif self._monitor is not None:
            self._monitor.failed(link.address, error, was_open=link.connection is not None, in_flight=len(link.in_flight), is_late=is_late)
        if link.connection is not None:
            link.connection.close()
        sends = [each.send for each in link.in_flight] + [send for send, _ in link.waiting]
        return [Outcome(send, None, error) for send in sends]
