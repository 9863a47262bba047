"""WriteTxnMarkers (27), v1-2: the ends of transactions, as a coordinator, or an administrator (KIP-664), has them written.

Ottla's own coordinators need no request for that: the brokers of a process share their logs. Version notes: v2+ says whether the marker's
epoch is above that of the transaction (KIP-1228).
"""

from collections.abc import Callable
from typing import Any

from ottla.broker.cluster.brokers import Node, PartitionOpening
from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import Access, Api, Request
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.log.append import LogRefusal
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.records.control import ControlType, EndMarker
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

_VERSION_WITH_BUMP = 2


def handle(request: Request, *, clock: Callable[[], int], groups: GroupRouter, node: Node, partition_opening: PartitionOpening) -> None:
    """Write each marker to each of its partitions, and answer when all are written."""
    markers = request.message.markers
    if any(marker.producer_id < 0 or marker.producer_epoch < 0 for marker in markers):
        _refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)  # no batch can have them; Kafka's exception is the answer for all
        return
    named = ((topic.name, number) for marker in markers for topic in marker.topics for number in topic.partition_indexes)

    def answer() -> Any:
        written = (
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": number, "error_code": _write(clock, groups, node, marker, topic.name, number)}
                            for number in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in markers
        )
        return request.reply_in_pieces({"markers": written})

    partition_opening.then(request, named, answer)


def _write(clock: Callable[[], int], groups: GroupRouter, node: Node, marker: Any, topic: str, number: int) -> ErrorCode:
    end = EndMarker(ControlType.COMMIT if marker.transaction_result else ControlType.ABORT, marker.coordinator_epoch)
    producer = {"producer_id": marker.producer_id, "producer_epoch": marker.producer_epoch}
    is_bumped = getattr(marker, "transaction_version", 0) >= _VERSION_WITH_BUMP
    try:
        partition = node.led(topic, number)
        if isinstance(partition, ErrorCode):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic == CONSUMER_OFFSETS:
            loop = groups.coordinators.get(number)
            if loop is None or loop.coordinator.status is not CoordinatorStatus.ACTIVE:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return loop.end_transaction(end, **producer, is_bumped=is_bumped)
        outcome = partition.append_marker(end, **producer, is_bumped=is_bumped, now_ms=clock())
    except StorageError as error:
        return error.code
    return outcome.error if isinstance(outcome, LogRefusal) else ErrorCode.NONE


def _refuse(request: Request, error: ErrorCode) -> None:
    answers = [
        {
            "producer_id": marker.producer_id,
            "topics": [
                {"name": topic.name, "partitions": [{"partition_index": number, "error_code": error} for number in topic.partition_indexes]}
                for topic in marker.topics
            ],
        }
        for marker in request.message.markers
    ]
    request.reply({"markers": answers})


API = Api(
    key=ApiKey.WRITE_TXN_MARKERS,
    versions=range(1, 3),
    handle=handle,
    elements_max=10_000,
    access=(Access(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, refuse=_refuse, or_cluster=Operation.ALTER),),
)
