"""AddOffsetsToTxn (25), v0-4: a producer is about to commit offsets of a group in its transaction.

Version notes: v2+ knows PRODUCER_FENCED.
"""

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.coordination.transactions import TransactionRouter, known_error
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.transactions.commands import AddPartitions, PartitionsResult, Result


def handle(request: Request, *, groups: GroupRouter, transactions: TransactionRouter) -> None:
    """Add the group's partition of the offsets topic to the transaction. The group need not exist."""
    message = request.message
    number = groups.partition_of(message.group_id)
    assert isinstance(number, int), "the topic's own settings were refused"

    def take(result: Result) -> None:
        assert isinstance(result, PartitionsResult)
        _answer(request, known_error(request, result.error))

    command = AddPartitions(
        reply_to=transactions.expect_reply(take, request),
        transactional_id=message.transactional_id,
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        partitions=(TopicPartition(CONSUMER_OFFSETS, number),),
    )
    transactions.run(message.transactional_id, command)


def _answer(request: Request, error: ErrorCode) -> None:
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error})


API = Api(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    versions=range(5),
    handle=handle,
    access=(
        Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id", refuse=_answer),
        Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_answer),
    ),
)
