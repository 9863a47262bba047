"""What an operator may set about groups: Kafka's names in snake case, units last, Kafka's defaults unless a line says otherwise.

It only holds values; reading them from a configuration is the broker's work.
"""

from dataclasses import dataclass

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
