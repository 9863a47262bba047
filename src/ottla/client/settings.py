"""Settings of the client, from properties in Kafka's names; what is refused, and why.

Kafka's consumer properties that this client does not support, each with advice. A table, read by `settings`.

A client's settings: Kafka's consumer properties, checked, as one picklable value.

An unsupported property is refused with advice, and never ignored. It opens no files and no connections. Source: Kafka's ConsumerConfig
and CommonClientConfigs (names, defaults, ranges); KIP-580 (back-off).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.client.addresses import parse_addresses
from ottla.client.fetch.fetch_values import FetchPolicy
from ottla.client.security.properties import NAMES as SECURITY_NAMES
from ottla.client.security.properties import PLAINTEXT, SecuritySettings, parse_security
from ottla.client.security.tokens import OAuthCallback
from ottla.config.value_grammar import parse_whole
from ottla.text import did_you_mean

_LEAVE_OUT: Final = "leave it out"
_MEMBERSHIP: Final = "it belongs to members of a consumer group, and reading by ranges of offsets needs none: leave it out"
_METRICS: Final = "this client has no metrics of Kafka's kind: leave it out"
_BYTES: Final = "keys and values are handed over as the bytes they are: leave it out, and convert the columns"

REFUSED: Final = {
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "auto.offset.reset": "reading begins where the requested ranges begin: leave it out",
    "enable.auto.commit": "nothing is committed by reading: leave it out",
    "auto.commit.interval.ms": "nothing is committed by reading: leave it out",
    "interceptor.classes": "Java classes cannot run here: leave it out",
    "group.id": _MEMBERSHIP,
    "group.instance.id": _MEMBERSHIP,
    "group.protocol": _MEMBERSHIP,
    "group.remote.assignor": _MEMBERSHIP,
    "session.timeout.ms": _MEMBERSHIP,
    "heartbeat.interval.ms": _MEMBERSHIP,
    "max.poll.interval.ms": _MEMBERSHIP,
    "partition.assignment.strategy": _MEMBERSHIP,
    "internal.leave.group.on.close": _MEMBERSHIP,
    "max.poll.records": "records come as whole responses, bounded by max.partition.fetch.bytes: set that instead",
    "exclude.internal.topics": "topics are read by name: leave it out",
    "socket.connection.setup.timeout.max.ms": "the time for connecting does not grow: set socket.connection.setup.timeout.ms",
    "metadata.recovery.rebootstrap.trigger.ms": "bootstrap.servers are always asked again: leave it out",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "auto.include.jmx.reporter": _METRICS,
    "config.providers": "write the value itself: " + _LEAVE_OUT,
    "share.acknowledgement.mode": "share groups are not read here: " + _LEAVE_OUT,
    "share.acquire.mode": "share groups are not read here: " + _LEAVE_OUT,
}


_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Hashable and picklable; the names are Kafka's with "_" for ".". Times in milliseconds, sizes in bytes.

    `max_partition_fetch_bytes` is four times Kafka's own default: fewer, larger responses suit reading whole ranges. A buffer size of -1 is
    the operating system's.
    """

    bootstrap_servers: str
    client_id: str = "ottla"
    security: SecuritySettings = PLAINTEXT
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    connections_max_idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 4 * 1024 * 1024
    is_read_committed: bool = False
    client_rack: str = ""

    @property
    def fetch_policy(self) -> FetchPolicy:
        """The settings of Fetch requests and retries."""
        return FetchPolicy(
            max_wait_ms=self.fetch_max_wait_ms,
            min_bytes=self.fetch_min_bytes,
            max_bytes=self.fetch_max_bytes,
            partition_max_bytes=self.max_partition_fetch_bytes,
            is_read_committed=self.is_read_committed,
            api_timeout_ms=self.default_api_timeout_ms,
            retry_backoff_ms=(self.retry_backoff_ms, self.retry_backoff_max_ms),
            reconnect_backoff_ms=(self.reconnect_backoff_ms, self.reconnect_backoff_max_ms),
            rack=self.client_rack,
            metadata_max_age_ms=self.metadata_max_age_ms,
        )


def whole_number(name: str, text: str, low: int, high: int) -> int:
    """The value of a property from `low` to `high`, both allowed. Raises ValueError with a sentence."""
    try:
        number = parse_whole(text, bits=64)
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}, not {text!r}")
    return number


class _Number(NamedTuple):
    """A property that is a whole number from `low` to `high`, both allowed."""

    field: str
    low: int
    high: int

    def parse(self, name: str, text: str) -> int:
        return whole_number(name, text, self.low, self.high)


_NUMBERS: Final = {
    "request.timeout.ms": _Number("request_timeout_ms", 0, _INT_MAX),
    "default.api.timeout.ms": _Number("default_api_timeout_ms", 0, _INT_MAX),
    "retry.backoff.ms": _Number("retry_backoff_ms", 0, _LONG_MAX),
    "retry.backoff.max.ms": _Number("retry_backoff_max_ms", 0, _LONG_MAX),
    "reconnect.backoff.ms": _Number("reconnect_backoff_ms", 0, _LONG_MAX),
    "reconnect.backoff.max.ms": _Number("reconnect_backoff_max_ms", 0, _LONG_MAX),
    "socket.connection.setup.timeout.ms": _Number("socket_connection_setup_timeout_ms", 1, _INT_MAX),
    "connections.max.idle.ms": _Number("connections_max_idle_ms", -1, _LONG_MAX),
    "metadata.max.age.ms": _Number("metadata_max_age_ms", 0, _LONG_MAX),
    "receive.buffer.bytes": _Number("receive_buffer_bytes", -1, _INT_MAX),
    "send.buffer.bytes": _Number("send_buffer_bytes", -1, _INT_MAX),
    "fetch.max.wait.ms": _Number("fetch_max_wait_ms", 0, _INT_MAX),
    "fetch.min.bytes": _Number("fetch_min_bytes", 0, _INT_MAX),
    "fetch.max.bytes": _Number("fetch_max_bytes", 0, _INT_MAX),
    "max.partition.fetch.bytes": _Number("max_partition_fetch_bytes", 0, _INT_MAX),
}


def _servers(text: str) -> dict[str, Any]:
    try:
        parse_addresses(text)
    except ValueError as error:
        raise ValueError(f"bootstrap.servers: {error}") from error
    return {"bootstrap_servers": text}


def _isolation(text: str) -> dict[str, Any]:
    if text.strip() not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise ValueError(f"isolation.level must be {READ_COMMITTED} or {READ_UNCOMMITTED}, not {text!r}")
    return {"is_read_committed": text.strip() == READ_COMMITTED}


def _only(name: str, allowed: str, why: str) -> Callable[[str], dict[str, Any]]:
    """A property with a single allowed value, which describes what the client always does."""

    def parse(text: str) -> dict[str, Any]:
        if text.strip().lower() != allowed:
            raise ValueError(f"{name} can only be {allowed}: {why}")
        return {}

    return parse


_OTHERS: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "bootstrap.servers": _servers,
    "client.id": lambda text: {"client_id": text},
    "client.rack": lambda text: {"client_rack": text},
    "isolation.level": _isolation,
    "check.crcs": _only("check.crcs", "true", "checksums are always checked"),
    "allow.auto.create.topics": _only("allow.auto.create.topics", "false", "reading never creates a topic"),
    "client.dns.lookup": _only("client.dns.lookup", "use_all_dns_ips", "every address of a name is tried"),
    "metadata.recovery.strategy": _only("metadata.recovery.strategy", "rebootstrap", "bootstrap.servers are always asked again"),
    "enable.metrics.push": _only("enable.metrics.push", "false", "nothing is sent about the client"),
}

NUMBER_NAMES: Final = frozenset(_NUMBERS)
"""The properties that are numbers: times and sizes."""

NAMES: Final = NUMBER_NAMES | frozenset(_OTHERS) | SECURITY_NAMES
"""Every property that is supported."""


def parse_client_settings(properties: Mapping[str, str], oauth_cb: OAuthCallback | None = None) -> ClientSettings:
    """Settings from Kafka's consumer properties (without any "kafka." before them); what is not set has ClientSettings' default.

    Raises ValueError with a sentence that names the property when it is unknown, not supported (and what to do), or wrong.
    """
    fields: dict[str, Any] = {"security": parse_security(properties, oauth_cb)}
    for name, text in properties.items():
        if name in _NUMBERS:
            fields[_NUMBERS[name].field] = _NUMBERS[name].parse(name, text)
        elif name in _OTHERS:
            fields.update(_OTHERS[name](text))
        elif name in REFUSED:
            raise ValueError(f"{name} is not supported: {REFUSED[name]}")
        elif name not in SECURITY_NAMES:
            raise ValueError(f"{name} is no property of a Kafka consumer{did_you_mean(name, NAMES | REFUSED.keys())}")
    if "bootstrap_servers" not in fields:
        raise ValueError("bootstrap.servers is needed: the addresses of brokers, host:port,host:port")
    return ClientSettings(**fields)
