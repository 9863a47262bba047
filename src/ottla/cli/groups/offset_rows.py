"""The rows of a group's offsets: one for each partition that a member reads or that has a commit, with how far it lags.

Pure: a described group, its commits and the ends of the logs go in, rows come out.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.values import CommittedOffset, DescribedGroup, DescribedMember
from ottla.core.errors import PeerError
from ottla.core.java_text import java_order
from ottla.core.model import TopicPartition
from ottla.core.wire.consumer_protocol import parse_assignment


class OffsetRow(NamedTuple):
    """A partition of a group; None is what there is not: a commit, a leader to ask for the end, a member."""

    topic: str
    partition: int
    leader_epoch: int | None
    offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


def assigned_partitions(member: DescribedMember) -> Mapping[str, tuple[int, ...]]:
    """Partitions by topic; bytes of a classic member that are no assignment of the consumer protocol assign nothing."""
    if member.assigned is not None:
        return member.assigned
    try:
        return parse_assignment(member.assignment_bytes)
    except PeerError:
        return {}


def wanted_partitions(group: DescribedGroup, committed: Mapping[TopicPartition, CommittedOffset]) -> set[TopicPartition]:
    """Every partition that will have a row."""
    return {partition for member in group.members for partition in _partitions(member)} | set(committed)


def offset_rows(
    group: DescribedGroup, committed: Mapping[TopicPartition, CommittedOffset], ends: Mapping[TopicPartition, int | None]
) -> list[OffsetRow]:
    """Members with most partitions first, then partitions without a member; partitions in order within each."""
    rows: list[OffsetRow] = []
    assigned: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda member: -len(_partitions(member))):
        partitions = _partitions(member)
        assigned.update(partitions)
        rows += _rows(partitions, member, committed, ends)
    return rows + _rows(committed.keys() - assigned, None, committed, ends)


def _partitions(member: DescribedMember) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, numbers in assigned_partitions(member).items() for number in numbers]


def _rows(
    partitions: Iterable[TopicPartition],
    member: DescribedMember | None,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int | None],
) -> list[OffsetRow]:
    rows = []
    for partition in sorted(partitions, key=lambda each: (java_order(each.topic), each.partition)):
        known = committed.get(partition)
        offset = known.offset if known is not None and known.offset >= 0 else None
        epoch = known.leader_epoch if known is not None and known.leader_epoch >= 0 else None
        end = ends[partition]
        rows.append(
            OffsetRow(
                topic=partition.topic,
                partition=partition.partition,
                leader_epoch=epoch if offset is not None else None,
                offset=offset,
                log_end_offset=end,
                lag=None if offset is None or end is None else end - offset,
                consumer_id=member.member_id if member else None,
                host=member.host if member else None,
                client_id=member.client_id if member else None,
            )
        )
    return rows
