"""AlterClientQuotas (49), v0-1: sets and removes quotas of users, client ids and addresses; all that can be are one change.

Version notes: v1+ is flexible.
"""

from collections import Counter
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from ottla.broker.metadata_log import MetadataLog
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.metadata.client_quotas import ClientQuotas
from ottla.metadata.records import ClientQuotaRecord
from ottla.protocol.errors import ApiError, ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, metadata_log: MetadataLog) -> None:
    """Answer with one result an entity, when the change is durable."""
    quotas = metadata_log.cluster_metadata.client_quotas
    times = Counter(_entity(each) for each in request.message.entries)
    records: list[ClientQuotaRecord] = []
    results: list[tuple[Any, ApiError | None]] = []
    for each in request.message.entries:
        decided = _decide(quotas, each, is_repeated=times[_entity(each)] > 1)
        if isinstance(decided, ApiError):
            results.append((each, decided))
        else:
            records += decided
            results.append((each, None))
    if not request.message.validate_only:
        try:
            metadata_log.append(records)
        except StorageError as error:
            results = [(each, refused or ApiError(error.code, str(error))) for each, refused in results]
    _answer(request, results)


def _decide(quotas: ClientQuotas, entry: Any, *, is_repeated: bool) -> list[ClientQuotaRecord] | ApiError:
    entity = [(each.entity_type, each.entity_name) for each in entry.entity]
    keys = Counter(op.key for op in entry.ops)
    repeated = [key for key, count in keys.items() if count > 1]
    if repeated:
        text = f"Duplicate quota key {repeated[0]} not updating quota for this entity {_text(dict(entity))}"
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    if is_repeated:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {_text(dict(entity))}")
    return quotas.alter(entity, {op.key: None if op.remove else op.value for op in entry.ops}, _is_address)


def _entity(entry: Any) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(((each.entity_type, each.entity_name) for each in entry.entity), key=str))


def _text(entity: Mapping[str, str | None]) -> str:
    """As Java prints a ClientQuotaEntity."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity.items())
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _is_address(text: str) -> bool:
    """No names: the broker's loop does not wait for a resolver."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _answer(request: Request, results: list[tuple[Any, ApiError | None]]) -> None:
    entries = [
        {
            "error_code": refused.error if refused else ErrorCode.NONE,
            "error_message": refused.message if refused else None,
            "entity": [{"entity_type": each.entity_type, "entity_name": each.entity_name} for each in entry.entity],
        }
        for entry, refused in results
    ]
    request.reply({"throttle_time": NO_THROTTLE_MS, "entries": entries})


def _refuse(request: Request, error: ErrorCode) -> None:
    _answer(request, [(entry, ApiError(error, "Cluster authorization failed.")) for entry in request.message.entries])


API = Api(
    key=ApiKey.ALTER_CLIENT_QUOTAS,
    versions=range(2),
    handle=handle,
    elements_max=10_000,
    access=(Access(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, refuse=_refuse),),
)
