"""What one member of a group is started with, in the terms that all client libraries share."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

LOG_FORMATS = (
    "%(asctime)s %(levelname)s %(name)s %(message)s",
    "%(asctime)s - %(name)s - %(levelname)s - %(message)s",
    "[%(asctime)s] %(levelname)s:%(name)s:%(message)s",
)
"""How people have the lines of Python's logging; all with a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Settings of one member.

    client_id: None for the library's own. pattern: a regular expression of topics, instead of `topics`. protocol: "classic" or "consumer"
    (KIP-848). rebalance_ms: only aiokafka can have another rebalance timeout than max.poll.interval.ms. debug: librdkafka's
    `debug` contexts. log_format: an index of LOG_FORMATS.
    """

    name: str
    client: str
    servers: str
    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignors: tuple[str, ...] = ("range",)
    protocol: str = "classic"
    session_ms: int = 6_000
    heartbeat_ms: int = 1_000
    max_poll_ms: int = 60_000
    rebalance_ms: int | None = None
    metadata_ms: int = 1_500
    client_id: str | None = None
    instance_id: str | None = None
    debug: str | None = None
    log_format: int = 0
    commits: bool = True

    def to_json(self) -> str:
        """The settings as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The settings that `to_json` wrote."""
        fields: Mapping[str, Any] = json.loads(text)
        named: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        return cls(**named)


def java_settings(member: MemberSettings) -> dict[str, str]:
    """The properties of the Java client; librdkafka's have the same names."""
    settings = {
        "bootstrap.servers": member.servers,
        "group.id": member.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": str(member.commits).lower(),
        "auto.commit.interval.ms": "1000",
        "max.poll.interval.ms": str(member.max_poll_ms),
        "metadata.max.age.ms": str(member.metadata_ms),
    }
    if member.client_id is not None:
        settings["client.id"] = member.client_id
    if member.instance_id is not None:
        settings["group.instance.id"] = member.instance_id
    if member.protocol == "consumer":
        return settings | {"group.protocol": "consumer"}
    return settings | {"session.timeout.ms": str(member.session_ms), "heartbeat.interval.ms": str(member.heartbeat_ms)}
