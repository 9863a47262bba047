"""ListTransactions (66), v0-2: the transactional ids of this broker's coordinators (KIP-664).

Version notes: v1+ filters by how long a transaction is open (KIP-994), v2+ by a regular expression of the id, in RE2's syntax (KIP-1152).
"""

from collections.abc import Callable
from typing import Any

from ottla.broker.coordination.transactions import TransactionRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.groups.consumer.patterns import InvalidPattern, compile_pattern
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.transactions.commands import ListTransactions, Result, TransactionDescription, TransactionsResult
from ottla.transactions.states import BY_NAME


def handle(request: Request, *, clock: Callable[[], int], transactions: TransactionRouter, scheduler: RequestScheduler) -> None:
    """Ask every coordinator and answer with what they have between them, in pieces. Unknown states are named and match nothing."""
    message, session = request.message, request.session
    states, producer_ids = set(message.state_filters), set(message.producer_id_filters)
    unknown = [state for state in dict.fromkeys(message.state_filters) if state not in BY_NAME]
    longer_than_ms = getattr(message, "duration_filter", -1)
    pattern = getattr(message, "transactional_id_pattern", None)
    try:
        matches = compile_pattern(pattern).fullmatch if pattern else None
    except InvalidPattern:
        _refuse(request, ErrorCode.INVALID_REGULAR_EXPRESSION)
        return
    results: list[TransactionsResult] = []

    def take(result: Result) -> None:
        assert isinstance(result, TransactionsResult)
        results.append(result)

    for loop in transactions.coordinators.all():
        loop.run(ListTransactions(reply_to=transactions.expect_reply(take, request)))
    error = next((result.error for result in results if result.error is not ErrorCode.NONE), ErrorCode.NONE)
    if error is not ErrorCode.NONE:
        _refuse(request, error)
        return
    now_ms = clock()

    def is_listed(found: TransactionDescription) -> bool:
        return (
            (not states or found.state.shown in states)
            and (not producer_ids or found.producer_id in producer_ids)
            and (longer_than_ms < 0 or now_ms - found.start_ms > longer_than_ms)
            and (matches is None or matches(found.transactional_id) is not None)
            and session.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, found.transactional_id)
        )

    listed = (_state(found) for result in results for found in result.transactions if is_listed(found))
    values = {"error_code": error, "unknown_state_filters": unknown, "transaction_states": listed}
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, **values}))


def _state(found: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "transaction_state": found.state.shown,
    }


def _refuse(request: Request, error: ErrorCode) -> None:
    values = {"error_code": error, "unknown_state_filters": (), "transaction_states": ()}
    request.reply({"throttle_time": NO_THROTTLE_MS, **values})


API = Api(
    key=ApiKey.LIST_TRANSACTIONS,
    versions=range(3),
    handle=handle,
    access=(Access(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
)
