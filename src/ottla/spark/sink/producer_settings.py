"""A producer's settings: Kafka's producer properties, checked and translated to librdkafka's, as one picklable value.

An unsupported property is refused by name with advice, and never ignored. It makes no producer.
Source: Kafka's ProducerConfig and CommonClientConfigs (names, defaults, what goes together); librdkafka's CONFIGURATION.md (ranges).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.client.addresses import parse_addresses
from ottla.client.security.properties import NAMES as SECURITY_NAMES
from ottla.client.security.properties import parse_security, to_librdkafka
from ottla.spark.options.values import OptionError, flag, whole_number
from ottla.text import did_you_mean

Value = str | int | bool

DELIVERY_TIMEOUT_MS: Final = 120_000
REQUEST_TIMEOUT_MS: Final = 30_000
MAX_BLOCK_MS: Final = 60_000
MAX_REQUEST_SIZE: Final = 1_048_576
BACKOFF_MAX_MS: Final = 1_000
_IN_FLIGHT_MAX: Final = 5
_INT_MAX: Final = 2**31 - 1

DEFAULTS: Final[Mapping[str, Value]] = {
    # Kafka's own, where librdkafka has others.
    "message.max.bytes": MAX_REQUEST_SIZE,
    "queue.buffering.max.kbytes": 32 * 1024,
    "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    "request.timeout.ms": REQUEST_TIMEOUT_MS,
    "enable.idempotence": True,
    "acks": "all",
    # The partition of a key as Java's producers choose it; records without a key are spread.
    "partitioner": "murmur2_random",
    # A record costs librdkafka some 200 bytes beside its own, which its limit in bytes does not count.
    "queue.buffering.max.messages": 200_000,
    # What limits a batch is its bytes (batch.size), as in Kafka.
    "batch.num.messages": 1_000_000,
    # The fetch client pushes no metrics either.
    "enable.metrics.push": False,
    # Failures are exceptions: librdkafka logs nothing to the workers' stderr.
    "log_level": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Hashable and picklable; its repr shows no secret. `properties`: librdkafka's names and values. Times in milliseconds."""

    bootstrap_servers: str
    properties: tuple[tuple[str, Value], ...] = field(repr=False)
    max_block_ms: int = MAX_BLOCK_MS
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS


class _Number(NamedTuple):
    """A property that is a whole number: librdkafka's name for it, and the range that both allow."""

    name: str
    low: int
    high: int


_NUMBERS: Final[Mapping[str, _Number]] = {
    "linger.ms": _Number("linger.ms", 0, 900_000),
    "batch.size": _Number("batch.size", 1, _INT_MAX),
    "max.request.size": _Number("message.max.bytes", 1_000, 1_000_000_000),
    "buffer.memory": _Number("queue.buffering.max.kbytes", 1_024, 2**40),
    "delivery.timeout.ms": _Number("delivery.timeout.ms", 1, _INT_MAX),
    "request.timeout.ms": _Number("request.timeout.ms", 1, 900_000),
    "max.in.flight.requests.per.connection": _Number("max.in.flight.requests.per.connection", 1, 1_000_000),
    "retries": _Number("retries", 0, _INT_MAX),
    "retry.backoff.ms": _Number("retry.backoff.ms", 1, 300_000),
    "retry.backoff.max.ms": _Number("retry.backoff.max.ms", 1, 300_000),
    "reconnect.backoff.ms": _Number("reconnect.backoff.ms", 0, 3_600_000),
    "reconnect.backoff.max.ms": _Number("reconnect.backoff.max.ms", 0, 3_600_000),
    "socket.connection.setup.timeout.ms": _Number("socket.connection.setup.timeout.ms", 1_000, _INT_MAX),
    "connections.max.idle.ms": _Number("connections.max.idle.ms", 1, _INT_MAX),
    "metadata.max.age.ms": _Number("topic.metadata.refresh.interval.ms", 1, 3_600_000),
    "send.buffer.bytes": _Number("socket.send.buffer.bytes", 1, 100_000_000),
    "receive.buffer.bytes": _Number("socket.receive.buffer.bytes", 1, 100_000_000),
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "acks": ("all", "-1", "0", "1"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
}
_FLAGS: Final = ("enable.idempotence", "enable.metrics.push")
_OWN: Final = ("bootstrap.servers", "client.id", "max.block.ms")

NAMES: Final = frozenset(_NUMBERS) | frozenset(_CHOICES) | frozenset(_FLAGS) | frozenset(_OWN) | SECURITY_NAMES
"""Every property that is supported."""

_PARTITIONER: Final = "records go where Kafka's own partitioner puts them, or where the column partition says: leave it out"
_TRANSACTIONS: Final = "records are written at least once, without transactions: leave it out"
_JAVA: Final = "Java classes cannot run here: leave it out"
_LEVEL: Final = "each codec has the level that librdkafka gives it: leave it out"
_METRICS: Final = "there are no metrics of Kafka's kind here: leave it out"
REFUSED: Final[Mapping[str, str]] = {
    "transactional.id": _TRANSACTIONS,
    "transaction.timeout.ms": _TRANSACTIONS,
    "transaction.two.phase.commit.enable": _TRANSACTIONS,
    "partitioner.class": _PARTITIONER,
    "partitioner.ignore.keys": _PARTITIONER,
    "partitioner.adaptive.partitioning.enable": _PARTITIONER,
    "partitioner.availability.timeout.ms": _PARTITIONER,
    "interceptor.classes": _JAVA,
    "config.providers": _JAVA,
    "metric.reporters": _JAVA,
    "compression.gzip.level": _LEVEL,
    "compression.lz4.level": _LEVEL,
    "compression.zstd.level": _LEVEL,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "auto.include.jmx.reporter": _METRICS,
    "socket.connection.setup.timeout.max.ms": "the time for connecting does not grow: set socket.connection.setup.timeout.ms",
    "metadata.max.idle.ms": "every task asks for the topics that it writes to: leave it out",
    "metadata.recovery.strategy": "bootstrap.servers are always asked again: leave it out",
    "metadata.recovery.rebootstrap.trigger.ms": "bootstrap.servers are always asked again: leave it out",
}

_SERIALIZERS: Final[Mapping[str, str]] = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer.",
}
"""Messages of Spark's own Kafka sink (KafkaSourceProvider)."""


def parse_producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    """Settings from Kafka's producer properties (without any "kafka." before them). Raises OptionError that names the property."""
    for name in properties:
        _refuse(name)
    servers = properties.get("bootstrap.servers", "").strip()
    if not servers:
        raise OptionError('The option "kafka.bootstrap.servers" is needed.')
    numbers = {name: whole_number(f"kafka.{name}", properties[name], *_NUMBERS[name][1:]) for name in properties if name in _NUMBERS}
    try:
        parse_addresses(servers)
        config: dict[str, Value] = {**DEFAULTS, **to_librdkafka(parse_security(properties)), "bootstrap.servers": servers}
    except ValueError as error:
        raise OptionError(f"The Kafka options are wrong: {error}.") from error
    config["client.id"] = properties.get("client.id", "ottla-spark")
    config.update((_NUMBERS[name].name, _converted(name, number)) for name, number in numbers.items())
    config.update((name, _choice(name, properties[name])) for name in _CHOICES if name in properties)
    config.update((name, flag(f"kafka.{name}", properties[name])) for name in _FLAGS if name in properties)
    for backoff in ("reconnect.backoff", "retry.backoff"):
        # librdkafka takes no upper bound below the lower one; Kafka raises it.
        config[f"{backoff}.max.ms"] = max(numbers.get(f"{backoff}.max.ms", BACKOFF_MAX_MS), numbers.get(f"{backoff}.ms", 0))
    _resolve_idempotence(config, numbers, is_explicit="enable.idempotence" in properties)
    return ProducerSettings(
        bootstrap_servers=servers,
        properties=tuple(sorted(config.items())),
        max_block_ms=whole_number("kafka.max.block.ms", properties.get("max.block.ms", str(MAX_BLOCK_MS)), 0, _INT_MAX),
        delivery_timeout_ms=_resolve_delivery_timeout(config, numbers),
    )


def _refuse(name: str) -> None:
    if name in _SERIALIZERS:
        raise OptionError(_SERIALIZERS[name])
    if name in REFUSED:
        raise OptionError(f'The Kafka option "{name}" is not supported: {REFUSED[name]}.')
    if name not in NAMES and not name.startswith(("ssl.", "sasl.", "security.")):
        meant = did_you_mean(name, NAMES | REFUSED.keys())
        raise OptionError(f'"{name}" is no property of a Kafka producer: leave out the option "kafka.{name}"{meant or "."}')


def _choice(name: str, text: str) -> str:
    value = text.strip().lower()
    if value not in _CHOICES[name]:
        raise OptionError(f'The option "kafka.{name}" must be one of {", ".join(_CHOICES[name])}, not {text!r}.')
    return value


_CONVERSIONS: Final[Mapping[str, Callable[[int], int]]] = {"buffer.memory": lambda size: -(-size // 1024)}


def _converted(name: str, number: int) -> int:
    return _CONVERSIONS[name](number) if name in _CONVERSIONS else number


def _resolve_idempotence(config: dict[str, Value], numbers: Mapping[str, int], *, is_explicit: bool) -> None:
    """Disable idempotence where other settings forbid it; an error, in Kafka's own config, where it was enabled explicitly."""
    forbidden = {
        "Must set retries to non-zero when using the idempotent producer.": numbers.get("retries") == 0,
        "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence.": (
            config["acks"] not in ("all", "-1")
        ),
        f"Must set max.in.flight.requests.per.connection to at most {_IN_FLIGHT_MAX} to use the idempotent producer.": (
            numbers.get("max.in.flight.requests.per.connection", _IN_FLIGHT_MAX) > _IN_FLIGHT_MAX
        ),
    }
    reasons = [reason for reason, is_so in forbidden.items() if is_so]
    if reasons and is_explicit and config["enable.idempotence"]:
        raise OptionError(reasons[0])
    config["enable.idempotence"] = bool(config["enable.idempotence"]) and not reasons
    if not config["enable.idempotence"]:
        # librdkafka's default would let a thousand requests overtake one another when one of them is retried.
        config.setdefault("max.in.flight.requests.per.connection", _IN_FLIGHT_MAX)


def _resolve_delivery_timeout(config: dict[str, Value], numbers: Mapping[str, int]) -> int:
    """delivery.timeout.ms, which has to leave time for a batch to wait and a request to be answered."""
    at_least = numbers.get("linger.ms", 0) + numbers.get("request.timeout.ms", REQUEST_TIMEOUT_MS)
    if "delivery.timeout.ms" in numbers and numbers["delivery.timeout.ms"] < at_least:
        raise OptionError("delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms")
    delivery_timeout_ms = max(numbers.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS), at_least)
    config["delivery.timeout.ms"] = delivery_timeout_ms
    return delivery_timeout_ms
