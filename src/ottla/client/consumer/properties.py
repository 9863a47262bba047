"""The properties of `ottla.Consumer` as checked settings: what the values of Kafka's or librdkafka's names mean, and contradict.

The table of properties is `config.client_properties`. It reads the files of a client certificate, and nothing else.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ottla.client.consumer.deserializers import Deserializers
from ottla.client.consumer.interceptors import Interceptors, find_interceptors
from ottla.client.consumer.monitoring import CONTEXTS, ConsumerLog, Reporting, python_level
from ottla.client.engine.values import EARLIEST, LATEST, ConsumerSettings, Reset, ResetByDuration
from ottla.client.membership.values import GroupSettings
from ottla.client.settings import ClientSettings, client_settings
from ottla.config.client_properties import Problem, ProblemKind, PropertyError, default_values, read_properties, warning_of
from ottla.config.client_property import Client
from ottla.groups.assignors import Assignor, find_assignor

_INSTANCE_ID: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
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


CONSUMER_PROTOCOL: Final = "consumer"
_OF_BROKER: Final = "it is set at the broker, group.consumer.{0}, or for the group, consumer.{0}"
OF_CLASSIC: Final[Mapping[str, str]] = {
    "session.timeout.ms": _OF_BROKER.format("session.timeout.ms"),
    "heartbeat.interval.ms": _OF_BROKER.format("heartbeat.interval.ms"),
    "partition.assignment.strategy": "use group.remote.assignor instead",
    "group.protocol.type": "leave it out",
}
"""What librdkafka refuses beside group.protocol=consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProperties:
    """All that a consumer is made of. `records_max`: max.poll.records, None where it is not set."""

    client: ClientSettings
    consumer: ConsumerSettings
    assignors: tuple[Assignor, ...]
    records_max: int | None
    on_commit: Callable[[Any, Any], None] | None
    reporting: Reporting
    deserializers: Deserializers
    interceptors: Interceptors


def parse_properties(properties: Mapping[str, Any], *, needs_group: bool = True) -> ConsumerProperties:
    """Settings from a dictionary as confluent-kafka takes it; without a group only if that is allowed.

    Raises ValueError with a sentence that names the property.
    """
    properties = {**_topic_properties(properties), **properties}
    if read_protocol(properties) == CONSUMER_PROTOCOL:
        _refuse_classic(properties)
    values = default_values(Client.CONSUMER) | read_properties(properties, Client.CONSUMER)
    reporting = _reporting(values)
    without_effect = warning_of(properties, Client.CONSUMER)
    if without_effect:
        reporting.log.log(logging.WARNING, "properties without effect here: %s", without_effect)
    _translate_security(values)
    client = client_settings(values, values.get("oauth_cb"))
    return ConsumerProperties(
        client=client,
        consumer=_consumer(values, client, needs_group, reporting.log),
        assignors=_assignors(values["partition.assignment.strategy"]),
        records_max=values.get("max.poll.records"),
        on_commit=_callback(values, "on_commit"),
        reporting=reporting,
        deserializers=_deserializers(values),
        interceptors=find_interceptors(values.get("interceptor.classes") or ()),
    )


def read_protocol(properties: Mapping[str, Any]) -> str:
    """The value of group.protocol; one that is wrong is refused with all others."""
    return str(properties.get("group.protocol") or "").strip().lower()


def _refuse_classic(properties: Mapping[str, Any]) -> None:
    """Raises PropertyError for properties of the classic protocol, which the coordinator decides in the consumer protocol."""
    problems = [
        Problem(name, f"is not supported with group.protocol=consumer: {what_to_do}", ProblemKind.REFUSED)
        for name, what_to_do in OF_CLASSIC.items()
        if properties.get(name) is not None
    ]
    if problems:
        raise PropertyError(problems)


def _topic_properties(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Properties of topics, which librdkafka takes apart from the others, too."""
    of_topics = properties.get("default.topic.config") or {}
    if not isinstance(of_topics, Mapping):
        raise ValueError(f"default.topic.config must be a dictionary of properties, not {of_topics!r}")
    return of_topics


def _deserializers(values: Mapping[str, Any]) -> Deserializers:
    found = {name: values.get(f"{name}.deserializer") for name in ("key", "value")}
    for name, each in found.items():
        if each is not None and not callable(each):
            raise ValueError(
                f"{name}.deserializer must be a function of (bytes, SerializationContext), as confluent-kafka's are, not {each!r}"
            )
    return Deserializers(**found)


def _callback(values: Mapping[str, Any], name: str) -> Callable[..., Any] | None:
    callback: Callable[..., Any] | None = values.get(name)
    if callback is not None and not callable(callback):
        raise ValueError(f"{name} requires a callable object")
    return callback


def _reporting(values: Mapping[str, Any]) -> Reporting:
    contexts = frozenset(word.strip() for word in values["debug"].split(",") if word.strip())
    if not contexts <= frozenset(CONTEXTS):
        raise ValueError(f"debug must be words of {', '.join(CONTEXTS)}, not {values['debug']!r}")
    logger = values.get("logger")
    if logger is not None and not callable(getattr(logger, "log", None)):
        raise ValueError(f"logger must have the methods of logging.Logger, not be {logger!r}")
    return Reporting(
        error_cb=_callback(values, "error_cb"),
        throttle_cb=_callback(values, "throttle_cb"),
        stats_cb=_callback(values, "stats_cb"),
        statistics_interval_ms=values["statistics.interval.ms"],
        # As in librdkafka, lines for debugging need no other level.
        log=ConsumerLog(logger, python_level(7 if contexts else values.get("log_level", 7))),
        debug=contexts,
    )


def _consumer(values: Mapping[str, Any], client: ClientSettings, needs_group: bool, log: ConsumerLog) -> ConsumerSettings:
    return ConsumerSettings(
        group=_group(values, client, needs_group, log),
        fetch=client.fetch_policy,
        reset=_reset(values["auto.offset.reset"]),
        is_auto_commit=values["enable.auto.commit"],
        auto_commit_interval_ms=values["auto.commit.interval.ms"],
        stores_offsets=values["enable.auto.offset.store"],
        reports_ends=values["enable.partition.eof"],
        creates_topics=values["allow.auto.create.topics"],
        api_timeout_ms=client.default_api_timeout_ms,
        request_timeout_ms=client.request_timeout_ms,
        metadata_max_age_ms=client.metadata_max_age_ms,
        prefetch_bytes_max=values["queued.max.messages.kbytes"] * 1024,
    )


def _group(values: Mapping[str, Any], client: ClientSettings, needs_group: bool, log: ConsumerLog) -> GroupSettings:
    if needs_group and not values.get("group.id"):
        raise ValueError("group.id must be set")
    instance_id = values.get("group.instance.id")
    if instance_id is not None and not _INSTANCE_ID.fullmatch(instance_id):
        raise ValueError(f"group.instance.id must be 1 to 249 letters, digits, '.', '_' or '-', not {instance_id!r}")
    settings = GroupSettings(
        group_id=values.get("group.id", ""),
        instance_id=instance_id,
        rack=client.client_rack,
        is_consumer_protocol=values["group.protocol"] == CONSUMER_PROTOCOL and bool(values.get("group.id")),
        remote_assignor=values.get("group.remote.assignor") or None,
        max_poll_interval_ms=values["max.poll.interval.ms"],
        request_timeout_ms=client.request_timeout_ms,
        retry_backoff_ms=(client.retry_backoff_ms, client.retry_backoff_max_ms),
    )
    return settings if settings.is_consumer_protocol else _with_session(settings, values, needs_group, log)


def _with_session(settings: GroupSettings, values: Mapping[str, Any], needs_group: bool, log: ConsumerLog) -> GroupSettings:
    """With session and heartbeat interval, which a member of a classic group decides."""
    session_ms, heartbeat_ms = values["session.timeout.ms"], values["heartbeat.interval.ms"]
    poll_ms = settings.max_poll_interval_ms
    if heartbeat_ms >= session_ms:
        raise ValueError(f"heartbeat.interval.ms ({heartbeat_ms}) must be lower than session.timeout.ms ({session_ms})")
    if needs_group and poll_ms < session_ms:  # librdkafka compares them, aiokafka does not
        raise ValueError(f"max.poll.interval.ms ({poll_ms}) must not be lower than session.timeout.ms ({session_ms})")
    if 3 * heartbeat_ms > session_ms:
        log.log(
            logging.WARNING,
            "heartbeat.interval.ms=%d is more than a third of session.timeout.ms=%d: one lost heartbeat may end the session; set %d",
            heartbeat_ms,
            session_ms,
            session_ms // 3,
        )
    return replace(settings, session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms)


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


def _translate_security(values: dict[str, Any]) -> None:
    """librdkafka's users, passwords and certificates as Kafka's properties, in place."""
    username, password = values.pop("sasl.username", None), values.pop("sasl.password", None)
    if username is not None and password is not None:
        module = "scram.Scram" if values.get("sasl.mechanism", "").startswith("SCRAM") else "plain.Plain"
        credentials = f'username="{_escaped(username)}" password="{_escaped(password)}"'
        values["sasl.jaas.config"] = f"org.apache.kafka.common.security.{module}LoginModule required {credentials};"
    elif username is not None or password is not None:
        raise ValueError("sasl.username and sasl.password belong together: one of them is not set")
    if values.get("ssl.truststore.location") or values.get("ssl.truststore.certificates"):
        values.setdefault("ssl.truststore.type", "PEM")
    if values.get("ssl.keystore.location"):
        values.setdefault("ssl.keystore.type", "PKCS12")
    certificate, key = values.pop("ssl.certificate.location", None), values.pop("ssl.key.location", None)
    if certificate is not None and key is not None:
        values["ssl.keystore.certificate.chain"] = _file("ssl.certificate.location", certificate)
        values["ssl.keystore.key"] = _file("ssl.key.location", key)
    elif certificate is not None or key is not None:
        raise ValueError("ssl.certificate.location and ssl.key.location belong together: one of them is not set")
    if "ssl.keystore.key" in values:
        values.setdefault("ssl.keystore.type", "PEM")
    if values.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
        values["ssl.endpoint.identification.algorithm"] = ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _file(name: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from error
