"""DescribeAcls (29), v1-3: the access control entries that a filter means, by resource.

Version notes: v2+ is flexible; v3+ knows the resource type USER (KIP-373).
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Authorizer, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.metadata.acls import filter_of
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.security.acls import Acl


def handle(request: Request, *, authorizer: Authorizer | None, cluster_metadata: ClusterMetadata, scheduler: RequestScheduler) -> None:
    """Answer with the entries, in pieces."""
    if authorizer is None:
        _reject(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
        return
    found = cluster_metadata.acls.matching(filter_of(request.message))
    values = {"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "error_message": None, "resources": _resources(found)}
    scheduler.run(request, request.reply_in_pieces(values))


def _resources(acls: list[Acl]) -> Iterator[dict[str, Any]]:
    for (kind, name, pattern), group in groupby(acls, key=lambda acl: acl[:3]):
        yield {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": [_entry(acl) for acl in group]}


def _entry(acl: Acl) -> dict[str, Any]:
    return {"principal": acl.principal, "host": acl.host, "operation": acl.operation, "permission_type": acl.permission}


def _reject(request: Request, error: ErrorCode, message: str) -> None:
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "error_message": message, "resources": []})


def _refuse(request: Request, error: ErrorCode) -> None:
    _reject(request, error, "Cluster authorization failed.")


API = Api(
    key=ApiKey.DESCRIBE_ACLS,
    versions=range(1, 4),
    handle=handle,
    access=(Access(Operation.DESCRIBE, ResourceType.CLUSTER, refuse=_refuse),),
)
