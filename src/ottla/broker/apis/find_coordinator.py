"""FindCoordinator (10), v0-6: which broker serves a group: the leader of its partition of `__consumer_offsets`.

Version notes: v0-3 ask for one key, v4+ for many (KIP-699); v1+ says what kind of key it is. Only groups (type 0) have a coordinator
here. For a transactional id (type 1) the answer is TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the one error that every client takes as final.
"""

from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.missing_features import TRANSACTIONS
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node

GROUP, TRANSACTION, SHARE = 0, 1, 2


def handle(node: "Node", request: Request) -> None:
    """Answers with the broker that coordinates each group; the offsets topic is made at the first question."""
    message = request.message
    key_type = getattr(message, "key_type", GROUP)
    if key_type == TRANSACTION:
        node.cluster.missing_features.report(TRANSACTIONS, request)
    if request.version < 4:
        request.reply({"throttle_time": NO_THROTTLE_MS, **_find(node, message.key, key_type, no_error="NONE")})
        return
    found = (_find(node, key, key_type, no_error="") for key in message.coordinator_keys)
    node.cluster.scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "coordinators": found}))


def _find(node: "Node", key: str, key_type: int, *, no_error: str) -> dict[str, Any]:
    """`no_error` is Kafka's message where there is none: the constant's name, and nothing since there are many answers in one."""
    if key_type == TRANSACTION:
        return _none(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Ottla does not support transactions yet.")
    if key_type != GROUP:
        return _none(key, ErrorCode.INVALID_REQUEST, f"Ottla has no {'share' if key_type == SHARE else 'unknown'} coordinator.")
    try:
        place = node.cluster.leadership.coordinator(key)
    except StorageError as error:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    if place.broker_id is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    endpoint = node.cluster.nodes[place.broker_id].endpoint
    return {
        "key": key,
        "error_code": ErrorCode.NONE,
        "error_message": no_error,
        **endpoint._asdict(),
    }


def _none(key: str, error: ErrorCode, message: str) -> dict[str, Any]:
    return {"key": key, "error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}


API = Api(key=10, versions=range(7), handle=handle)
