"""DescribeCluster (60), v0-2: the cluster's id, its brokers and its controller.

Version notes: v1+ requests brokers (endpoint type 1) or controllers (2); there is no controller listener, and the
error is that of a Kafka broker.
"""

from typing import Any

from ottla.broker.cluster.brokers import Brokers
from ottla.broker.network.request import NO_THROTTLE_MS, Api, Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import OPERATIONS_NOT_ASKED_FOR

BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2


def handle(request: Request, *, brokers: Brokers, cluster_id: str) -> None:
    """Answer with every broker that runs, and on request with those that do not (v2+, KIP-1073)."""
    endpoint_type = getattr(request.message, "endpoint_type", BROKER_ENDPOINTS)
    error = ErrorCode.NONE
    if endpoint_type != BROKER_ENDPOINTS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if endpoint_type == CONTROLLER_ENDPOINTS else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    message = None if error is ErrorCode.NONE else "The request was sent to an endpoint of the wrong type: this is a broker's."
    request.reply(
        {
            "throttle_time": NO_THROTTLE_MS,
            "error_code": error,
            "error_message": message,
            "endpoint_type": BROKER_ENDPOINTS,
            "cluster_id": "" if error else cluster_id,
            "controller_id": -1 if error else brokers.controller_id,
            "brokers": [] if error else _brokers(request, brokers),
            "cluster_authorized_operations": request.session.cluster_operations()
            if request.message.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED_FOR,
        }
    )


def _brokers(request: Request, brokers: Brokers) -> list[dict[str, Any]]:
    with_fenced = bool(getattr(request.message, "include_fenced_brokers", False))
    return [
        {"broker_id": node.id, "host": endpoint.host, "port": endpoint.port, "rack": None, "is_fenced": not node.is_alive}
        for node in brokers.nodes.values()
        if (node.is_alive or with_fenced) and (endpoint := request.session.endpoint(node.id)) is not None
    ]


API = Api(key=ApiKey.DESCRIBE_CLUSTER, versions=range(3), handle=handle, access=())
