"""AddPartitionsToTxn (24), v0-5: partitions that a producer is about to write in its transaction.

Version notes: v2+ knows PRODUCER_FENCED; v4+ is what brokers send to each other, with many transactions, and may only ask (KIP-890).
"""

from collections.abc import Iterable
from typing import Any

from ottla.broker.coordination.transactions import TransactionRouter, known_error
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.transactions.commands import AddPartitions, PartitionsResult, Result, VerifyPartitions

_FIRST_VERSION_OF_BROKERS = 4


def handle(request: Request, *, cluster_metadata: ClusterMetadata, transactions: TransactionRouter) -> None:
    """Add all partitions of a transaction, or none."""
    message = request.message
    if request.version >= _FIRST_VERSION_OF_BROKERS:
        _answer_brokers(request, transactions)
        return
    transactional_id, topics = message.v3_and_below_transactional_id, message.v3_and_below_topics
    if not request.session.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        _answer(request, topics, lambda _: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return
    refused = {name: error for name in _names(topics) if (error := _refusal(request, cluster_metadata, name)) is not ErrorCode.NONE}
    if refused:
        _answer(request, topics, lambda name: refused.get(name, ErrorCode.OPERATION_NOT_ATTEMPTED))
        return

    def take(result: Result) -> None:
        assert isinstance(result, PartitionsResult)
        error = known_error(request, result.error)
        _answer(request, topics, lambda _: error)

    command = AddPartitions(
        reply_to=transactions.expect_reply(take, request),
        transactional_id=transactional_id,
        producer_id=message.v3_and_below_producer_id,
        producer_epoch=message.v3_and_below_producer_epoch,
        partitions=_names(topics),
    )
    transactions.run(transactional_id, command)


def _names(topics: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _refusal(request: Request, cluster_metadata: ClusterMetadata, name: TopicPartition) -> ErrorCode:
    topic = cluster_metadata.topics.get(name.topic)
    if name.topic in INTERNAL_TOPICS or not request.session.may(Operation.WRITE, ResourceType.TOPIC, name.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or not 0 <= name.partition < len(topic.leaders):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _answer(request: Request, topics: Iterable[Any], error_of: Any) -> None:
    results = [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": error_of(TopicPartition(topic.name, number))}
                for number in topic.partitions
            ],
        }
        for topic in topics
    ]
    request.reply({"throttle_time": NO_THROTTLE_MS, "results_by_topic_v3_and_below": results})


def _answer_brokers(request: Request, transactions: TransactionRouter) -> None:
    if not request.session.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        refused = {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "results_by_transaction": ()}
        request.reply({"throttle_time": NO_THROTTLE_MS, **refused})
        return
    asked = list(request.message.transactions)
    results: dict[int, PartitionsResult] = {}

    def take(number: int, result: Result) -> None:
        assert isinstance(result, PartitionsResult)
        results[number] = result
        if len(results) == len(asked):
            answers = [_transaction(each, results[number]) for number, each in enumerate(asked)]
            request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "results_by_transaction": answers})

    for number, each in enumerate(asked):
        reply_to = transactions.expect_reply(lambda result, number=number: take(number, result), request)  # type: ignore[misc]
        named = {"transactional_id": each.transactional_id, "producer_id": each.producer_id, "producer_epoch": each.producer_epoch}
        command = (
            VerifyPartitions(reply_to=reply_to, partitions=_names(each.topics), **named)
            if each.verify_only
            else AddPartitions(reply_to=reply_to, partitions=_names(each.topics), bumps_epoch=True, **named)
        )
        transactions.run(each.transactional_id, command)
    if not asked:
        request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "results_by_transaction": ()})


def _transaction(asked: Any, result: PartitionsResult) -> dict[str, Any]:
    topics = [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": number,
                    "partition_error_code": (
                        ErrorCode.TRANSACTION_ABORTABLE if TopicPartition(topic.name, number) in result.missing else result.error
                    ),
                }
                for number in topic.partitions
            ],
        }
        for topic in asked.topics
    ]
    return {"transactional_id": asked.transactional_id, "topic_results": topics}


API = Api(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    versions=range(6),
    handle=handle,
    elements_max=10_000,
    access=(
        Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "v3_and_below_transactional_id"),
        Access(Operation.WRITE, ResourceType.TOPIC, "v3_and_below_topics[].name"),
        Access(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
