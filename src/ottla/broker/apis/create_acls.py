"""CreateAcls (30), v1-3: creates access control entries, all valid ones of a request at once.

Version notes: v2+ is flexible; v3+ knows the resource type USER (KIP-373). An entry that is there already succeeds without a record.
"""

import uuid
from typing import Any

from ottla.broker.metadata_log import MetadataLog
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Authorizer, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.metadata.acls import RECORDS_PER_REQUEST_MAX, acl_of
from ottla.protocol.errors import ApiError, ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

_DISABLED = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def handle(request: Request, *, authorizer: Authorizer | None, metadata_log: MetadataLog, scheduler: RequestScheduler) -> None:
    """Answer with one result an entry, when all are durable."""
    scheduler.run(request, _answer(request, authorizer, metadata_log))


def _answer(request: Request, authorizer: Authorizer | None, metadata_log: MetadataLog) -> Work:
    creations = request.message.creations
    if authorizer is None:
        results: list[ApiError | None] = [_DISABLED] * len(creations)
    else:
        acls = [
            acl_of(
                each.resource_type, each.resource_name, each.resource_pattern_type, each.principal, each.host, each.operation,
                each.permission_type,
            )
            for each in creations
        ]  # fmt: skip
        records, refused = metadata_log.cluster_metadata.acls.create(acls, lambda: uuid.uuid4().bytes)
        results = list(refused)
        try:
            metadata_log.append(records)
        except StorageError as error:
            results = [each or ApiError(error.code, str(error)) for each in results]
    yield from _reply(request, results)


def _reply(request: Request, results: list[ApiError | None]) -> Work:
    answers = ({"error_code": each.error if each else ErrorCode.NONE, "error_message": each.message if each else None} for each in results)
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "results": answers})


def _refuse(request: Request, error: ErrorCode) -> None:
    refused: Any = {"error_code": error, "error_message": "Cluster authorization failed."}
    request.reply({"throttle_time": NO_THROTTLE_MS, "results": [refused] * len(request.message.creations)})


API = Api(
    key=ApiKey.CREATE_ACLS,
    versions=range(1, 4),
    handle=handle,
    elements_max=2 * RECORDS_PER_REQUEST_MAX,
    access=(Access(Operation.ALTER, ResourceType.CLUSTER, refuse=_refuse),),
)
