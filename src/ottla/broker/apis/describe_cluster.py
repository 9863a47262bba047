"""DescribeCluster (60), v0-2: the cluster's id, its brokers and its controller.

Version notes: v1+ requests brokers (endpoint type 1) or controllers (2); there is no controller listener, and the
error is that of a Kafka broker.
"""

from typing import Any

from ottla.broker.cluster.brokers import Brokers
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS, OPERATIONS_NOT_ASKED_FOR
from ottla.broker.protocol.request import Request
from ottla.core.errors import ErrorCode
from ottla.core.wire.api_keys import ApiKey

BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


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
            "brokers": [] if error else _running(brokers, getattr(request.message, "include_fenced_brokers", False)),
            "cluster_authorized_operations": CLUSTER_OPERATIONS
            if request.message.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED_FOR,
        }
    )


def _running(brokers: Brokers, with_fenced: bool) -> list[dict[str, Any]]:
    return [
        {"broker_id": each.id, "host": each.host, "port": each.port, "rack": None, "is_fenced": not each.is_alive}
        for each in brokers.nodes.values()
        if each.is_alive or with_fenced
    ]


API = Api(key=ApiKey.DESCRIBE_CLUSTER, versions=range(3), handle=handle)
