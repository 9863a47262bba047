"""The keyword arguments of `ottla.AsyncConsumer` as checked settings, in aiokafka's names and with its defaults; and its token provider.

Most are Kafka's properties with "_" for "." (`config.client_properties`). What aiokafka takes and this consumer does not support is refused
with a sentence. It opens nothing.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypedDict

from ottla.client.brokers import Connect
from ottla.client.consumer.properties import CONSUMER_PROTOCOL, OF_CLASSIC, parse_properties, read_protocol
from ottla.client.engine.values import ConsumerSettings
from ottla.client.network.connector import connect
from ottla.client.security.properties import OAUTHBEARER
from ottla.client.settings import ClientSettings
from ottla.config.client_properties import PROPERTIES, PropertyError
from ottla.groups.assignors import Assignor
from ottla.security.oauthbearer import parse_jwt
from ottla.text import did_you_mean

TOKEN_SECONDS_MAX: Final = 30.0
OPAQUE_SECONDS: Final = 300.0
"""How long a token is used that does not say when it expires: the provider is asked again before that."""


class ProviderTokens:
    """An `oauth_cb` that asks `provider` in `loop`; it must be called in another thread. `clock_ns`: since 1970."""

    def __init__(self, provider: Any, loop: asyncio.AbstractEventLoop, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._provider = provider
        self._loop = loop
        self._clock_ns = clock_ns

    def __call__(self, config: str) -> tuple[str, float, str, dict[str, str]]:
        """A token, its expiry, and what is sent with it. Raises what the provider raises, or TimeoutError."""
        asked = asyncio.run_coroutine_threadsafe(self._provider.token(), self._loop)
        try:
            token = str(asked.result(TOKEN_SECONDS_MAX))
        finally:
            asked.cancel()
        extensions = {str(key): str(value) for key, value in self._provider.extensions().items()}
        try:
            parsed = parse_jwt(token)
        except ValueError:
            return token, self._clock_ns() / 1e9 + OPAQUE_SECONDS, "", extensions
        return token, parsed.expires_at, parsed.principal, extensions


class ConsumerArguments(TypedDict, total=False):
    """The keyword arguments of `AsyncConsumer` that are supported, in aiokafka's names."""

    bootstrap_servers: str | Iterable[str]
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    connections_max_idle_ms: int | None
    metadata_max_age_ms: int
    client_rack: str | None
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    isolation_level: str
    check_crcs: bool
    group_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int | None
    partition_assignment_strategy: str | Iterable[Any]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    security_protocol: str
    sasl_mechanism: str
    key_deserializer: Callable[[Any], Any] | None
    value_deserializer: Callable[[Any], Any] | None
    rebalance_timeout_ms: int | None
    ssl_context: ssl.SSLContext | None
    api_version: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: Any
    exclude_internal_topics: bool
    consumer_timeout_ms: int
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None


DEFAULT_PORT: Final = 9092
_PROPERTIES: Final = {row.name.replace(".", "_"): row for row in PROPERTIES.values() if row.aiokafka is not None}
"""The arguments that are Kafka's properties."""
_OWN: Final = (
    *("key_deserializer", "value_deserializer", "rebalance_timeout_ms", "ssl_context", "api_version"),
    *("group_protocol", "group_remote_assignor"),
    *("sasl_plain_username", "sasl_plain_password", "sasl_oauth_token_provider", "sasl_kerberos_domain_name"),
)
DEFAULTS: Final[Mapping[str, Any]] = {
    **{name: row.aiokafka[0] for name, row in _PROPERTIES.items() if row.aiokafka},
    **dict.fromkeys(_OWN),
    "group_protocol": "classic",
    "consumer_timeout_ms": 200,
    "sasl_kerberos_service_name": "kafka",
}
"""Every argument, with aiokafka's default; the client's name is our own.

`group_protocol` and `group_remote_assignor` are not aiokafka's. Three have no effect: rebalances and new partitions are noticed at once,
without a `consumer_timeout_ms`, and Kerberos' are for a `sasl_mechanism` that is refused.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """All that a consumer is made of. `connect` opens its connections; `records_max`: max_poll_records, None where it is not set."""

    client: ClientSettings
    consumer: ConsumerSettings
    assignors: tuple[Assignor, ...]
    connect: Connect
    records_max: int | None
    key_deserializer: Any
    value_deserializer: Any


def parse_arguments(given: Mapping[str, Any]) -> Arguments:
    """Settings from keyword arguments. Raises ValueError with a line for each argument that is wrong, TypeError for what is unknown."""
    unknown = [f"{name!r}{did_you_mean(name, DEFAULTS)}" for name in given if name not in DEFAULTS]
    if unknown:
        raise TypeError(f"AsyncConsumer() has no argument {', no argument '.join(unknown)}")
    values = {**DEFAULTS, **given}
    records_max = values["max_poll_records"]
    if records_max is not None and (not isinstance(records_max, int) or records_max < 1):
        raise ValueError(f"max_poll_records must be a positive whole number, not {records_max!r}")
    idle_ms = values["connections_max_idle_ms"]
    properties = {
        **{row.name: values[name] for name, row in _PROPERTIES.items()},
        "group.protocol": values["group_protocol"],
        "group.remote.assignor": values["group_remote_assignor"],
        "bootstrap.servers": bootstrap_servers(values["bootstrap_servers"]),
        "connections.max.idle.ms": -1 if idle_ms is None else idle_ms,
        "partition.assignment.strategy": _strategy(values["partition_assignment_strategy"]),
        "default.api.timeout.ms": values["request_timeout_ms"],
        **_security(values),
    }
    is_consumer_protocol = read_protocol(properties) == CONSUMER_PROTOCOL
    if is_consumer_protocol:  # aiokafka's defaults of the others are none
        properties |= {name: None for name in OF_CLASSIC if given.get(name.replace(".", "_")) is None}
    try:
        parsed = parse_properties(properties, needs_group=False)
    except PropertyError as error:
        problems = [problem._replace(name=problem.name.replace(".", "_")) for problem in error.problems]
        raise PropertyError(problems) from error
    is_member = bool(parsed.consumer.group.group_id)
    rebalance_ms = values["rebalance_timeout_ms"]
    if rebalance_ms is None and not is_consumer_protocol:
        rebalance_ms = values["session_timeout_ms"]
    group = replace(parsed.consumer.group, rebalance_timeout_ms=rebalance_ms)
    tls: ssl.SSLContext | None = values["ssl_context"]
    return Arguments(
        client=parsed.client,
        consumer=replace(
            parsed.consumer,
            group=group,
            is_auto_commit=parsed.consumer.is_auto_commit and is_member,
            stores_resets=True,
            creates_topics=True,
        ),
        assignors=parsed.assignors,
        connect=connect if tls is None else partial(connect, tls=tls),
        records_max=records_max,
        key_deserializer=values["key_deserializer"],
        value_deserializer=values["value_deserializer"],
    )


def bootstrap_servers(given: str | Iterable[str]) -> str:
    """Addresses as a text "host:port,host:port"; without a port it is 9092."""
    names = given.split(",") if isinstance(given, str) else given
    return ",".join(_with_port(name.strip()) for name in names)


def _with_port(name: str) -> str:
    host, _, port = name.rpartition(":")
    has_port = host and port.isdigit() and (":" not in host or name.startswith("["))
    return name if has_port else f"{name}:{DEFAULT_PORT}"


def _strategy(given: Any) -> str:
    """Names of assignors; aiokafka's own classes, and ours, stand for theirs."""
    listed = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    return ",".join(_assignor_name(each) for each in listed)


def _assignor_name(given: Any) -> str:
    if isinstance(given, type) and issubclass(given, Assignor):
        return f"{given.__module__}:{given.__qualname__}"
    return given if isinstance(given, str) else str(getattr(given, "name", given))


def _tokens(provider: Any) -> ProviderTokens:
    if not callable(getattr(provider, "token", None)) or not callable(getattr(provider, "extensions", None)):
        raise ValueError("sasl_oauth_token_provider is needed with sasl_mechanism=OAUTHBEARER: an aiokafka.abc.AbstractTokenProvider")
    return ProviderTokens(provider, asyncio.get_running_loop())


def _security(values: Mapping[str, Any]) -> dict[str, Any]:
    protocol = values["security_protocol"]
    if protocol in ("SSL", "SASL_SSL") and values["ssl_context"] is None:
        raise ValueError(f"ssl_context is needed with security_protocol={protocol}: ssl.create_default_context() makes one")
    if protocol not in ("SASL_PLAINTEXT", "SASL_SSL"):
        return {"security.protocol": protocol}
    if values["sasl_mechanism"] == "GSSAPI":
        raise ValueError("sasl_mechanism=GSSAPI is not supported: it can be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
    if values["sasl_mechanism"] == OAUTHBEARER:
        return {"security.protocol": protocol, "sasl.mechanism": OAUTHBEARER, "oauth_cb": _tokens(values["sasl_oauth_token_provider"])}
    username, password = values["sasl_plain_username"], values["sasl_plain_password"]
    if username is None or password is None:
        raise ValueError(f"sasl_plain_username and sasl_plain_password are needed with security_protocol={protocol}")
    return {
        "security.protocol": protocol,
        "sasl.mechanism": values["sasl_mechanism"],
        "sasl.username": username,
        "sasl.password": password,
    }
