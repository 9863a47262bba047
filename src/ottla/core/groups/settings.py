"""What an operator may set about groups: Kafka's names in snake case, units last, Kafka's defaults unless a line says otherwise.

It holds values and acts on none.
"""

from dataclasses import dataclass

from ottla.core.config import BrokerConfig
from ottla.core.records.compression import Codec

MS_PER_MINUTE = 60_000

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member cannot beat while it waits in JoinGroup, so its wait has its own limit (fixed in Kafka)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of the classic protocol and of committed offsets."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    """Kafka: 3000. A group on one machine gains nothing by waiting for members on other machines."""
    group_max_size: int = 2_147_483_647
    offset_metadata_bytes_max: int = 4_096
    """`offset.metadata.max.bytes`; Kafka counts UTF-16 units, and so do we."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """`offsets.retention.minutes`."""
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000
    """Between two passes over old offsets; the shell keeps this time."""
    offsets_topic_codec: Codec = Codec.NONE
    """`offsets.topic.compression.codec`: of the batches that the shell writes."""

    @classmethod
    def from_config(cls, config: BrokerConfig) -> "GroupSettings":
        """What the broker's configuration says."""
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
