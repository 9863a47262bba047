"""A producer's settings: Kafka's producer properties, checked and translated to librdkafka's, as one picklable value.

An unsupported property is refused by name with advice, and never ignored. It makes no producer.
Source: Kafka's ProducerConfig and CommonClientConfigs (names, defaults, what goes together); librdkafka's CONFIGURATION.md (ranges).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.client.addresses import parse_addresses
from ottla.client.security.properties import parse_security, to_librdkafka
from ottla.config.client_properties import PROPERTIES, Problem, ProblemKind, PropertyError, default_values, is_security, read_properties
from ottla.config.client_property import Client, Value
from ottla.spark.options.values import OptionError

_IN_FLIGHT_MAX: Final = 5
_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Kafka's default of transaction.timeout.ms."""
_KAFKAS: Final = ("acks", "buffer.memory", "delivery.timeout.ms", "enable.idempotence", "max.request.size", "request.timeout.ms")
"""Properties for which librdkafka's default is not Kafka's, which holds here."""
DEFAULTS: Final[Mapping[str, Value]] = {
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
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000


_SERIALIZERS: Final[Mapping[str, str]] = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer.",
}
"""Messages of Spark's own Kafka sink (KafkaSourceProvider)."""


def parse_producer_settings(properties: Mapping[str, str], *, is_transactional: bool = False) -> ProducerSettings:
    """Settings from Kafka's producer properties (without any "kafka." before them). Raises OptionError that names the property.

    `is_transactional`: for producers that get a transactional id, by `with_transactional_id`.
    """
    try:
        given = read_properties(properties, Client.PRODUCER)
    except PropertyError as error:
        raise OptionError(_sentence(error.problems[0])) from error
    servers = given.get("bootstrap.servers", "").strip()
    if not servers:
        raise OptionError('The option "kafka.bootstrap.servers" is needed.')
    try:
        parse_addresses(servers)
        config: dict[str, Value] = {**DEFAULTS, **to_librdkafka(parse_security(given)), "bootstrap.servers": servers}
    except ValueError as error:
        raise OptionError(f"The Kafka options are wrong: {error}.") from error
    values = default_values(Client.PRODUCER) | given
    for name in sorted({*_KAFKAS, "client.id", *given} - {"bootstrap.servers", "max.block.ms"}):
        if not is_security(name):
            config[PROPERTIES[name].librdkafka or name] = _in_units(values[name], PROPERTIES[name].unit)
    for backoff in ("reconnect.backoff", "retry.backoff"):
        # librdkafka takes no upper bound below the lower one; Kafka raises it.
        config[f"{backoff}.max.ms"] = max(values[f"{backoff}.max.ms"], given.get(f"{backoff}.ms", 0))
    _resolve_idempotence(config, given)
    _resolve_delivery_timeout(config, given)
    _resolve_transactions(config, given, is_transactional=is_transactional)
    return ProducerSettings(
        bootstrap_servers=servers,
        properties=tuple(sorted(config.items())),
        max_block_ms=values["max.block.ms"],
        delivery_timeout_ms=int(config["delivery.timeout.ms"]),
    )


def _sentence(problem: Problem) -> str:
    name, predicate, kind = problem
    if name in _SERIALIZERS:
        return _SERIALIZERS[name]
    if kind is ProblemKind.UNKNOWN:
        return f'"{name}" {predicate}' + ("" if predicate.endswith("?") else f': leave out the option "kafka.{name}".')
    return f'The Kafka option "{name}" {predicate}.' if kind is ProblemKind.REFUSED else f'The option "kafka.{name}" {predicate}.'


def _in_units(value: Value, unit: int) -> Value:
    return -(-value // unit) if isinstance(value, int) and unit > 1 else value


def _resolve_idempotence(config: dict[str, Value], given: Mapping[str, Any]) -> None:
    """Disable idempotence where other settings forbid it; an error, in Kafka's own config, where it was enabled explicitly."""
    forbidden = {
        "Must set retries to non-zero when using the idempotent producer.": given.get("retries") == 0,
        "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence.": (
            config["acks"] not in ("all", "-1")
        ),
        f"Must set max.in.flight.requests.per.connection to at most {_IN_FLIGHT_MAX} to use the idempotent producer.": (
            given.get("max.in.flight.requests.per.connection", _IN_FLIGHT_MAX) > _IN_FLIGHT_MAX
        ),
    }
    reasons = [reason for reason, is_so in forbidden.items() if is_so]
    if reasons and given.get("enable.idempotence"):
        raise OptionError(reasons[0])
    config["enable.idempotence"] = bool(config["enable.idempotence"]) and not reasons
    if not config["enable.idempotence"]:
        # librdkafka's default would let a thousand requests overtake one another when one of them is retried.
        config.setdefault("max.in.flight.requests.per.connection", _IN_FLIGHT_MAX)


def with_transactional_id(settings: ProducerSettings, transactional_id: str) -> ProducerSettings:
    """The same settings for the producer of one task's transaction."""
    return replace(settings, properties=tuple(sorted({**dict(settings.properties), "transactional.id": transactional_id}.items())))


def _resolve_transactions(config: dict[str, Value], given: Mapping[str, Any], *, is_transactional: bool) -> None:
    """transaction.timeout.ms is at least delivery.timeout.ms, as librdkafka wants it; where it is given, that is lowered."""
    if not is_transactional:
        if "transaction.timeout.ms" in given:
            raise OptionError(
                'The option "kafka.transaction.timeout.ms" is for transactions: set transactionalIdPrefix, too, or leave it out.'
            )
        return
    if not config["enable.idempotence"]:
        raise OptionError("Transactions need the idempotent producer: leave out kafka.acks, kafka.retries and kafka.enable.idempotence.")
    delivery_timeout_ms = int(config["delivery.timeout.ms"])
    timeout_ms = int(given.get("transaction.timeout.ms", max(delivery_timeout_ms, _TRANSACTION_TIMEOUT_MS)))
    config["transaction.timeout.ms"] = timeout_ms
    config["delivery.timeout.ms"] = min(delivery_timeout_ms, timeout_ms)


def _resolve_delivery_timeout(config: dict[str, Value], given: Mapping[str, Any]) -> None:
    """delivery.timeout.ms has to leave time for a batch to wait and a request to be answered."""
    delivery_timeout_ms, at_least = int(config["delivery.timeout.ms"]), given.get("linger.ms", 0) + int(config["request.timeout.ms"])
    if "delivery.timeout.ms" in given and delivery_timeout_ms < at_least:
        raise OptionError("delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms")
    config["delivery.timeout.ms"] = max(delivery_timeout_ms, at_least)
