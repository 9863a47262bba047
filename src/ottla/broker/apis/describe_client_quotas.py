"""DescribeClientQuotas (48), v0-1: the quotas of users, client ids and addresses that a filter means.

Version notes: v1+ is flexible.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.metadata.client_quotas import CLIENT_ID, IP, USER, Match
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

_EXACT, _DEFAULT, _ANY = range(3)
_NAMES = {_EXACT: "MATCH_TYPE_EXACT", _DEFAULT: "MATCH_TYPE_DEFAULT", _ANY: "MATCH_TYPE_SPECIFIED"}


def handle(request: Request, *, cluster_metadata: ClusterMetadata) -> None:
    """Answer with the entities, each with its quotas."""
    wanted = _parse(request.message.components)
    if isinstance(wanted, ApiError):
        _reject(request, wanted)
        return
    found = cluster_metadata.client_quotas.matching(wanted, strict=request.message.strict)
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "values": [{"key": key, "value": value} for key, value in sorted(values.items())],
        }
        for entity, values in found
    ]
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "error_message": None, "entries": entries})


def _parse(components: Sequence[Any]) -> list[Match] | ApiError:
    problem = next(_problems(components), None)
    return problem or [Match(each.entity_type, each.match, each.match_type == _ANY) for each in components]


def _problems(components: Sequence[Any]) -> Iterator[ApiError]:
    seen: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            yield ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in seen:
            yield ApiError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        seen.add(kind)
        if kind not in (USER, CLIENT_ID, IP):
            yield ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if each.match_type not in _NAMES:
            yield ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {each.match_type}")
        elif each.match_type == _EXACT and each.match is None:
            yield ApiError(ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
        elif each.match_type != _EXACT and each.match is not None:
            name = _NAMES[each.match_type]
            yield ApiError(ErrorCode.INVALID_REQUEST, f"Request specified {name}, but also specified a match string.")
    if IP in seen and len(seen) > 1:
        yield ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.",
        )


def _reject(request: Request, error: ApiError) -> None:
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error.error, "error_message": error.message, "entries": None})


def _refuse(request: Request, error: ErrorCode) -> None:
    _reject(request, ApiError(error, "Cluster authorization failed."))


API = Api(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    versions=range(2),
    handle=handle,
    access=(Access(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, refuse=_refuse),),
)
