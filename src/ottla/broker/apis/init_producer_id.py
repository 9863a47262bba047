"""InitProducerId (22), v0-5: a producer id for an idempotent producer, new at every call, as Kafka gives it.

Version notes: v3+ carries the producer's present id and epoch, which only transactional producers keep (KIP-360). A transactional id is
refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: there is no transaction coordinator yet (docs/skipped.md).
"""

from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.missing_features import TRANSACTIONS
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Answers with a fresh id at epoch 0."""
    error, producer_id, epoch = ErrorCode.NONE, -1, -1
    known_id = getattr(request.message, "producer_id", -1)
    known_epoch = getattr(request.message, "producer_epoch", -1)
    if request.message.transactional_id == "" or (known_id == -1) != (known_epoch == -1):
        error = ErrorCode.INVALID_REQUEST
    elif request.message.transactional_id is not None:
        node.cluster.missing_features.report(TRANSACTIONS, request)
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        try:
            producer_id, epoch = node.cluster.next_producer_id(), 0
        except StorageError as failed:
            error = failed.code
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "producer_id": producer_id, "producer_epoch": epoch})


API = Api(key=22, versions=range(6), handle=handle)
