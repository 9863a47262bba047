"""TxnOffsetCommit (28), v0-5: offsets of a group that take effect when the producer's transaction is committed.

Version notes: v2+ carries the leader epoch; v3+ the member and generation that consumed (KIP-447); v4+ knows TRANSACTION_ABORTABLE; v5+
adds the group's partition of the offsets topic to the transaction by itself (KIP-890).
"""

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.coordination.producer_transactions import is_open
from ottla.broker.coordination.transactions import TransactionalIds
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.coordinator.effects import Producer
from ottla.groups.commands import CommitResult, OffsetsToCommit, OffsetToCommit, Result, TxnOffsetCommit
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

_FIRST_VERSION_WITH_ABORTABLE = 4
_FIRST_VERSION_THAT_ADDS = 5


def handle(request: Request, *, cluster_metadata: ClusterMetadata, groups: GroupRouter, transactional_ids: TransactionalIds) -> None:
    """Answer for topics that may not be read or are missing itself; then ask the transaction's coordinator, then the group's."""
    message = request.message
    errors: dict[tuple[str, int], ErrorCode] = {}
    offsets: list[OffsetToCommit] = []
    for topic in message.topics:
        known = cluster_metadata.topics.get(topic.name)
        may_read = request.session.may(Operation.READ, ResourceType.TOPIC, topic.name)
        for asked in topic.partitions:
            number = asked.partition_index
            if not may_read:
                errors[topic.name, number] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or not 0 <= number < len(known.leaders):
                errors[topic.name, number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offsets.append(
                    OffsetToCommit(
                        topic=topic.name,
                        partition=number,
                        offset=asked.committed_offset,
                        leader_epoch=getattr(asked, "committed_leader_epoch", -1),
                        metadata=asked.committed_metadata or "",
                        topic_id=known.topic_id,
                    )
                )

    def take(result: Result) -> None:
        assert isinstance(result, CommitResult)
        decided = zip(((each.topic, each.partition) for each in offsets), result.errors, strict=True)
        _answer(request, errors | dict(decided))

    if not offsets:
        _answer(request, errors)
        return
    error = ErrorCode.INVALID_GROUP_ID if not message.group_id else _refusal(request, groups, transactional_ids)
    if error is not ErrorCode.NONE:
        take(CommitResult(errors=(error,) * len(offsets)))
        return
    command = TxnOffsetCommit(
        reply_to=groups.expect_reply(take, request),
        group_id=message.group_id,
        generation=getattr(message, "generation_id", -1),
        member_id=getattr(message, "member_id", ""),
        instance_id=getattr(message, "group_instance_id", None),
        producer=Producer(message.producer_id, message.producer_epoch),
        offsets=OffsetsToCommit.of(offsets),
    )
    groups.run(message.group_id, command)


def _refusal(request: Request, groups: GroupRouter, transactional_ids: TransactionalIds) -> ErrorCode:
    """Why the offsets may not be written in the transaction; NONE where its coordinator has the group's partition in it."""
    message, version = request.message, request.version
    number = groups.partition_of(message.group_id)
    assert isinstance(number, int), "the topic's own settings were refused"
    loop = groups.coordinators.get(number)
    if loop is not None and is_open(loop.partition.log, message.producer_id, message.producer_epoch):
        return ErrorCode.NONE
    name = TopicPartition(CONSUMER_OFFSETS, number)
    errors = transactional_ids.write_errors(
        message.transactional_id,
        Producer(message.producer_id, message.producer_epoch),
        [name],
        adds=version >= _FIRST_VERSION_THAT_ADDS,
        knows_abortable=version >= _FIRST_VERSION_WITH_ABORTABLE,
    )
    return errors[name]


def _answer(request: Request, errors: dict[tuple[str, int], ErrorCode]) -> None:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": asked.partition_index, "error_code": errors[topic.name, asked.partition_index]}
                for asked in topic.partitions
            ],
        }
        for topic in request.message.topics
    ]
    request.reply({"throttle_time": NO_THROTTLE_MS, "topics": topics})


def _refuse(request: Request, error: ErrorCode) -> None:
    _answer(request, {(topic.name, asked.partition_index): error for topic in request.message.topics for asked in topic.partitions})


API = Api(
    key=ApiKey.TXN_OFFSET_COMMIT,
    versions=range(6),
    handle=handle,
    elements_max=10_000,
    access=(
        Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id", refuse=_refuse),
        Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_refuse),
        Access(Operation.READ, ResourceType.TOPIC, "topics[].name"),
    ),
)
