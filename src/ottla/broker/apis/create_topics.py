"""CreateTopics (19), v2-7: creates topics, each with its own result.

Version notes: v5+ returns the partition count, the replication factor and the effective settings (KIP-525); v7+ the topic's id.
"""

import uuid
from collections import Counter
from collections.abc import Generator, Sequence
from itertools import chain
from typing import Any, Final

from ottla.broker.cluster.topics import Topics
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request, Session
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.broker.network.throttling import EXCEEDED, Throttling
from ottla.config import TOPIC_SETTINGS
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.config_changes import SUGGESTIONS_MAX, suggestion
from ottla.metadata.resource_configs import TOPIC_RESOURCE
from ottla.metadata.topic_changes import PARTITIONS_PER_REQUEST_MAX, requested_partitions
from ottla.metadata.topics import NewTopic, Topic
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

_FIRST_VERSION_WITH_CONFIGS: Final = 5
_TOO_MANY: Final = ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def handle(
    request: Request, *, cluster_metadata: ClusterMetadata, cluster_topics: Topics, scheduler: RequestScheduler, throttling: Throttling
) -> None:
    """Answer with one result a topic; a name that is given twice is refused, once. All topics together are bounded, as in Kafka."""
    scheduler.run(request, _answer(cluster_metadata, cluster_topics, throttling, request))


def _answer(cluster_metadata: ClusterMetadata, cluster_topics: Topics, throttling: Throttling, request: Request) -> Work:
    times = Counter(topic.name for topic in request.message.topics)
    twice = [name for name, count in times.items() if count > 1]
    news = [_new(asked) for asked in request.message.topics if times[asked.name] == 1]
    if sum(requested_partitions(cluster_metadata, new) for new in news) > PARTITIONS_PER_REQUEST_MAX:
        made: list[Topic | ApiError] = [_TOO_MANY] * len(news)
    elif throttling.is_active:
        made = yield from _measured(cluster_metadata, cluster_topics, throttling, request, news)
    elif request.message.validate_only:
        made = yield from _validate(cluster_topics, news)
    else:
        made = yield from cluster_topics.create_in_pieces(news)
    with_configs = request.version >= _FIRST_VERSION_WITH_CONFIGS
    refused = (_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in twice)
    with_hints = len(request.message.topics) <= SUGGESTIONS_MAX
    results = (
        _refused(new.name, result.error, result.message + (suggestion(TOPIC_RESOURCE, result) if with_hints else ""))
        if isinstance(result, ApiError)
        else _made(cluster_metadata, request.session, result, with_configs)
        for new, result in zip(news, made)
    )
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": chain(refused, results)})


def _measured(
    cluster_metadata: ClusterMetadata, cluster_topics: Topics, throttling: Throttling, request: Request, news: Sequence[NewTopic]
) -> Generator[None, None, list[Topic | ApiError]]:
    """One topic after the other, as far as the client's quota goes. One that cannot be created takes nothing of it."""
    results: list[Topic | ApiError] = []
    for new in news:
        result = cluster_topics.create(new, validate_only=True)
        if not isinstance(result, ApiError):
            if not throttling.mutate(request, requested_partitions(cluster_metadata, new)):
                result = EXCEEDED
            elif not request.message.validate_only:
                (result,) = yield from cluster_topics.create_in_pieces([new])
        results.append(result)
        yield
    return results


def _validate(cluster_topics: Topics, news: Sequence[NewTopic]) -> Generator[None, None, list[Topic | ApiError]]:
    results = []
    for new in news:
        results.append(cluster_topics.create(new, validate_only=True))
        yield
    return results


def _new(asked: Any) -> NewTopic:
    return NewTopic(
        name=asked.name,
        partitions=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignment={part.partition_index: part.broker_ids for part in asked.assignments},
        configs={config.name: config.value for config in asked.configs},
    )


def _made(cluster_metadata: ClusterMetadata, session: Session, made: Topic, with_configs: bool) -> dict[str, Any]:
    """A topic's settings, and how many partitions it has, are for those who may describe its settings."""
    values = {"name": made.name, "topic_id": uuid.UUID(bytes=made.topic_id), "error_code": ErrorCode.NONE, "error_message": None}
    if with_configs and not session.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, made.name):
        return {**values, "topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "configs": None}
    configs = []
    for name in TOPIC_SETTINGS if with_configs else ():
        value, source = cluster_metadata.value_in_force(made, name)
        configs.append({"name": name, "value": value, "read_only": False, "config_source": source, "is_sensitive": False})
    return {
        **values,
        "num_partitions": len(made.leaders),
        "replication_factor": len(made.replica_assignments[0].replicas),
        "configs": configs,
    }


def _refused(name: str, error: ErrorCode, message: str) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error,
        "error_message": message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def _unauthorized(topic: Any, error: ErrorCode) -> dict[str, Any]:
    return _refused(topic.name, error, "Authorization failed.")


API = Api(
    key=ApiKey.CREATE_TOPICS,
    versions=range(2, 8),
    handle=handle,
    access=(
        Access(Operation.CREATE, ResourceType.TOPIC, "topics[].name", refuse=_unauthorized, answers="topics", or_cluster=Operation.CREATE),
    ),
)
