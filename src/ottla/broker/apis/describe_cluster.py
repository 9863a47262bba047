"""DescribeCluster (60), v0-2: the cluster's id, its brokers and its controller.

Version notes: v1+ asks for brokers (endpoint type 1) or controllers (2); we have no controller listener, and say so as a Kafka broker does.
"""

from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, OPERATIONS_NOT_ASKED_FOR, Api, Request
from ottla.core.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.cluster_state import ClusterState
    from ottla.broker.node import Node

BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


def handle(node: "Node", request: Request) -> None:
    """Answers with every broker that runs, and on request with those that do not (v2+, KIP-1073)."""
    cluster = node.cluster
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
            "cluster_id": "" if error else cluster.cluster_id,
            "controller_id": -1 if error else cluster.controller_id,
            "brokers": [] if error else _brokers(cluster, getattr(request.message, "include_fenced_brokers", False)),
            "cluster_authorized_operations": CLUSTER_OPERATIONS
            if request.message.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED_FOR,
        }
    )


def _brokers(cluster: "ClusterState", with_fenced: bool) -> list[dict[str, Any]]:
    return [
        {"broker_id": each.id, "host": each.host, "port": each.port, "rack": None, "is_fenced": not each.is_alive}
        for each in cluster.nodes.values()
        if each.is_alive or with_fenced
    ]


API = Api(key=60, versions=range(3), handle=handle)
