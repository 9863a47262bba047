"""Retention: how many of a log's oldest segments have expired, by the log's start, its size and its age. It removes nothing itself.

Source: Kafka's `UnifiedLog.deleteOldSegments`.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class AgingSegment(NamedTuple):
    """One segment, oldest first. `end_offset` is where the next one begins; `latest_ms` the largest timestamp of its records."""

    end_offset: int
    size_bytes: int
    latest_ms: int


def expired_segments(
    segments: Callable[[], Iterable[AgingSegment]],
    *,
    log_start_offset: int,
    high_watermark: int,
    size_bytes: int,
    by_age_and_size: bool,
    retention_ms: int,
    retention_bytes: int,
    now_ms: int,
) -> int:
    """How many leading segments have expired; all of them may, the active one too. Nothing above the high watermark expires.

    `segments` returns a new iterator at each call, which is read no further than needed. `by_age_and_size`: cleanup.policy has `delete`;
    otherwise only what lies below the log's start expires. -1 as `retention_ms` or `retention_bytes` sets no limit.
    """

    def leading(is_expired: Callable[[AgingSegment], bool]) -> int:
        count = 0
        for segment in segments():
            if segment.end_offset > high_watermark or not is_expired(segment):
                break
            count += 1
        return count

    gone = leading(lambda segment: segment.end_offset <= log_start_offset)
    if not by_age_and_size:
        return gone
    if retention_bytes >= 0:
        excess_bytes = size_bytes - retention_bytes

        def is_in_excess(segment: AgingSegment) -> bool:
            nonlocal excess_bytes
            excess_bytes -= segment.size_bytes
            return excess_bytes >= 0

        gone = max(gone, leading(is_in_excess))
    if retention_ms >= 0:
        gone = max(gone, leading(lambda segment: now_ms - segment.latest_ms > retention_ms))
    return gone
