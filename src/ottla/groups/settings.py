"""The settings of groups: Kafka's names in snake case with the unit last, and Kafka's defaults unless a line says otherwise."""

from dataclasses import dataclass

from ottla.config import BrokerConfig
from ottla.protocol.records.compression import Codec

MS_PER_MINUTE = 60_000

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The session of a new member while its first JoinGroup is parked and it cannot send heartbeats (a constant in Kafka)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of the classic protocol and of committed offsets."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    """Kafka: 3000. Members on one machine start together, so waiting for more of them gains little."""
    group_max_size: int = 2_147_483_647
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
        """The settings in a broker's configuration."""
        number = config.number
        return cls(
            group_min_session_timeout_ms=number("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=number("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            group_max_size=number("group.max.size"),
            offset_metadata_bytes_max=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * MS_PER_MINUTE,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
            offsets_topic_codec=Codec(number("offsets.topic.compression.codec")),
        )

    def allows_session_timeout(self, session_timeout_ms: int) -> bool:
        """Whether a member may have this session timeout."""
        return self.group_min_session_timeout_ms <= session_timeout_ms <= self.group_max_session_timeout_ms
