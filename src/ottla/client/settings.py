"""Settings of a client: Kafka's consumer properties, checked, as one picklable value.

The table of properties is `config.client_properties`. It opens no files and no connections.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from ottla.client.addresses import parse_addresses
from ottla.client.fetch.fetch_values import FetchPolicy
from ottla.client.security.properties import PLAINTEXT, SecuritySettings, parse_security
from ottla.client.security.tokens import OAuthCallback
from ottla.config.client_properties import default_values, read_properties
from ottla.config.client_property import Client

READ_COMMITTED: Final = "read_committed"


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

    def with_credentials(self, username: str, password: str) -> "ClientSettings":
        """The same with another user and password."""
        return replace(self, security=replace(self.security, username=username, password=password))

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


_FIELDS: Final = {field.name.replace("_", "."): field.name for field in fields(ClientSettings)}
"""The fields that are named as their properties."""


def parse_client_settings(properties: Mapping[str, str], oauth_cb: OAuthCallback | None = None) -> ClientSettings:
    """Settings from Kafka's consumer properties (without any "kafka." before them).

    Raises ValueError with a sentence that names the property when it is unknown, not supported (and what to do), or wrong.
    """
    return client_settings(default_values(Client.RANGES) | read_properties(properties, Client.RANGES), oauth_cb)


def client_settings(values: Mapping[str, Any], oauth_cb: OAuthCallback | None = None) -> ClientSettings:
    """Settings from values by Kafka's names; those of other names are ignored. Raises ValueError where they contradict each other."""
    security = parse_security(values, oauth_cb)
    if "bootstrap.servers" not in values:
        raise ValueError("bootstrap.servers is needed: the addresses of brokers, host:port,host:port")
    try:
        parse_addresses(values["bootstrap.servers"])
    except ValueError as error:
        raise ValueError(f"bootstrap.servers: {error}") from error
    settings = {_FIELDS[name]: value for name, value in values.items() if name in _FIELDS}
    return ClientSettings(**settings, security=security, is_read_committed=values["isolation.level"] == READ_COMMITTED)
