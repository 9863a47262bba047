"""EndTxn (26), v0-5: commits or aborts a producer's transaction.

Version notes: v2+ knows PRODUCER_FENCED; v5+ raises the producer's epoch and returns what the next transaction uses (KIP-890).
"""

from ottla.broker.coordination.transactions import TransactionRouter, known_error
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.transactions.commands import EndTxn, ProducerResult, Result

_FIRST_VERSION_WITH_BUMP = 5


def handle(request: Request, *, transactions: TransactionRouter) -> None:
    """Answer when the outcome is decided and durable; the markers are written then."""
    message = request.message
    command = EndTxn(
        reply_to=transactions.expect_reply(lambda result: _answer_result(request, result), request),
        transactional_id=message.transactional_id,
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        commits=message.committed,
        bumps_epoch=request.version >= _FIRST_VERSION_WITH_BUMP,
    )
    transactions.run(message.transactional_id, command)


def _answer_result(request: Request, result: Result) -> None:
    assert isinstance(result, ProducerResult)
    values = {"producer_id": result.producer_id, "producer_epoch": result.producer_epoch}
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": known_error(request, result.error), **values})


def _refuse(request: Request, error: ErrorCode) -> None:
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "producer_id": -1, "producer_epoch": -1})


API = Api(
    key=ApiKey.END_TXN,
    versions=range(6),
    handle=handle,
    access=(Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id", refuse=_refuse),),
)
