"""DescribeProducers (61), v0: what partitions know of their producers, and which transactions are open there (KIP-664)."""

from typing import Any

from ottla.broker.cluster.brokers import Node, PartitionOpening
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.log.producer_state import ProducerEntry
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, node: Node, partition_opening: PartitionOpening) -> None:
    """Answer when the partitions that this broker leads are open."""
    topics = request.message.topics

    def answer() -> Any:
        described = (
            {"name": topic.name, "partitions": [_partition(node, topic.name, at) for at in topic.partition_indexes]} for topic in topics
        )
        return request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": described})

    partition_opening.then(request, ((topic.name, at) for topic in topics for at in topic.partition_indexes), answer)


def _partition(node: Node, topic: str, number: int) -> dict[str, Any]:
    try:
        partition = node.led(topic, number)
    except StorageError as error:
        return _answer(number, error.code, str(error))
    if isinstance(partition, ErrorCode):
        return _answer(number, partition, None)
    producers = [_producer(producer_id, entry) for producer_id, entry in partition.log.producers.all().items()]
    return _answer(number, ErrorCode.NONE, None, producers)


def _answer(number: int, error: ErrorCode, message: str | None, producers: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"partition_index": number, "error_code": error, "error_message": message, "active_producers": producers or ()}


def _producer(producer_id: int, entry: ProducerEntry) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": entry.epoch,
        "last_sequence": entry.batches[-1].last_sequence if entry.batches else -1,
        "last_timestamp": entry.last_timestamp_ms,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_start_offset": entry.transaction_first_offset,
    }


def _refuse(topic: Any, error: ErrorCode) -> dict[str, Any]:
    return {"name": topic.name, "partitions": [_answer(number, error, None) for number in topic.partition_indexes]}


API = Api(
    key=ApiKey.DESCRIBE_PRODUCERS,
    versions=range(1),
    handle=handle,
    elements_max=10_000,
    access=(Access(Operation.READ, ResourceType.TOPIC, "topics[].name", refuse=_refuse, answers="topics"),),
)
