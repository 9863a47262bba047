"""FindCoordinator (10), v0-6: which broker serves a group: the leader of its partition of `__consumer_offsets`.

Version notes: v0-3 ask for one key, v4+ for many (KIP-699); v1+ says what kind of key it is. Only groups (type 0) have a coordinator here.
"""

from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.catalogue.catalogue import Refused
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.cluster import Cluster

GROUP = 0


def handle(cluster: "Cluster", request: Request) -> None:
    """Answers with this broker for every group; the offsets topic is made at the first question."""
    message = request.message
    keys = message.coordinator_keys if request.version >= 4 else (message.key,)
    found = [_find(cluster, key, getattr(message, "key_type", GROUP)) for key in keys]
    if request.version >= 4:
        request.reply({"throttle_time": NO_THROTTLE_MS, "coordinators": found})
    else:
        request.reply({"throttle_time": NO_THROTTLE_MS, **found[0]})


def _find(cluster: "Cluster", key: str, key_type: int) -> dict[str, Any]:
    if key_type != GROUP:
        kind = {1: "transaction", 2: "share group"}.get(key_type, "unknown")
        return _none(key, ErrorCode.INVALID_REQUEST, f"Ottla has no {kind} coordinator.")
    try:
        partition = cluster.groups.partition_of(key)
    except StorageError as error:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    if isinstance(partition, Refused):
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, partition.message)
    return {
        "key": key,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "node_id": cluster.config.node_id,
        "host": cluster.host,
        "port": cluster.port,
    }


def _none(key: str, error: ErrorCode, message: str) -> dict[str, Any]:
    return {"key": key, "error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}


API = Api(key=10, versions=range(7), handle=handle)
