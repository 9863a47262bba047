"""DeleteAcls (31), v1-3: deletes the access control entries that filters mean, all at once, and returns them.

Version notes: v2+ is flexible; v3+ knows the resource type USER (KIP-373). An entry that two filters mean is deleted once, and in the
results of both.
"""

from typing import Any

from ottla.broker.metadata_log import MetadataLog
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Authorizer, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.metadata.acls import filter_of
from ottla.protocol.errors import ApiError, ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.security.acls import Acl


def handle(request: Request, *, authorizer: Authorizer | None, metadata_log: MetadataLog, scheduler: RequestScheduler) -> None:
    """Answer with one result a filter, when the deletion is durable."""
    if authorizer is None:
        _reject(request, ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."))
        return
    decided = metadata_log.cluster_metadata.acls.delete([filter_of(each) for each in request.message.filters])
    if isinstance(decided, ApiError):
        _reject(request, decided)
        return
    records, found = decided
    try:
        metadata_log.append(records)
    except StorageError as error:
        _reject(request, ApiError(error.code, str(error)))
        return
    results = ({"error_code": ErrorCode.NONE, "error_message": None, "matching_acls": (_matching(acl) for acl in acls)} for acls in found)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "filter_results": results}))


def _matching(acl: Acl) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _reject(request: Request, error: ApiError) -> None:
    refused = {"error_code": error.error, "error_message": error.message, "matching_acls": []}
    request.reply({"throttle_time": NO_THROTTLE_MS, "filter_results": [refused] * len(request.message.filters)})


def _refuse(request: Request, error: ErrorCode) -> None:
    _reject(request, ApiError(error, "Cluster authorization failed."))


API = Api(
    key=ApiKey.DELETE_ACLS,
    versions=range(1, 4),
    handle=handle,
    access=(Access(Operation.ALTER, ResourceType.CLUSTER, refuse=_refuse),),
)
