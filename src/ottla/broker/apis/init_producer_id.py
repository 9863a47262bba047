"""InitProducerId (22), v0-5: a producer id for an idempotent producer, a new one for every request, as in Kafka.

Version notes: v3+ carries the producer's current id and epoch, which only transactional producers keep (KIP-360). A transactional id is
refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: there is no transaction coordinator yet (docs/skipped.md).
"""

from ottla.broker.cluster.topics import ProducerIds
from ottla.broker.network.dispatch import TRANSACTIONS, MissingFeatures
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, missing_features: MissingFeatures, producer_ids: ProducerIds) -> None:
    """Answer with a fresh id at epoch 0."""
    error, producer_id, epoch = ErrorCode.NONE, -1, -1
    known_id = getattr(request.message, "producer_id", -1)
    known_epoch = getattr(request.message, "producer_epoch", -1)
    if request.message.transactional_id == "" or (known_id == -1) != (known_epoch == -1):
        error = ErrorCode.INVALID_REQUEST
    elif request.message.transactional_id is not None:
        missing_features.report(TRANSACTIONS, request)
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not request.session.may(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        try:
            producer_id, epoch = producer_ids.next(), 0
        except StorageError as failed:
            error = failed.code
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "producer_id": producer_id, "producer_epoch": epoch})


API = Api(
    key=ApiKey.INIT_PRODUCER_ID,
    versions=range(6),
    handle=handle,
    access=(
        Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        Access(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
    ),
)
