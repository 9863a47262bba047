"""The offsets that a topic holds now, as ranges to fetch: where each partition begins, or where a reader stopped, to its present end.

Ends are high watermarks: what is in open transactions lies within.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, Failure
from ottla.client.errors import RequestFailedError, UnknownTopicError
from ottla.core.client.fetch_values import FetchRange
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

_NO_POSITIONS: Final[Mapping[int, int]] = {}


def topic_ranges(
    admin: AdminClient, topic: str, *, positions: Mapping[int, int] = _NO_POSITIONS, partitions: Collection[int] | None = None
) -> list[FetchRange]:
    """One range for each partition, empty where there is nothing (new); partitions without a leader are left out.

    `positions`: where to begin, by partition; a range begins later when the log does, and ends before its start when the log was
    truncated. Raises UnknownTopicError, or RequestFailedError with
    the code of the refusal.
    """
    described = admin.describe_topics([topic])[topic]
    if isinstance(described, Failure):
        if described.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(f"topic {topic} does not exist")
        raise RequestFailedError(f"topic {topic}: {described.code.name}", described.code)
    led = [number for number, leader in described.leaders.items() if leader is not None]
    wanted = [TopicPartition(topic, number) for number in led if partitions is None or number in partitions]
    starts, ends = admin.list_offsets(wanted, EARLIEST), admin.list_offsets(wanted, LATEST)
    ranges = []
    for each in wanted:
        start = max(starts[each], positions.get(each.partition, 0))
        ranges.append(FetchRange(each, start, ends[each], described.topic_id))
    return ranges
