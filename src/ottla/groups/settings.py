"""The settings of groups: Kafka's names in snake case with the unit last, and Kafka's defaults unless a line says otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from ottla.config import BrokerConfig, ConfigError
from ottla.groups.assignors import Assignor, coordinator_assignors
from ottla.protocol.records.compression import Codec

MS_PER_MINUTE = 60_000

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The session of a new member while its first JoinGroup is parked and it cannot send heartbeats (a constant in Kafka)."""


class MigrationPolicy(Enum):
    """Which groups with members may change their type (Kafka: ConsumerGroupMigrationPolicy). Groups without members always may."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of the consumer protocol comes."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group becomes a classic group when its last member of the consumer protocol goes."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


class GroupConfigs(Protocol):
    """The settings of single consumer groups, which change while the coordinator runs."""

    def group_number(self, group_id: str, name: str) -> int:
        """The value in force of a group's setting: the group's own, or the broker's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of both group protocols and of committed offsets."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    """Kafka: 3000. Members on one machine start together, so waiting for more of them gains little."""
    group_max_size: int = 2_147_483_647
    consumer_protocol: bool = True
    """Whether `group.coordinator.rebalance.protocols` has `consumer`."""
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_max_size: int = 2_147_483_647
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    consumer_regex_refresh_interval_ms: int = 600_000
    consumer_assignors: Mapping[str, Assignor] = field(default_factory=coordinator_assignors)
    """By name; the first is the default."""
    offset_metadata_bytes_max: int = 4_096
    """`offset.metadata.max.bytes`; in UTF-16 units, as Kafka counts them."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """`offsets.retention.minutes`."""
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000
    """Time between two expiry passes; the shell measures it."""
    offsets_topic_codec: Codec = Codec.NONE
    """`offsets.topic.compression.codec`: for the batches that the shell writes."""

    @classmethod
    def from_config(cls, config: BrokerConfig) -> "GroupSettings":
        """The settings in a broker's configuration. Raises ConfigError for an assignor that cannot be loaded."""
        number = config.number
        try:
            assignors = coordinator_assignors(config.items("group.consumer.assignors"))
        except ValueError as error:
            raise ConfigError(f"group.consumer.assignors: {error}") from error
        return cls(
            group_min_session_timeout_ms=number("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=number("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            group_max_size=number("group.max.size"),
            consumer_protocol="consumer" in config.items("group.coordinator.rebalance.protocols"),
            consumer_session_timeout_ms=number("group.consumer.session.timeout.ms"),
            consumer_heartbeat_interval_ms=number("group.consumer.heartbeat.interval.ms"),
            consumer_assignment_interval_ms=number("group.consumer.assignment.interval.ms"),
            consumer_max_size=number("group.consumer.max.size"),
            consumer_migration_policy=MigrationPolicy(config.text("group.consumer.migration.policy").strip().lower()),
            consumer_regex_refresh_interval_ms=number("group.consumer.regex.refresh.interval.ms"),
            consumer_assignors=assignors,
            offset_metadata_bytes_max=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * MS_PER_MINUTE,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
            offsets_topic_codec=Codec(number("offsets.topic.compression.codec")),
        )

    def group_number(self, group_id: str, name: str) -> int:
        """The broker's value, for every group: of a coordinator without settings of single groups (GroupConfigs)."""
        match name:
            case "consumer.session.timeout.ms":
                return self.consumer_session_timeout_ms
            case "consumer.heartbeat.interval.ms":
                return self.consumer_heartbeat_interval_ms
            case _:
                return self.consumer_assignment_interval_ms

    def allows_session_timeout(self, session_timeout_ms: int) -> bool:
        """Whether a member may have this session timeout."""
        return self.group_min_session_timeout_ms <= session_timeout_ms <= self.group_max_session_timeout_ms
