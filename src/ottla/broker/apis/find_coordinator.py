"""FindCoordinator (10), v0-6: the broker that serves a group or a transactional id.

Version notes: v0-3 request one key, v4+ many (KIP-699); v1+ carries the key's type: a group (0), or a transactional id (1).
"""

from typing import Any

from ottla.broker.cluster.leadership import Leadership
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request, Session
from ottla.broker.network.scheduling import RequestScheduler
from ottla.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

GROUP, TRANSACTION, SHARE = 0, 1, 2
_TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
"""The topics whose partitions have the coordinators."""


def handle(request: Request, *, leadership: Leadership, scheduler: RequestScheduler) -> None:
    """Answer with the broker that coordinates each key; the first request creates the topic of its kind."""
    message = request.message
    key_type = getattr(message, "key_type", GROUP)
    if request.version < 4:
        request.reply({"throttle_time": NO_THROTTLE_MS, **_find(request.session, leadership, message.key, key_type, no_error="NONE")})
        return
    found = (_find(request.session, leadership, key, key_type, no_error="") for key in message.coordinator_keys)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "coordinators": found}))


def _find(session: Session, leadership: Leadership, key: str, key_type: int, *, no_error: str) -> dict[str, Any]:
    """`no_error` is Kafka's message where there is none: the constant's name, and nothing since there are many answers in one."""
    if key_type == TRANSACTION and not session.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
        return _none(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed.")
    if key_type == GROUP and not session.may(Operation.DESCRIBE, ResourceType.GROUP, key):
        return _none(key, ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
    if key_type not in _TOPICS:
        return _none(key, ErrorCode.INVALID_REQUEST, f"Ottla has no {'share' if key_type == SHARE else 'unknown'} coordinator.")
    try:
        place = leadership.coordinator(key, _TOPICS[key_type])
    except StorageError as error:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    endpoint = None if place.broker_id is None else session.endpoint(place.broker_id)
    if endpoint is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return {
        "key": key,
        "error_code": ErrorCode.NONE,
        "error_message": no_error,
        **endpoint._asdict(),
    }


def _none(key: str, error: ErrorCode, message: str) -> dict[str, Any]:
    return {"key": key, "error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}


API = Api(
    key=ApiKey.FIND_COORDINATOR,
    versions=range(7),
    handle=handle,
    access=(
        Access(Operation.DESCRIBE, ResourceType.GROUP, "coordinator_keys[]"),
        Access(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "coordinator_keys[]"),
    ),
)
