"""Which neighbouring segments become one when they are cleaned, so that segments do not get ever smaller. Numbers in, groups out.

Source: Kafka's `Cleaner.groupSegmentsBySize`.
"""

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1


class SizedSegment(Protocol):
    """A segment that takes no more batches; the next one begins at `next_base_offset`."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def offset_index_bytes(self) -> int: ...
    @property
    def time_index_bytes(self) -> int: ...


SegmentT = TypeVar("SegmentT", bound=SizedSegment)


def group_segments(segments: Iterable[SegmentT], *, segment_bytes: int, segment_index_bytes: int) -> list[list[SegmentT]]:
    """The segments in order, each in one group: as many neighbours together as fit one segment in bytes, index bytes and offsets.

    A segment that alone is too large stands alone. An empty one always fits in offsets.
    """
    found: list[list[SegmentT]] = []
    log_bytes = offset_index_bytes = time_index_bytes = 0
    for segment in segments:
        log_bytes += segment.size_bytes
        offset_index_bytes += segment.offset_index_bytes
        time_index_bytes += segment.time_index_bytes
        if (
            found
            and log_bytes <= segment_bytes
            and max(offset_index_bytes, time_index_bytes) <= segment_index_bytes
            and (segment.size_bytes == 0 or segment.next_base_offset - 1 - found[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            found[-1].append(segment)
        else:
            found.append([segment])
            log_bytes, offset_index_bytes, time_index_bytes = segment.size_bytes, segment.offset_index_bytes, segment.time_index_bytes
    return found
