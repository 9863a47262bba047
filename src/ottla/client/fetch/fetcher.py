"""The fetch client: every record of some ranges of offsets, as the brokers' own record batches.

It carries out what `fetch_machine` decides, with one connection to each broker and one request in flight on each. It sends the next
request before it hands received records to the reader. Metadata and ListOffsets have connections of their own, so that they never wait
behind a Fetch. It decodes no records and checks no checksums: decoders do.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from secrets import SystemRandom
from types import TracebackType
from typing import Final, Self

from ottla.client.addresses import Address
from ottla.client.admin.client import AdminClient
from ottla.client.admin.topics import list_offsets
from ottla.client.admin.values import EARLIEST, LATEST, Failure
from ottla.client.brokers import Brokers, Connect
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import (
    BrokerUnavailableError,
    ClientError,
    OffsetOutOfRangeError,
    RequestFailedError,
    TopicRecreatedError,
    UnknownTopicError,
)
from ottla.client.fetch.fetch_machine import FetchMachine
from ottla.client.fetch.fetch_sessions import without_session
from ottla.client.fetch.fetch_values import (
    BrokersUnreachable,
    FetchedRecords,
    FetchPolicy,
    FetchRange,
    OffsetOutOfRange,
    PartitionFetch,
    PartitionRefused,
    Problem,
    RefreshMetadata,
    TopicRecreated,
)
from ottla.client.fetch.leaders import Leaders
from ottla.client.fetch.requests import decode_fetch, encode_fetch, fetch_version
from ottla.client.network.connection import BrokerConnection, ready
from ottla.client.network.connector import connect
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey


def error_of(problem: Problem, brokers: Brokers) -> ClientError:
    """The error for a problem; `brokers` give the bounds of a log that does not hold an offset."""
    if isinstance(problem, OffsetOutOfRange):
        return _out_of_range(problem, brokers)
    if isinstance(problem, TopicRecreated):
        return TopicRecreatedError(problem.topic, problem.expected, problem.found)
    if isinstance(problem, BrokersUnreachable):
        return BrokerUnavailableError(problem.why)
    name = f"partition {problem.partition.partition} of topic {problem.partition.topic}"
    if isinstance(problem, PartitionRefused):
        return RequestFailedError(f"{name}: {problem.error.name}", problem.error)
    return UnknownTopicError(f"{name} does not exist")


def _out_of_range(problem: OffsetOutOfRange, brokers: Brokers) -> OffsetOutOfRangeError:
    partition, start, end = problem.partition, problem.log_start_offset, problem.end_offset
    if start < 0 or end < 0:  # Kafka's brokers do not send them with the error
        try:
            start = list_offsets(brokers, {partition: EARLIEST})[partition].offset
            end = list_offsets(brokers, {partition: LATEST})[partition].offset
        except ClientError:
            start = end = -1
    return OffsetOutOfRangeError(partition, problem.position, start, end)


_NO_POSITIONS: Final[Mapping[int, int]] = {}


def topic_ranges(
    admin: AdminClient, topic: str, *, positions: Mapping[int, int] = _NO_POSITIONS, partitions: Collection[int] | None = None
) -> list[FetchRange]:
    """One range for each partition, empty where there is nothing (new); partitions without a leader are left out.

    `positions`: where to begin, by partition; a range begins later when the log does, and ends before its start when the log was
    truncated. Ends are high watermarks: what is in open transactions lies within. Raises UnknownTopicError, or RequestFailedError with the
    code of the refusal.
    """
    described = admin.describe_topics([topic])[topic]
    if isinstance(described, Failure):
        if described.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(f"topic {topic} does not exist")
        raise RequestFailedError(f"topic {topic}: {described.code.name}", described.code)
    led = [number for number, leader in described.leaders.items() if leader is not None]
    wanted = [TopicPartition(topic, number) for number in led if partitions is None or number in partitions]
    starts, ends = admin.list_offsets(wanted, EARLIEST), admin.list_offsets(wanted, LATEST)
    ranges = []
    for each in wanted:
        start = max(starts[each], positions.get(each.partition, 0))
        ranges.append(FetchRange(each, start, ends[each], described.topic_id))
    return ranges


PREFETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes that `prefetch` requests from one broker; a larger first batch comes whole."""

_RANDOM: Final = SystemRandom()


@dataclass(slots=True)
class _Link:
    """A connection for Fetch; `in_flight` is what its request asks for, () without one, sent at `sent_ms`."""

    address: Address
    connection: BrokerConnection
    in_flight: tuple[PartitionFetch, ...] = ()
    version: int = 0
    sent_ms: float = 0.0


class Fetcher:
    """Reads ranges of offsets. It keeps its connections between reads; use one per process and settings, by one reader at a time.

    `clock` and `pause` are in seconds. Raises ValueError when `settings.bootstrap_servers` are no addresses.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        connect: Connect = connect,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        rng: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._settings = settings
        self._brokers = Brokers(settings, connect=connect, clock=clock, pause=pause, rng=rng)
        self._connect = connect
        self._clock = clock
        self._pause = pause
        self._rng = rng
        self._policy = settings.fetch_policy
        self._leaders = Leaders()
        self._refreshed_ms = 0.0
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
        """Every record of every range; partitions are interleaved, each in the order of its offsets.

        Retriable failures are retried for `default_api_timeout_ms`. Raises OffsetOutOfRangeError, TopicRecreatedError,
        UnknownTopicError, AuthenticationError, RequestFailedError (refused), BrokerUnavailableError, UnsupportedBrokerError, or PeerError
        for malformed responses. What was handed out before an error is complete up to its `next_offset`.
        """
        if self._now_ms() - self._refreshed_ms > self._settings.metadata_max_age_ms:
            self._leaders.clear()
        machine = FetchMachine(ranges, policy=self._policy, leaders=self._leaders, rng=self._rng)
        try:
            for broker_id, link in list(self._links.items()):
                if link.in_flight and not machine.resume(broker_id, link.in_flight):
                    self._drop(broker_id)
            while not machine.is_done:
                self._carry_out(machine)
                if machine.problem is not None:
                    raise error_of(machine.problem, self._brokers)
                yield from self._receive(machine)
        finally:
            for broker_id in [broker_id for broker_id, link in self._links.items() if link.in_flight]:
                self._drop(broker_id)  # its response would be taken for that of the next request

    def prefetch(self, ranges: Sequence[FetchRange]) -> None:
        """Request records from each range's start on without waiting: the next `read` takes the response if it begins there.

        At most PREFETCH_BYTES_MAX from each broker. The next `read` drops a response that it does not need. Brokers without a connection
        get no request, and nothing is raised: a failure shows in the next `read`.
        """
        by_broker: dict[int, list[PartitionFetch]] = {}
        first = {each.partition: each for each in sorted(ranges, reverse=True)}  # of several ranges of a partition, the first
        for partition, start, _, topic_id in sorted(first.values()):
            leader = self._leaders.leader(partition)
            known_id = self._leaders.topic_id(partition.topic)
            if leader is not None and topic_id in ("", known_id):
                by_broker.setdefault(leader.broker_id, []).append(PartitionFetch(partition, start, leader.epoch, known_id))
        policy = self._policy._replace(max_wait_ms=0, max_bytes=min(PREFETCH_BYTES_MAX, self._policy.max_bytes))
        for broker_id, fetches in by_broker.items():
            link = self._links.get(broker_id)
            if link is None or link.in_flight or link.connection.is_stale(self._settings.connections_max_idle_ms):
                continue
            try:
                self._send(link, tuple(fetches), policy)
            except BrokerUnavailableError:
                self._drop(broker_id)

    def _carry_out(self, machine: FetchMachine) -> None:
        """Carry out the machine's actions until it has none."""
        while actions := machine.next_actions(self._now_ms()):
            for action in actions:
                if isinstance(action, RefreshMetadata):
                    self._refresh(machine, action)
                    continue
                try:
                    link = self._link(action.broker_id)
                    self._send(link, action.fetches, self._policy.bulk() if action.is_bulk else self._policy)
                except (BrokerUnavailableError, RequestFailedError) as error:
                    self._disconnected(machine, action.broker_id, str(error))

    def _refresh(self, machine: FetchMachine, action: RefreshMetadata) -> None:
        deadline = self._brokers.deadline("fetch(api=METADATA)")
        try:
            topics = self._brokers.metadata(action.topics, deadline)
        except (BrokerUnavailableError, DeadlineExceededError) as error:
            machine.on_metadata_failure(str(error), self._now_ms())
            return
        self._refreshed_ms = self._now_ms()
        machine.on_metadata(topics, self._refreshed_ms)

    def _receive(self, machine: FetchMachine) -> Iterator[FetchedRecords]:
        """Wait for a response or the next action; send the next requests before handing out records."""
        now_ms = self._now_ms()
        waiting = {link.connection: broker_id for broker_id, link in self._links.items() if link.in_flight}
        until = [self._links[broker_id].sent_ms + self._settings.request_timeout_ms for broker_id in waiting.values()]
        wake_ms = machine.next_action_ms(now_ms)
        wait_ms = max(0.0, min([*until, *([] if wake_ms is None else [wake_ms])], default=now_ms) - now_ms)
        if not waiting:
            self._pause(wait_ms / 1000)
            return
        answering = [waiting[connection] for connection in ready(waiting, wait_ms)]
        if answering:
            records = self._receive_from(machine, min(answering, key=lambda broker_id: self._links[broker_id].sent_ms))
            self._carry_out(machine)
            yield from records
        else:
            for broker_id in waiting.values():
                if self._now_ms() - self._links[broker_id].sent_ms >= self._settings.request_timeout_ms:
                    name = self._links[broker_id].connection.name
                    self._disconnected(machine, broker_id, f"lost broker {name}: no answer within {self._settings.request_timeout_ms} ms")

    def _receive_from(self, machine: FetchMachine, broker_id: int) -> list[FetchedRecords]:
        link = self._links[broker_id]
        try:
            frame = link.connection.wait_for_response()
            response = decode_fetch(frame, link.in_flight, link.version)
        except BrokerUnavailableError as error:
            self._disconnected(machine, broker_id, str(error))
            return []
        link.in_flight = ()
        for endpoint in response.endpoints:
            self._brokers.add_endpoint(endpoint)
        return machine.on_response(broker_id, response.partitions, self._now_ms())

    def _link(self, broker_id: int) -> _Link:
        """The connection to a broker, opened on first use. Raises BrokerUnavailableError, or what `connect` raises."""
        endpoint = self._brokers.endpoint(broker_id)
        address = Address(endpoint.host, endpoint.port)
        link = self._links.get(broker_id)
        if link is not None and (link.address != address or link.connection.is_stale(self._settings.connections_max_idle_ms)):
            self._drop(broker_id)
            link = None
        if link is None:
            connection = self._connect(address, self._settings, self._settings.request_timeout_ms)
            link = self._links[broker_id] = _Link(address, connection)
        return link

    def _send(self, link: _Link, fetches: tuple[PartitionFetch, ...], policy: FetchPolicy) -> None:
        version = fetch_version(link.connection, fetches)
        link.connection.send(ApiKey.FETCH, version, encode_fetch(without_session(fetches), policy, version))
        link.in_flight, link.version, link.sent_ms = fetches, version, self._now_ms()

    def _disconnected(self, machine: FetchMachine, broker_id: int, why: str) -> None:
        self._drop(broker_id)
        machine.on_disconnect(broker_id, why, self._now_ms())

    def _drop(self, broker_id: int) -> None:
        link = self._links.pop(broker_id, None)
        if link is not None:
            link.connection.close()

    def _now_ms(self) -> float:
        return self._clock() * 1000
