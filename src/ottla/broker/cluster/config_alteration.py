"""Changes of settings, resource by resource, as AlterConfigs and IncrementalAlterConfigs ask for them."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ottla.broker.cluster.topics import Topics
from ottla.core.config import DYNAMIC_BROKER_SETTINGS, shown
from ottla.core.errors import ApiError, ErrorCode, StorageError
from ottla.core.metadata.config_changes import DELETE, SUGGESTIONS_MAX, Change, resource_problem, suggestion, without_effect
from ottla.core.suggestions import did_you_mean

log = logging.getLogger(__name__)


def alter_resources(
    topics: Topics,
    broker_id: int,
    resources: Sequence[Any],
    changes_of: Callable[[Any], Sequence[Change] | ApiError],
    *,
    validate_only: bool,
) -> Iterator[dict[str, Any] | None]:
    """One result a resource: all of its changes are made, or none. A resource that is named twice is refused, as in Kafka."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        refused: ApiError | None
        if times[kind, name] == 1:
            refused = _alter(topics, broker_id, resource, changes_of, validate_only=validate_only)
            yield None
        else:
            refused = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        hint = suggestion(kind, refused) if refused and len(resources) <= SUGGESTIONS_MAX else ""
        yield {
            "error_code": refused.error if refused else ErrorCode.NONE,
            "error_message": refused.message + hint if refused else None,
            "resource_type": kind,
            "resource_name": name,
        }


def _alter(
    topics: Topics, broker_id: int, resource: Any, changes_of: Callable[[Any], Sequence[Change] | ApiError], *, validate_only: bool
) -> ApiError | None:
    kind, name = resource.resource_type, resource.resource_name
    refused = resource_problem(kind, name, broker_id, [config.name for config in resource.configs])
    if refused is not None:
        return refused
    changes = changes_of(resource)
    if isinstance(changes, ApiError):
        return changes
    try:
        refused = topics.alter_config(kind, name, changes, validate_only=validate_only)
    except StorageError as error:
        return ApiError(error.code, str(error))
    if refused is None and not validate_only:
        _warn(kind, [name for name, operation, _ in changes if operation != DELETE])
    return refused


def _warn(kind: int, names: Sequence[str]) -> None:
    unknown = without_effect(kind, names)
    for name in unknown[:SUGGESTIONS_MAX]:
        hint = did_you_mean(name, DYNAMIC_BROKER_SETTINGS)
        log.warning("a broker config was set that is unknown, and that has no effect: %s%s", shown(name), hint)
    if len(unknown) > SUGGESTIONS_MAX:
        log.warning("%d more broker configs were set that have no effect", len(unknown) - SUGGESTIONS_MAX)
