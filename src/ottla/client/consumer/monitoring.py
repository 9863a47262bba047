"""What a consumer tells its application beside records: errors of brokers, throttling, statistics, and lines for debugging.

The network's side notes what happens on connections; the application's takes notices, and runs callbacks for them. The fields of the
statistics are those of librdkafka's STATISTICS.md, and mean the same.
"""

import json
import logging
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from math import sqrt
from typing import Any, Final, NamedTuple

from ottla.client.addresses import Address
from ottla.client.consumer.kafka_errors import KafkaError
from ottla.client.engine.engine import Engine
from ottla.client.engine.subscriptions import PartitionState
from ottla.client.engine.values import (
    Fetch,
    ListOffsets,
    Metadata,
    OffsetCommit,
    OffsetFetch,
    OffsetForLeaderEpoch,
    Request,
)
from ottla.client.errors import AuthenticationError, UnsupportedBrokerError
from ottla.client.membership.values import (
    ConsumerGroupHeartbeat,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    MemberState,
    SyncGroup,
)
from ottla.protocol.errors import PeerError
from ottla.protocol.model import TopicPartition

NOTICES_MAX: Final = 1_000
"""Of an application that does not poll, the oldest ones are lost."""
SAMPLES_MAX: Final = 10_000
REPEATED_MS: Final = 30_000
"""The same error of a broker is reported again after this time, as by librdkafka."""
NO_OFFSET: Final = -1001
_NUMBERS: Final = count(1)
_LEVELS: Final = (
    *(logging.CRITICAL, logging.CRITICAL, logging.CRITICAL, logging.ERROR),
    *(logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG),
)
"""Python's level of each of syslog's, 0 (emergency) to 7 (debug)."""
CONTEXTS: Final = (
    *(
        "generic",
        "broker",
        "topic",
        "metadata",
        "feature",
        "queue",
        "msg",
        "protocol",
        "cgrp",
        "security",
        "fetch",
        "interceptor",
        "plugin",
    ),
    *("consumer", "admin", "eos", "mock", "assignor", "conf", "telemetry", "all"),
)
"""librdkafka's words for `debug`."""
_MEMBERS_REQUESTS: Final = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat)
_GROUP_REQUESTS: Final = (FindCoordinator, *_MEMBERS_REQUESTS, OffsetCommit, OffsetFetch)
_DEBUGGED: Final[dict[str, tuple[type, ...]]] = {
    "cgrp": _GROUP_REQUESTS,
    "consumer": _GROUP_REQUESTS,
    "fetch": (Fetch, ListOffsets, OffsetForLeaderEpoch),
    "metadata": (Metadata,),
    "topic": (Metadata,),
    "protocol": (object,),
    "all": (object,),
}
_COUNTED: Final = (*_GROUP_REQUESTS, Fetch, ListOffsets, Metadata)
# Of a producer, or of librdkafka's own buffers and threads: there is nothing to count.
_NO_BROKER_FIGURES: Final = dict.fromkeys(
    ("outbuf_cnt", "outbuf_msg_cnt", "waitresp_msg_cnt", "txretries", "rxcorriderrs", "rxpartial", "zbuf_grow", "buf_grow", "wakeups"), 0
)
_NO_PARTITION_FIGURES: Final = dict.fromkeys(
    (
        *("msgq_cnt", "msgq_bytes", "xmit_msgq_cnt", "xmit_msgq_bytes", "txmsgs", "txbytes", "rx_ver_drops"),
        *("msgs_inflight", "next_ack_seq", "next_err_seq", "acked_msgid"),
    ),
    0,
)
_JOIN_STATES: Final = {
    MemberState.UNJOINED: "init",
    MemberState.PREPARING_REBALANCE: "wait-join",
    MemberState.COMPLETING_REBALANCE: "wait-sync",
    MemberState.STABLE: "steady",
    MemberState.RECONCILING: "wait-assign-call",
}


class ThrottleEvent(NamedTuple):
    """A broker has delayed a response, by `throttle_time` seconds (confluent-kafka's class of this name)."""

    broker_name: str
    broker_id: int
    throttle_time: float


class ConsumerLog:
    """The logger of one consumer; lines below `lowest`, one of Python's levels, are left out."""

    def __init__(self, logger: Any = None, lowest: int = logging.DEBUG) -> None:
        self._logger = logging.getLogger("ottla.consumer") if logger is None else logger
        self._lowest = lowest

    def log(self, level: int, message: str, *values: object) -> None:
        """Write a line."""
        if level >= self._lowest:
            self._logger.log(level, message, *values)


def python_level(syslog_level: int) -> int:
    """Python's level for one of syslog's."""
    return _LEVELS[syslog_level]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporting:
    """What the application wants to know, by the properties of confluent-kafka. `debug`: words of CONTEXTS."""

    error_cb: Callable[[KafkaError], Any] | None = None
    throttle_cb: Callable[[ThrottleEvent], Any] | None = None
    stats_cb: Callable[[str], Any] | None = None
    statistics_interval_ms: int = 0
    log: ConsumerLog = field(default_factory=ConsumerLog)
    debug: frozenset[str] = frozenset()

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything besides lines of the log."""
        return self.error_cb is not None or self.throttle_cb is not None or self.stats_cb is not None or bool(self.debug)


QUIET: Final = Reporting()
"""Only lines of the log."""


@dataclass(slots=True)
class BrokerFigures:
    """What was exchanged with one address. `round_trips_ms` and `throttled_ms`: since the last statistics."""

    state: str = "INIT"
    state_since_ms: float = 0.0
    sent: int = 0
    sent_bytes: int = 0
    sent_ms: float = 0.0
    received: int = 0
    received_bytes: int = 0
    received_ms: float = 0.0
    send_errors: int = 0
    receive_errors: int = 0
    timeouts: int = 0
    connects: int = 0
    disconnects: int = 0
    in_flight: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    round_trips_ms: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    throttled_ms: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    is_throttled: bool = False
    reported: str = ""
    reported_ms: float = 0.0


class Monitor:
    """What happens on one consumer's connections. `now_ms` is the clock of `engine`; `name` begins each line for debugging."""

    def __init__(self, reporting: Reporting, engine: Engine, *, client_id: str, name: str, now_ms: Callable[[], float]) -> None:
        self.notices: deque[tuple[Callable[[Any], Any], Any]] = deque(maxlen=NOTICES_MAX)
        self._reporting = reporting
        self._engine = engine
        self._client_id = client_id
        self._name = name
        self._now_ms = now_ms
        self._instance = next(_NUMBERS)
        self._started_ms = now_ms()
        self._brokers: dict[Address, BrokerFigures] = {}
        self._are_all_down = False
        self._debugged = tuple({kind for context in reporting.debug for kind in _DEBUGGED.get(context, ())})
        self._debugs_connections = bool(reporting.debug & {"broker", "security", "all"})
        has_statistics = reporting.stats_cb is not None and reporting.statistics_interval_ms > 0
        self.statistics_ms = self._started_ms + reporting.statistics_interval_ms if has_statistics else None
        self._group_state, self._group_state_ms = "", self._started_ms
        self._rebalance_reason = ""
        self._metadata_ms = self._started_ms
        self._topics_since_ms: dict[str, float] = {}

    # The network's side.

    def connecting(self, address: Address) -> None:
        """A connection is being opened."""
        broker = self._brokers.setdefault(address, BrokerFigures())
        if broker.state != "UP":
            self._change(broker, "CONNECT")

    def connected(self, address: Address) -> None:
        """A connection is open."""
        broker = self._brokers[address]
        broker.connects += 1
        self._are_all_down = False
        broker.reported = ""
        self._change(broker, "UP")
        self._debug_connection(address, "connected")

    def sent(self, address: Address, request: Request, size_bytes: int) -> None:
        """A request is on its way."""
        broker = self._brokers[address]
        broker.sent += 1
        broker.in_flight += 1
        broker.sent_bytes += size_bytes
        broker.sent_ms = self._now_ms()
        broker.requests[type(request).__name__] += 1
        if isinstance(request, JoinGroup):
            self._rebalance_reason = request.reason
        self._debug_request(address, "sent", request, size_bytes)

    def received(self, address: Address, request: Request, body: memoryview, round_trip_ms: float) -> None:
        """A response has come. All responses that are used here begin with the time by which the broker delayed them."""
        broker = self._brokers[address]
        broker.received += 1
        broker.in_flight -= 1
        broker.received_bytes += len(body)
        broker.received_ms = self._now_ms()
        broker.round_trips_ms.append(round_trip_ms)
        if isinstance(request, Metadata):
            self._metadata_ms = broker.received_ms
        self._debug_request(address, "received", request, len(body))
        throttle_ms = int.from_bytes(body[:4], "big", signed=True)
        broker.throttled_ms.append(throttle_ms)
        if self._reporting.throttle_cb is not None and (throttle_ms > 0 or broker.is_throttled):
            event = ThrottleEvent(f"{address.host}:{address.port}", self._broker_id(address), throttle_ms / 1000)
            self.notices.append((self._reporting.throttle_cb, event))
        broker.is_throttled = throttle_ms > 0

    def closed(self, address: Address, in_flight: int) -> None:
        """An open connection was closed on purpose."""
        broker = self._brokers[address]
        broker.disconnects += 1
        broker.in_flight -= in_flight
        self._debug_connection(address, "closed")

    def failed(self, address: Address, error: Exception, *, was_open: bool, in_flight: int, is_late: bool) -> None:
        """A connection could not be opened, or is lost; `is_late`: for there was no response in time."""
        broker = self._brokers[address]
        broker.in_flight -= in_flight
        if was_open:
            broker.disconnects += 1
            broker.receive_errors += not is_late
            broker.timeouts += in_flight if is_late else 0
        else:
            broker.send_errors += 1
        self._change(broker, "DOWN")
        self._debug_connection(address, str(error))
        now_ms, text = self._now_ms(), f"{address.host}:{address.port}/{self._id_text(address)}: {error}"
        if text != broker.reported or now_ms >= broker.reported_ms + REPEATED_MS:
            broker.reported, broker.reported_ms = text, now_ms
            self._report(KafkaError(_code_of(error), text))
        if not self._are_all_down and all(each.state == "DOWN" for each in self._brokers.values()):
            self._are_all_down = True
            total = len(self._brokers)
            self._report(KafkaError(KafkaError._ALL_BROKERS_DOWN, f"{total}/{total} brokers are down"))

    def step(self, now_ms: float) -> bool:
        """Note that statistics are due; whether there is a notice."""
        if self.statistics_ms is not None and now_ms >= self.statistics_ms:
            interval_ms = self._reporting.statistics_interval_ms
            self.statistics_ms = now_ms + interval_ms - (now_ms - self.statistics_ms) % interval_ms
            assert self._reporting.stats_cb is not None
            if not any(callback is self._reporting.stats_cb for callback, _ in self.notices):
                self.notices.append((self._reporting.stats_cb, None))
        return bool(self.notices)

    def _change(self, broker: BrokerFigures, state: str) -> None:
        if broker.state != state:
            broker.state, broker.state_since_ms = state, self._now_ms()

    def _report(self, error: KafkaError) -> None:
        if self._reporting.error_cb is not None:
            self.notices.append((self._reporting.error_cb, error))

    def _debug_request(self, address: Address, what: str, request: Request, size_bytes: int) -> None:
        if isinstance(request, self._debugged):
            kind = type(request).__name__
            self._debug(f"broker {address.host}:{address.port}: {what} {kind}, {size_bytes} bytes")

    def _debug_connection(self, address: Address, what: str) -> None:
        if self._debugs_connections:
            self._debug(f"broker {address.host}:{address.port}: {what}")

    def _debug(self, text: str) -> None:
        self._reporting.log.log(logging.DEBUG, "%s %s", self._name, text)

    def _broker_id(self, address: Address) -> int:
        endpoints = self._engine.cluster.endpoints
        return next((broker_id for broker_id, endpoint in endpoints.items() if tuple(endpoint) == tuple(address)), -1)

    def _id_text(self, address: Address) -> str:
        broker_id = self._broker_id(address)
        return "bootstrap" if broker_id < 0 else str(broker_id)

    # The application's side.

    def next_notice(self, time_of_day_s: float) -> tuple[Callable[[Any], Any], Any] | None:
        """The next callback to run, and its argument. Statistics are as they are now."""
        if not self.notices:
            return None
        callback, argument = self.notices.popleft()
        return callback, self.statistics(time_of_day_s) if argument is None else argument

    def statistics(self, time_of_day_s: float) -> str:
        """librdkafka's JSON. Windows begin again."""
        now_ms = self._now_ms()
        brokers = [self._broker_statistics(address, broker, now_ms) for address, broker in list(self._brokers.items())]
        metrics = self._engine.metrics.values(now_ms)
        return json.dumps(
            {
                "name": f"{self._client_id}#consumer-{self._instance}",
                "client_id": self._client_id,
                "type": "consumer",
                "ts": int(now_ms * 1000),
                "time": int(time_of_day_s),
                "age": _micros(now_ms - self._started_ms),
                "replyq": len(self.notices),
                **dict.fromkeys(("msg_cnt", "msg_size", "msg_max", "msg_size_max", "simple_cnt", "txmsgs", "txmsg_bytes"), 0),
                "metadata_cache_cnt": len(self._engine.cluster.partitions),
                "brokers": {broker["name"]: broker for broker in brokers},
                "topics": self._topic_statistics(now_ms),
                "cgrp": self._group_statistics(metrics, now_ms),
                "tx": sum(broker["tx"] for broker in brokers),
                "tx_bytes": sum(broker["txbytes"] for broker in brokers),
                "rx": sum(broker["rx"] for broker in brokers),
                "rx_bytes": sum(broker["rxbytes"] for broker in brokers),
                "rxmsgs": int(metrics["records-consumed-total"]),
                "rxmsg_bytes": int(metrics["bytes-consumed-total"]),
            }
        )

    def _broker_statistics(self, address: Address, broker: BrokerFigures, now_ms: float) -> dict[str, Any]:
        broker_id = self._broker_id(address)
        partitions = [each for each in self._engine.subscriptions.partitions if self._leader(each) == broker_id >= 0]
        trips_ms, broker.round_trips_ms = broker.round_trips_ms, deque(maxlen=SAMPLES_MAX)
        throttled_ms, broker.throttled_ms = broker.throttled_ms, deque(maxlen=SAMPLES_MAX)
        return {
            "name": f"{address.host}:{address.port}/{self._id_text(address)}",
            "nodeid": broker_id,
            "nodename": f"{address.host}:{address.port}",
            "source": "configured" if broker_id < 0 else "learned",
            "state": broker.state,
            "stateage": _micros(now_ms - broker.state_since_ms),
            **_NO_BROKER_FIGURES,
            "waitresp_cnt": broker.in_flight,
            "tx": broker.sent,
            "txbytes": broker.sent_bytes,
            "txerrs": broker.send_errors,
            "txidle": _micros(now_ms - broker.sent_ms) if broker.sent else -1,
            "req_timeouts": broker.timeouts,
            "rx": broker.received,
            "rxbytes": broker.received_bytes,
            "rxerrs": broker.receive_errors,
            "rxidle": _micros(now_ms - broker.received_ms) if broker.received else -1,
            "connects": broker.connects,
            "disconnects": broker.disconnects,
            "int_latency": _window(()),
            "outbuf_latency": _window(()),
            "rtt": _window([_micros(each) for each in trips_ms]),
            "throttle": _window([int(each) for each in throttled_ms]),
            "req": {kind.__name__: 0 for kind in _COUNTED} | broker.requests,
            "toppars": {f"{topic}-{number}": {"topic": topic, "partition": number} for topic, number in partitions},
        }

    def _topic_statistics(self, now_ms: float) -> dict[str, Any]:
        topics: dict[str, Any] = {}
        partitions = sorted(self._engine.subscriptions.partitions.items())
        self._topics_since_ms = {topic: self._topics_since_ms.get(topic, now_ms) for (topic, _), _ in partitions}
        for partition, state in partitions:
            topic = topics.setdefault(
                partition.topic,
                {
                    "topic": partition.topic,
                    "age": int(now_ms - self._topics_since_ms[partition.topic]),
                    "metadata_age": int(now_ms - self._metadata_ms),
                    "batchsize": _window(()),
                    "batchcnt": _window(()),
                    "partitions": {},
                },
            )
            topic["partitions"][str(partition.partition)] = self._partition_statistics(partition, state)
        return topics

    def _partition_statistics(self, partition: TopicPartition, state: PartitionState) -> dict[str, Any]:
        end = state.end(is_read_committed=self._engine.settings.fetch.is_read_committed)
        position = NO_OFFSET if state.position is None else state.position
        stored = NO_OFFSET if state.stored is None else state.stored.offset
        committed = NO_OFFSET if state.committed is None else state.committed
        leader = self._leader(partition)
        is_active = state.is_fetchable
        fetched = self._engine.buffered_end(partition)
        next_offset = position if fetched is None or state.position is None else fetched
        return {
            **_NO_PARTITION_FIGURES,
            "partition": partition.partition,
            "broker": leader,
            "leader": leader,
            "desired": True,
            "unknown": False,
            "fetchq_cnt": next_offset - position,
            "fetchq_size": self._engine.buffered_bytes(partition),
            "fetch_state": "active" if is_active else "stopped" if state.is_paused else "offset-query",
            "query_offset": NO_OFFSET if state.position is not None else state.start,
            "next_offset": next_offset,
            "app_offset": position,
            "stored_offset": stored,
            "stored_leader_epoch": -1 if state.stored is None else state.stored.leader_epoch,
            "commited_offset": committed,
            "committed_offset": committed,
            "committed_leader_epoch": -1,
            "eof_offset": state.end_reported if state.end_reported >= 0 else NO_OFFSET,
            "lo_offset": _known(state.log_start_offset),
            "hi_offset": _known(state.high_watermark),
            "ls_offset": _known(state.last_stable_offset),
            "consumer_lag": _lag(end, max(position, committed)),
            "consumer_lag_stored": _lag(end, max(stored, committed)),
            "leader_epoch": state.epoch,
            "rxmsgs": state.taken,
            "msgs": state.taken,
        }

    def _group_statistics(self, metrics: dict[str, float], now_ms: float) -> dict[str, Any]:
        membership = self._engine.membership
        state = "init" if not self._engine.settings.group.group_id else "up" if membership.coordinator is not None else "wait-coord"
        if state != self._group_state:
            self._group_state, self._group_state_ms = state, now_ms
        age_s = metrics["last-rebalance-seconds-ago"]
        return {
            "state": state,
            "stateage": int(now_ms - self._group_state_ms),
            "join_state": _JOIN_STATES[membership.state],
            "rebalance_age": max(int(age_s * 1000), 0),
            "rebalance_cnt": int(metrics["rebalance-total"]),
            "rebalance_reason": self._rebalance_reason,
            "assignment_size": len(self._engine.subscriptions.partitions),
        }

    def _leader(self, partition: TopicPartition) -> int:
        leader = self._engine.leaders.leader(partition)
        return -1 if leader is None else leader.broker_id


def _code_of(error: Exception) -> int:
    """librdkafka's code for what went wrong with a connection."""
    if isinstance(error, AuthenticationError):
        return KafkaError._SSL if isinstance(error.__cause__, ssl.SSLError) else KafkaError._AUTHENTICATION
    if isinstance(error, UnsupportedBrokerError):
        return KafkaError._UNSUPPORTED_FEATURE
    if isinstance(error, PeerError):
        return KafkaError._BAD_MSG
    return KafkaError._RESOLVE if isinstance(error.__cause__, socket.gaierror) else KafkaError._TRANSPORT


def _micros(duration_ms: float) -> int:
    return int(duration_ms * 1000)


def _known(offset: int) -> int:
    return offset if offset >= 0 else NO_OFFSET


def _lag(end: int, offset: int) -> int:
    """Offsets up to `end`, -1 where either is not known."""
    return max(end - offset, 0) if end >= 0 and offset >= 0 else -1


def _window(values: Iterable[int]) -> dict[str, int]:
    """A window of librdkafka's statistics: percentiles are the nearest values."""
    found = sorted(values)
    total, size = sum(found), len(found)
    percents = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_99": 0.9999}
    return {
        "min": found[0] if found else 0,
        "max": found[-1] if found else 0,
        "avg": total // size if size else 0,
        "sum": total,
        "stddev": int(sqrt(sum((each - total / size) ** 2 for each in found) / size)) if size else 0,
        "cnt": size,
        "outofrange": 0,
        "hdrsize": 0,
        **{name: found[min(int(part * size), size - 1)] if found else 0 for name, part in percents.items()},
    }
