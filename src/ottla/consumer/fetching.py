"""The fetch client: every record of some ranges of offsets, as the brokers' own record batches.

The shell of `core.consuming.fetch_machine`: it carries out what the machine decides, with one connection to each broker, one request on its
way on each, and the next one sent before the records at hand are given to the reader. Metadata and offsets have connections of their own,
so that they never wait behind a Fetch. It never decodes a record and never checks a checksum: whoever decodes does.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from secrets import SystemRandom
from types import TracebackType
from typing import Final, Self

from ottla.consumer.addresses import Address
from ottla.consumer.brokers import Brokers, Connect
from ottla.consumer.connecting import connect
from ottla.consumer.connection import Connection, readable
from ottla.consumer.errors import BrokerUnavailableError, RequestFailedError
from ottla.consumer.fetch_problems import error_of
from ottla.consumer.fetch_requests import API_KEY, BY_ID, BY_NAME, WITH_ENDPOINTS, decode_fetch, encode_fetch
from ottla.consumer.retrying import OutOfTimeError
from ottla.consumer.settings import ClientSettings
from ottla.core.consuming.cluster_view import Leaders
from ottla.core.consuming.fetch_machine import FetchMachine
from ottla.core.consuming.fetch_values import FetchPolicy, PartitionAsk, Refresh
from ottla.core.consuming.ranges import FetchedRecords, FetchRange

__all__ = ["FetchRange", "FetchedRecords", "Fetcher"]

AHEAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""What all that is fetched ahead from one broker may have, a larger first batch aside."""

_DICE: Final = SystemRandom()


@dataclass(slots=True)
class _Link:
    """A connection for Fetch; `asks` is what is on its way, () when nothing is, since `sent_ms`."""

    address: Address
    connection: Connection
    asks: tuple[PartitionAsk, ...] = ()
    version: int = 0
    sent_ms: float = 0.0


class Fetcher:
    """Reads ranges; one for a process and its settings. It keeps its connections between uses, and is not for two readers at once.

    `clock` and `pause` are in seconds. Raises ValueError when `settings.bootstrap_servers` are no addresses.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        connect: Connect = connect,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        dice: Callable[[], float] = _DICE.random,
    ) -> None:
        self._settings = settings
        self._brokers = Brokers(settings, connect=connect, clock=clock, pause=pause, dice=dice)
        self._connect = connect
        self._clock = clock
        self._pause = pause
        self._dice = dice
        self._policy = _policy(settings)
        self._leaders = Leaders()
        self._learned_ms = 0.0
        self._links: dict[int, _Link] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for broker_id in list(self._links):
            self._drop(broker_id)
        self._brokers.close()

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        """Every record of every range; partitions come interleaved, each in the order of its offsets.

        Failures that may pass are tried again for `default_api_timeout_ms`. Raises OffsetOutOfRangeError, TopicRecreatedError,
        UnknownTopicError, AuthenticationError, RequestFailedError (refused), BrokerUnavailableError, UnsupportedBrokerError, or PeerError
        for answers that are none. What was handed out before an error is complete up to its `next_offset`.
        """
        if self._now_ms() - self._learned_ms > self._settings.metadata_max_age_ms:
            self._leaders.clear()
        machine = FetchMachine(ranges, policy=self._policy, leaders=self._leaders, dice=self._dice)
        try:
            for broker_id, link in list(self._links.items()):
                if link.asks and not machine.adopt(broker_id, link.asks):
                    self._drop(broker_id)
            while not machine.is_done:
                self._act(machine)
                if machine.problem is not None:
                    raise error_of(machine.problem, self._brokers)
                yield from self._receive(machine)
        finally:
            for broker_id in [broker_id for broker_id, link in self._links.items() if link.asks]:
                self._drop(broker_id)  # an answer is still on its way, and nobody else may take it for theirs

    def fetch_ahead(self, ranges: Sequence[FetchRange]) -> None:
        """Asks for what is there from each range's start on, and does not wait: a `read` that begins there finds the answer on its way.

        At most AHEAD_BYTES_MAX a broker; an answer that the next `read` has no use for is dropped. Nothing is asked of brokers that are
        not connected, and nothing is raised: a failure shows in the next `read`.
        """
        by_broker: dict[int, list[PartitionAsk]] = {}
        first = {each.partition: each for each in sorted(ranges, reverse=True)}  # of several ranges of a partition, the first
        for partition, start, _, topic_id in sorted(first.values()):
            leader = self._leaders.leader(partition)
            known_id = self._leaders.topic_id(partition.topic)
            if leader is not None and topic_id in ("", known_id):
                by_broker.setdefault(leader.broker_id, []).append(PartitionAsk(partition, start, leader.epoch, known_id))
        policy = self._policy._replace(max_wait_ms=0, max_bytes=min(AHEAD_BYTES_MAX, self._policy.max_bytes))
        for broker_id, asks in by_broker.items():
            link = self._links.get(broker_id)
            if link is None or link.asks or link.connection.is_stale(self._settings.connections_max_idle_ms):
                continue
            try:
                self._send(link, tuple(asks), policy)
            except BrokerUnavailableError:
                self._drop(broker_id)

    def _act(self, machine: FetchMachine) -> None:
        """Does all that the machine wants done now."""
        while actions := machine.todo(self._now_ms()):
            for action in actions:
                if isinstance(action, Refresh):
                    self._refresh(machine, action)
                    continue
                try:
                    link = self._link(action.broker_id)
                    self._send(link, action.asks, self._policy.bulk() if action.is_bulk else self._policy)
                except (BrokerUnavailableError, RequestFailedError) as error:
                    self._lose(machine, action.broker_id, str(error))

    def _refresh(self, machine: FetchMachine, action: Refresh) -> None:
        deadline = self._brokers.deadline("fetch(api=METADATA)")
        try:
            topics = self._brokers.metadata(action.topics, deadline)
        except (BrokerUnavailableError, OutOfTimeError) as error:
            machine.not_learned(str(error), self._now_ms())
            return
        self._learned_ms = self._now_ms()
        machine.learned(topics, self._learned_ms)

    def _receive(self, machine: FetchMachine) -> Iterator[FetchedRecords]:
        """Waits for an answer, or until there is something else to do; asks again before it hands out what came."""
        now_ms = self._now_ms()
        waiting = {link.connection: broker_id for broker_id, link in self._links.items() if link.asks}
        until = [self._links[broker_id].sent_ms + self._settings.request_timeout_ms for broker_id in waiting.values()]
        wake_ms = machine.wake_ms(now_ms)
        wait_ms = max(0.0, min([*until, *([] if wake_ms is None else [wake_ms])], default=now_ms) - now_ms)
        if not waiting:
            self._pause(wait_ms / 1000)
            return
        ready = [waiting[connection] for connection in readable(waiting, wait_ms)]
        if ready:
            records = self._answer(machine, min(ready, key=lambda broker_id: self._links[broker_id].sent_ms))
            self._act(machine)
            yield from records
        else:
            for broker_id in waiting.values():
                if self._now_ms() - self._links[broker_id].sent_ms >= self._settings.request_timeout_ms:
                    name = self._links[broker_id].connection.name
                    self._lose(machine, broker_id, f"lost broker {name}: no answer within {self._settings.request_timeout_ms} ms")

    def _answer(self, machine: FetchMachine, broker_id: int) -> list[FetchedRecords]:
        link = self._links[broker_id]
        try:
            frame = link.connection.receive()
            answer = decode_fetch(frame, link.asks, link.version)
        except BrokerUnavailableError as error:
            self._lose(machine, broker_id, str(error))
            return []
        link.asks = ()
        for node in answer.nodes:
            self._brokers.learn(node)
        return machine.answered(broker_id, answer.partitions, self._now_ms())

    def _link(self, broker_id: int) -> _Link:
        """The connection to a broker, made when it is first asked. Raises BrokerUnavailableError, or what `connect` raises."""
        node = self._brokers.known(broker_id)
        address = Address(node.host, node.port)
        link = self._links.get(broker_id)
        if link is not None and (link.address != address or link.connection.is_stale(self._settings.connections_max_idle_ms)):
            self._drop(broker_id)
            link = None
        if link is None:
            connection = self._connect(address, self._settings, self._settings.request_timeout_ms)
            link = self._links[broker_id] = _Link(address, connection)
        return link

    def _send(self, link: _Link, asks: tuple[PartitionAsk, ...], policy: FetchPolicy) -> None:
        version = BY_NAME
        if all(ask.topic_id for ask in asks):
            version = next((each for each in (WITH_ENDPOINTS, BY_ID) if link.connection.speaks(API_KEY, each)), BY_NAME)
        link.connection.send(API_KEY, version, encode_fetch(asks, policy, version))
        link.asks, link.version, link.sent_ms = asks, version, self._now_ms()

    def _lose(self, machine: FetchMachine, broker_id: int, why: str) -> None:
        self._drop(broker_id)
        machine.lost(broker_id, why, self._now_ms())

    def _drop(self, broker_id: int) -> None:
        link = self._links.pop(broker_id, None)
        if link is not None:
            link.connection.close()

    def _now_ms(self) -> float:
        return self._clock() * 1000


def _policy(settings: ClientSettings) -> FetchPolicy:
    return FetchPolicy(
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        partition_max_bytes=settings.max_partition_fetch_bytes,
        is_read_committed=settings.is_read_committed,
        api_timeout_ms=settings.default_api_timeout_ms,
        retry_backoff_ms=(settings.retry_backoff_ms, settings.retry_backoff_max_ms),
        reconnect_backoff_ms=(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms),
    )
