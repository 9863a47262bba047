"""DescribeTransactions (65), v0: the state, producer and partitions of transactional ids (KIP-664)."""

from collections.abc import Iterable, Iterator
from typing import Any

from ottla.broker.coordination.transactions import TransactionMarkers, TransactionRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.transactions.commands import DescribeTransaction, Result, TransactionDescription
from ottla.transactions.records import grouped
from ottla.transactions.states import PREPARED


def handle(request: Request, *, transactions: TransactionRouter, markers: TransactionMarkers, scheduler: RequestScheduler) -> None:
    """Ask the coordinator of each id, in pieces. An id that is named twice is described once.

    Of a transaction that is ending, the partitions are named that have no marker yet.
    """
    described = _described(transactions, markers, request, dict.fromkeys(request.message.transactional_ids))
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "transaction_states": described}))


def _described(
    transactions: TransactionRouter, markers: TransactionMarkers, request: Request, ids: Iterable[str]
) -> Iterator[dict[str, Any]]:
    results: list[Result] = []
    for transactional_id in ids:
        reply_to = transactions.expect_reply(results.append, request)
        transactions.run(transactional_id, DescribeTransaction(reply_to=reply_to, transactional_id=transactional_id))
        result = results.pop()
        assert isinstance(result, TransactionDescription)
        unmarked = markers.without_marker(transactional_id) if result.state in PREPARED else None
        yield _state(request, result, result.partitions if unmarked is None else unmarked)


def _state(request: Request, result: TransactionDescription, named: Iterable[TopicPartition]) -> dict[str, Any]:
    may = request.session.may
    partitions = (name for name in named if may(Operation.DESCRIBE, ResourceType.TOPIC, name.topic))
    return {
        "error_code": result.error,
        "transactional_id": result.transactional_id,
        "transaction_state": result.state.shown if result.error is ErrorCode.NONE else "",
        "transaction_timeout": result.timeout_ms,
        "transaction_start_time": result.start_ms if result.error is ErrorCode.NONE else 0,
        "producer_id": result.producer_id if result.error is ErrorCode.NONE else 0,
        "producer_epoch": result.producer_epoch if result.error is ErrorCode.NONE else 0,
        "topics": [{"topic": topic.topic, "partitions": topic.partition_ids} for topic in grouped(partitions)],
    }


def _refuse(transactional_id: str, error: ErrorCode) -> dict[str, Any]:
    empty = {"transaction_state": "", "transaction_timeout": 0, "transaction_start_time": 0, "topics": ()}
    return {"error_code": error, "transactional_id": transactional_id, "producer_id": 0, "producer_epoch": 0, **empty}


API = Api(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    versions=range(1),
    handle=handle,
    access=(
        Access(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "transactional_ids[]", refuse=_refuse, answers="transaction_states"),
    ),
)
