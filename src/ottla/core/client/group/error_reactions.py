"""How a member reacts to each error code of the group APIs, as tables (Kafka: the response handlers of `AbstractCoordinator`).

An error that a table does not name fails the call of the application, unless it is retriable.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from ottla.core.errors import ErrorCode as E


class Reaction(Enum):
    """What a member does after an error."""

    RETRY_LATER = "retry after retry.backoff.ms"
    REJOIN = "join again"
    FORGET_GENERATION = "forget the generation, keep the member id, and join again"
    FORGET_MEMBER = "forget generation and member id, and join again"
    TAKE_MEMBER_ID = "join again with the member id of the response"
    FIND_COORDINATOR = "find the coordinator again"
    FAIL = "raise the error in the application's next call"
    IGNORE = "count the request as failed, and send the next one after a back-off"


_COORDINATOR_GONE: Final[dict[E, Reaction]] = {
    E.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    E.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
}
RETRIABLE: Final = frozenset({E.COORDINATOR_LOAD_IN_PROGRESS, E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR})
"""Errors after which the same request may succeed a little later."""

JOIN: Final[Mapping[E, Reaction]] = _COORDINATOR_GONE | {
    E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
    E.MEMBER_ID_REQUIRED: Reaction.TAKE_MEMBER_ID,
    E.REBALANCE_IN_PROGRESS: Reaction.RETRY_LATER,
}
SYNC: Final[Mapping[E, Reaction]] = _COORDINATOR_GONE | {
    E.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
}
HEARTBEAT: Final[Mapping[E, Reaction]] = _COORDINATOR_GONE | {
    E.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
    E.FENCED_INSTANCE_ID: Reaction.FAIL,
    E.GROUP_AUTHORIZATION_FAILED: Reaction.FAIL,
}


def reaction(table: Mapping[E, Reaction], error: E) -> Reaction:
    """The reaction to an error of a request whose errors `table` names."""
    if error in table:
        return table[error]
    if table is HEARTBEAT:
        return Reaction.IGNORE
    return Reaction.RETRY_LATER if error in RETRIABLE else Reaction.FAIL
