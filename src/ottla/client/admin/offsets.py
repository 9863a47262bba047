"""Requests about committed offsets from outside a group: OffsetFetch, OffsetCommit (generation -1), OffsetDelete.

It checks nothing: the coordinator decides whether a group accepts a commit.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.offset_commit.v8.request import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v8.response import OffsetFetchResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.coordinators import call_coordinators
from ottla.client.admin.values import CommittedOffset, Failure
from ottla.client.brokers import Brokers
from ottla.client.deadlines import RETRIABLE
from ottla.client.errors import error_code
from ottla.client.network.connection import BrokerConnection
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

PartitionResults = Mapping[TopicPartition, Failure | None]
Committed = Mapping[TopicPartition, CommittedOffset]


def committed_offsets(brokers: Brokers, groups: Iterable[str]) -> dict[str, Committed | Failure]:
    """All committed offsets of each group; an unknown group has none."""

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, Committed | Failure]:
        request = OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id=GroupId(name), topics=None) for name in names))
        answer = brokers.call(connection, request, OffsetFetchResponse)
        found: dict[str, Committed | Failure] = {}
        for group in answer.groups:
            code = error_code(group.error_code)
            if code is not ErrorCode.NONE:
                found[group.group_id] = Failure(code)
                continue
            found[group.group_id] = {
                TopicPartition(topic.name, item.partition_index): CommittedOffset(
                    item.committed_offset, item.committed_leader_epoch, item.metadata or ""
                )
                for topic in group.topics
                for item in topic.partitions
                if error_code(item.error_code) is ErrorCode.NONE
            }
        return found

    return call_coordinators(brokers, "listConsumerGroupOffsets", groups, call)


def commit_offsets(brokers: Brokers, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> PartitionResults | Failure:
    """Commit offsets for a group; None for each committed partition."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        committed = CommittedOffset(offset) if isinstance(offset, int) else offset
        item = OffsetCommitRequestPartition(
            partition_index=i32(partition),
            committed_offset=i64(committed.offset),
            committed_leader_epoch=i32(committed.leader_epoch),
            committed_metadata=committed.metadata,
        )
        topics.setdefault(topic, []).append(item)
    request = OffsetCommitRequest(
        group_id=GroupId(group),
        member_id="",
        topics=tuple(OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(items)) for name, items in topics.items()),
    )

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, PartitionResults | Failure]:
        answer = brokers.call(connection, request, OffsetCommitResponse)
        return {group: _results(answer.topics)}

    return call_coordinators(brokers, "commitOffsets", [group], call)[group]


def delete_offsets(brokers: Brokers, group: str, partitions: Iterable[TopicPartition]) -> PartitionResults | Failure:
    """Delete a group's offsets; None for each deleted partition, one Failure when the whole request is refused."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=i32(partition)))
    request = OffsetDeleteRequest(
        group_id=GroupId(group),
        topics=tuple(OffsetDeleteRequestTopic(name=TopicName(name), partitions=tuple(items)) for name, items in topics.items()),
    )

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, PartitionResults | Failure]:
        answer = brokers.call(connection, request, OffsetDeleteResponse)
        code = error_code(answer.error_code)
        return {group: _results(answer.topics) if code is ErrorCode.NONE else Failure(code)}

    return call_coordinators(brokers, "offsetDelete", [group], call)[group]


def _results(topics: Iterable[Any]) -> PartitionResults | Failure:
    """Results by partition; a single retriable error stands for them all, so that all are retried."""
    results: dict[TopicPartition, Failure | None] = {}
    for topic in topics:
        for item in topic.partitions:
            code = error_code(item.error_code)
            if code in RETRIABLE:
                return Failure(code)
            results[TopicPartition(topic.name, item.partition_index)] = None if code is ErrorCode.NONE else Failure(code)
    return results
