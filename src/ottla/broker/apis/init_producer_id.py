"""InitProducerId (22), v0-5: a producer id, and for a transactional id its next epoch, which fences the producer before.

Version notes: v3+ carries the producer's current id and epoch, by which a client that goes on gets its next epoch (KIP-360); v4+ knows
PRODUCER_FENCED. Without a transactional id there is a new producer id for every request, as in Kafka.
"""

from datetime import timedelta

from ottla.broker.cluster.topics import ProducerIds
from ottla.broker.coordination.transactions import TransactionRouter, known_error
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request, Session
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.transactions.commands import InitProducerId, ProducerResult, Result


def handle(request: Request, *, producer_ids: ProducerIds, transactions: TransactionRouter) -> None:
    """Answer with a fresh id at epoch 0, or with what the coordinator of the transactional id says."""
    message = request.message
    known_id, known_epoch = getattr(message, "producer_id", -1), getattr(message, "producer_epoch", -1)
    transactional_id, session = message.transactional_id, request.session
    if transactional_id is not None and not session.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        _answer(request, ProducerResult(error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    elif transactional_id is None and not _may_be_idempotent(session):
        _answer(request, ProducerResult(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    elif (known_id == -1) != (known_epoch == -1):
        _answer(request, ProducerResult(error=ErrorCode.INVALID_REQUEST))
    elif transactional_id is None:
        try:
            _answer(request, ProducerResult(error=ErrorCode.NONE, producer_id=producer_ids.next(), producer_epoch=0))
        except StorageError as failed:
            _answer(request, ProducerResult(error=failed.code))
    else:
        command = InitProducerId(
            reply_to=transactions.expect_reply(lambda result: _answer(request, result), request),
            transactional_id=transactional_id,
            timeout_ms=message.transaction_timeout // timedelta(milliseconds=1),
            producer_id=known_id,
            producer_epoch=known_epoch,
        )
        transactions.run(transactional_id, command)


def _may_be_idempotent(session: Session) -> bool:
    """With the right for it, or with that to write to some topic (KIP-679)."""
    return session.may_any(Operation.WRITE, ResourceType.TOPIC) or session.may(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, ProducerResult)
    values = {"producer_id": result.producer_id, "producer_epoch": result.producer_epoch}
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": known_error(request, result.error), **values})


API = Api(
    key=ApiKey.INIT_PRODUCER_ID,
    versions=range(6),
    handle=handle,
    access=(
        Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        Access(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, or_any=(Operation.WRITE, ResourceType.TOPIC)),
    ),
)
