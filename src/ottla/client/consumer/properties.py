"""The properties of `ottla.Consumer`: librdkafka's names, values and defaults, and what is refused.

Properties of Kafka's or librdkafka's consumers that `ottla.Consumer` does not support, each with advice. A table.

A consumer's properties, by Kafka's or librdkafka's names, as checked settings.

What Kafka or librdkafka know and this consumer does not support is refused with a sentence, and so are values that contradict each other.
Sources: Kafka's ConsumerConfig; librdkafka's CONFIGURATION.md. It reads the files of a client certificate, and nothing else.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.client.consumer.deserializers import Deserializers
from ottla.client.consumer.interceptors import Interceptors, find_interceptors
from ottla.client.engine.values import EARLIEST, LATEST, ConsumerSettings, Reset, ResetByDuration
from ottla.client.membership.values import GroupSettings
from ottla.client.settings import ClientSettings, parse_client_settings, whole_number
from ottla.config.value_grammar import parse_boolean
from ottla.groups.assignors import Assignor, find_assignor

_OUT: Final = "leave it out"
_LOGGING: Final = "the logger ottla.consumer has the consumer's log lines: set its level"
_JAVA: Final = "Java classes cannot run here: leave it out"

UNSUPPORTED: Final = {
    "metric.reporters": _JAVA,
    "group.remote.assignor": "it belongs to the protocol of KIP-848, which is not there yet: leave it out",
    "internal.leave.group.on.close": "members leave on close, static ones stay: leave it out",
    "error_cb": "errors are raised, or come as messages with an error: leave it out",
    "stats_cb": "there are no statistics yet: leave it out",
    "throttle_cb": "brokers that throttle answer later: leave it out",
    "statistics.interval.ms": "there are no statistics yet: leave it out",
    "debug": _LOGGING,
    "log_level": _LOGGING,
    "logger": _LOGGING,
    "log.connection.close": _LOGGING,
    "enable.ssl.certificate.verification": "certificates are always verified: set ssl.ca.location",
    "queued.min.messages": "prefetching is bounded by bytes: set queued.max.messages.kbytes",
    "fetch.queue.backoff.ms": "fetches go on as soon as there is space: leave it out",
    "fetch.error.backoff.ms": "set retry.backoff.ms",
    "topic.metadata.refresh.fast.interval.ms": "topics that are missing are looked for every second: leave it out",
    "topic.metadata.refresh.sparse": "only the topics of interest are asked for: leave it out",
    "topic.metadata.propagation.max.ms": "topics that are missing are looked for every second: leave it out",
    "topic.blacklist": "leave topics out of the subscription",
    "coordinator.query.interval.ms": "the coordinator is looked for when it is needed: leave it out",
    "group.protocol.type": "it is always consumer: leave it out",
    "receive.message.max.bytes": "responses are bounded by fetch.max.bytes: set that",
    "message.max.bytes": "it belongs to producers: leave it out",
    "max.in.flight": _OUT,
    "max.in.flight.requests.per.connection": _OUT,
    "socket.keepalive.enable": _OUT,
    "socket.nagle.disable": "small requests are always sent at once: leave it out",
    "socket.max.fails": _OUT,
    "broker.address.ttl": _OUT,
    "broker.address.family": "every address of a name is tried: leave it out",
    "broker.version.fallback": "brokers say what they support: leave it out",
    "api.version.request": "brokers are always asked: leave it out",
    "api.version.request.timeout.ms": "set request.timeout.ms",
    "api.version.fallback.ms": "brokers say what they support: leave it out",
    "offset.store.method": "offsets are stored by the coordinator: leave it out",
    "default.topic.config": "set its properties beside the others",
    "plugin.library.paths": "libraries cannot be loaded here: leave it out",
    "consume.callback.max.messages": _OUT,
    "metadata.max.idle.ms": _OUT,
}


_LOG: Final = logging.getLogger("ottla.consumer")
_INT_MAX: Final = 2**31 - 1
_INSTANCE_ID: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)

ALIASES: Final[Mapping[str, str]] = {
    "metadata.broker.list": "bootstrap.servers",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""librdkafka's names that mean the same as Kafka's."""

DEFAULTS: Final[Mapping[str, str]] = {
    "isolation.level": "read_committed",
    "max.partition.fetch.bytes": "1048576",
    "partition.assignment.strategy": "range,roundrobin",
}
"""librdkafka's defaults, where `ClientSettings` has others."""

_RESETS: Final[Mapping[str, Reset]] = {
    "earliest": EARLIEST,
    "smallest": EARLIEST,
    "beginning": EARLIEST,
    "latest": LATEST,
    "largest": LATEST,
    "end": LATEST,
    "none": None,
    "error": None,
}
_JAVA_ASSIGNORS: Final[Mapping[str, str]] = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
OBJECTS: Final = frozenset({"on_commit", "oauth_cb", "key.deserializer", "value.deserializer", "interceptor.classes"})
"""Properties whose values are no texts."""
OWN: Final = frozenset(
    {
        "group.id",
        "group.instance.id",
        "group.protocol",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "enable.auto.commit",
        "auto.commit.interval.ms",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "partition.assignment.strategy",
        "enable.partition.eof",
        "queued.max.messages.kbytes",
    }
)
"""Properties of a consumer alone; all others are a client's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProperties:
    """All that a consumer is made of. `records_max`: max.poll.records, None where it is not set."""

    client: ClientSettings
    consumer: ConsumerSettings
    assignors: tuple[Assignor, ...]
    records_max: int | None
    on_commit: Callable[[Any, Any], None] | None
    deserializers: Deserializers
    interceptors: Interceptors


def parse_properties(properties: Mapping[str, Any], *, needs_group: bool = True) -> ConsumerProperties:
    """Settings from a dictionary as confluent-kafka takes it; without a group only if that is allowed.

    Raises ValueError with a sentence that names the property.
    """
    given = {name: _text(value) for name, value in properties.items() if value is not None and name not in OBJECTS}
    for name in given:
        if name in UNSUPPORTED:
            raise ValueError(f"{name} is not supported: {UNSUPPORTED[name]}")
    texts = dict(DEFAULTS)
    for name, text in given.items():
        texts[ALIASES.get(name, name)] = text
    _translate_security(texts)
    own = {name: text for name, text in texts.items() if name in OWN}
    client = parse_client_settings({name: text for name, text in texts.items() if name not in OWN}, properties.get("oauth_cb"))
    return ConsumerProperties(
        client=client,
        consumer=_consumer(own, client, needs_group),
        assignors=_assignors(own["partition.assignment.strategy"]),
        records_max=_number(own, "max.poll.records", 500, 1, _INT_MAX) if "max.poll.records" in own else None,
        on_commit=_on_commit(properties.get("on_commit")),
        deserializers=_deserializers(properties),
        interceptors=find_interceptors(properties.get("interceptor.classes") or ()),
    )


def _deserializers(properties: Mapping[str, Any]) -> Deserializers:
    found = {name: properties.get(f"{name}.deserializer") for name in ("key", "value")}
    for name, each in found.items():
        if each is not None and not callable(each):
            raise ValueError(
                f"{name}.deserializer must be a function of (bytes, SerializationContext), as confluent-kafka's are, not {each!r}"
            )
    return Deserializers(**found)


def _on_commit(callback: Any) -> Callable[[Any, Any], None] | None:
    if callback is not None and not callable(callback):
        raise ValueError("on_commit requires a callable object")
    return callback  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _consumer(own: Mapping[str, str], client: ClientSettings, needs_group: bool) -> ConsumerSettings:
    settings = ConsumerSettings(
        group=_group(own, client, needs_group),
        fetch=client.fetch_policy,
        reset=_reset(own.get("auto.offset.reset", "latest")),
        is_auto_commit=_boolean(own, "enable.auto.commit", True),
        auto_commit_interval_ms=_number(own, "auto.commit.interval.ms", 5_000, 0, _INT_MAX),
        stores_offsets=_boolean(own, "enable.auto.offset.store", True),
        reports_ends=_boolean(own, "enable.partition.eof", False),
        api_timeout_ms=client.default_api_timeout_ms,
        request_timeout_ms=client.request_timeout_ms,
        metadata_max_age_ms=client.metadata_max_age_ms,
        prefetch_bytes_max=_number(own, "queued.max.messages.kbytes", 65_536, 1, 2_097_151) * 1024,
    )
    if own.get("group.protocol", "classic").lower() != "classic":
        raise ValueError("group.protocol can only be classic: the protocol of KIP-848 is not there yet")
    return settings


def _group(own: Mapping[str, str], client: ClientSettings, needs_group: bool) -> GroupSettings:
    if needs_group and not own.get("group.id"):
        raise ValueError("group.id must be set")
    instance_id = own.get("group.instance.id")
    if instance_id is not None and not _INSTANCE_ID.fullmatch(instance_id):
        raise ValueError(f"group.instance.id must be 1 to 249 letters, digits, '.', '_' or '-', not {instance_id!r}")
    session_ms = _number(own, "session.timeout.ms", 45_000, 1, _INT_MAX)
    heartbeat_ms = _number(own, "heartbeat.interval.ms", 3_000, 1, _INT_MAX)
    poll_ms = _number(own, "max.poll.interval.ms", 300_000, 1, _INT_MAX)
    if heartbeat_ms >= session_ms:
        raise ValueError(f"heartbeat.interval.ms ({heartbeat_ms}) must be lower than session.timeout.ms ({session_ms})")
    if poll_ms < session_ms:
        raise ValueError(f"max.poll.interval.ms ({poll_ms}) must not be lower than session.timeout.ms ({session_ms})")
    if 3 * heartbeat_ms > session_ms:
        _LOG.warning(
            "heartbeat.interval.ms=%d is more than a third of session.timeout.ms=%d: one lost heartbeat may end the session; set %d",
            heartbeat_ms,
            session_ms,
            session_ms // 3,
        )
    return GroupSettings(
        group_id=own.get("group.id", ""),
        instance_id=instance_id,
        rack=client.client_rack,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=heartbeat_ms,
        max_poll_interval_ms=poll_ms,
        request_timeout_ms=client.request_timeout_ms,
        retry_backoff_ms=(client.retry_backoff_ms, client.retry_backoff_max_ms),
    )


def _number(own: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    return whole_number(name, own[name], low, high) if name in own else default


def _boolean(own: Mapping[str, str], name: str, default: bool) -> bool:
    if name not in own:
        return default
    try:
        return parse_boolean(own[name])
    except ValueError:
        raise ValueError(f"{name} must be true or false, not {own[name]!r}") from None


def _reset(text: str) -> Reset:
    kind = text.strip().lower()
    if kind in _RESETS:
        return _RESETS[kind]
    duration = _DURATION.fullmatch(kind.removeprefix("by_duration:")) if kind.startswith("by_duration:") else None
    if duration is None or not any(duration.groups()):
        raise ValueError(f"auto.offset.reset must be earliest, latest, none or by_duration:PnDTnHnMnS, not {text!r}")
    days, hours, minutes, seconds = (float(each or 0) for each in duration.groups())
    return ResetByDuration(int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000))


def _assignors(text: str) -> tuple[Assignor, ...]:
    try:
        found = tuple(find_assignor(_JAVA_ASSIGNORS.get(name.strip(), name.strip())) for name in text.split(","))
    except ValueError as error:
        raise ValueError(f"partition.assignment.strategy: {error}") from error
    if len({each.name for each in found}) < len(found):
        raise ValueError("partition.assignment.strategy names an assignor twice")
    return found


def _translate_security(texts: dict[str, str]) -> None:
    """librdkafka's users, passwords and certificates as Kafka's properties, in place."""
    username, password = texts.pop("sasl.username", None), texts.pop("sasl.password", None)
    if username is not None and password is not None:
        module = "scram.Scram" if texts.get("sasl.mechanism", "").startswith("SCRAM") else "plain.Plain"
        credentials = f'username="{_escaped(username)}" password="{_escaped(password)}"'
        texts["sasl.jaas.config"] = f"org.apache.kafka.common.security.{module}LoginModule required {credentials};"
    elif username is not None or password is not None:
        raise ValueError("sasl.username and sasl.password belong together: one of them is not set")
    texts["security.protocol"] = texts.get("security.protocol", "PLAINTEXT").upper()
    if texts.get("ssl.truststore.location") or texts.get("ssl.truststore.certificates"):
        texts.setdefault("ssl.truststore.type", "PEM")
    certificate, key = texts.pop("ssl.certificate.location", None), texts.pop("ssl.key.location", None)
    if certificate is not None and key is not None:
        texts["ssl.keystore.certificate.chain"] = _file("ssl.certificate.location", certificate)
        texts["ssl.keystore.key"] = _file("ssl.key.location", key)
    elif certificate is not None or key is not None:
        raise ValueError("ssl.certificate.location and ssl.key.location belong together: one of them is not set")
    if "ssl.keystore.key" in texts:
        texts.setdefault("ssl.keystore.type", "PEM")
    if texts.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
        texts["ssl.endpoint.identification.algorithm"] = ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _file(name: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from error
