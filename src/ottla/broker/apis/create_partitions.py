"""CreatePartitions (37), v0-3: increases partition counts; a smaller or equal count is refused with INVALID_PARTITIONS."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ottla.broker.cluster.topics import Topics
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.broker.network.throttling import EXCEEDED, Throttling
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topic_changes import PARTITIONS_PER_REQUEST_MAX
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(
    request: Request, *, cluster_metadata: ClusterMetadata, cluster_topics: Topics, scheduler: RequestScheduler, throttling: Throttling
) -> None:
    """Answer with one result a topic; a name that is given twice is refused, once. New partitions of all topics are bounded together."""
    scheduler.run(request, _answer(cluster_metadata, cluster_topics, throttling, request))


def _answer(cluster_metadata: ClusterMetadata, cluster_topics: Topics, throttling: Throttling, request: Request) -> Work:
    times = Counter(topic.name for topic in request.message.topics)
    refused = (_result(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, count in times.items() if count > 1)
    once = [asked for asked in request.message.topics if times[asked.name] == 1]
    results = chain(refused, _create_all(cluster_metadata, cluster_topics, once, throttling, request))
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "results": results})


def _create_all(
    cluster_metadata: ClusterMetadata, cluster_topics: Topics, topics: Sequence[Any], throttling: Throttling, request: Request
) -> Iterator[dict[str, Any] | None]:
    added = 0
    for asked in topics:
        known = cluster_metadata.topics.get(asked.name)
        new = max(asked.count - len(known.leaders), 0) if known else 0
        added += new
        if added > PARTITIONS_PER_REQUEST_MAX:
            yield _result(asked.name, ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        elif new and not throttling.mutate(request, new):
            yield _result(asked.name, EXCEEDED.error, EXCEEDED.message)
        else:
            yield _create(cluster_topics, asked, request.message.validate_only)
            yield None


def _create(cluster_topics: Topics, asked: Any, validate_only: bool) -> dict[str, Any]:
    assignments = None if asked.assignments is None else [list(part.broker_ids) for part in asked.assignments]
    try:
        refused = cluster_topics.add_partitions(asked.name, asked.count, assignments, validate_only=validate_only)
    except StorageError as error:
        return _result(asked.name, error.code, str(error))
    return _result(asked.name, refused.error, refused.message) if refused else _result(asked.name, ErrorCode.NONE, None)


def _result(name: str, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "error_code": error, "error_message": message}


def _refuse(topic: Any, error: ErrorCode) -> dict[str, Any]:
    return _result(topic.name, error, None)


API = Api(
    key=ApiKey.CREATE_PARTITIONS,
    versions=range(4),
    handle=handle,
    access=(Access(Operation.ALTER, ResourceType.TOPIC, "topics[].name", refuse=_refuse, answers="results"),),
)
