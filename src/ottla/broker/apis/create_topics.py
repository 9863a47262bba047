"""CreateTopics (19), v2-7: makes topics, each with its own result.

Version notes: v5+ answers with the partition count, the replicas and the settings in force (KIP-525); v7+ with the topic's id.
"""

import uuid
from collections import Counter
from collections.abc import Generator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.request_scheduler import Work
from ottla.core.catalogue.catalogue import PARTITIONS_PER_REQUEST_MAX, NewTopic, Topic
from ottla.core.catalogue.resource_configs import SUGGESTIONS_MAX, TOPIC_RESOURCE, Refused, suggestion
from ottla.core.config import TOPIC_SETTINGS
from ottla.core.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.node import Node

_FIRST_VERSION_WITH_CONFIGS: Final = 5
_TOO_MANY: Final = Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def handle(node: "Node", request: Request) -> None:
    """Answers with one result a topic; a name that is given twice is refused, once. All topics together are bounded, as in Kafka."""
    node.cluster.scheduler.run(request, _answer(node, request))


def _answer(node: "Node", request: Request) -> Work:
    times = Counter(topic.name for topic in request.message.topics)
    twice = [name for name, count in times.items() if count > 1]
    news = [_new(asked) for asked in request.message.topics if times[asked.name] == 1]
    if sum(map(node.cluster.catalogue.partitions_asked_for, news)) > PARTITIONS_PER_REQUEST_MAX:
        made: list[Topic | Refused] = [_TOO_MANY] * len(news)
    elif request.message.validate_only:
        made = yield from _validate(node, news)
    else:
        made = yield from node.cluster.topics.create_in_pieces(news)
    with_configs = request.version >= _FIRST_VERSION_WITH_CONFIGS
    refused = (_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in twice)
    with_hints = len(request.message.topics) <= SUGGESTIONS_MAX
    results = (
        _refused(new.name, result.error, result.message + (suggestion(TOPIC_RESOURCE, result) if with_hints else ""))
        if isinstance(result, Refused)
        else _made(node, result, with_configs)
        for new, result in zip(news, made)
    )
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": chain(refused, results)})


def _validate(node: "Node", news: Sequence[NewTopic]) -> Generator[None, None, list[Topic | Refused]]:
    results = []
    for new in news:
        results.append(node.cluster.topics.create(new, validate_only=True))
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


def _made(node: "Node", made: Topic, with_configs: bool) -> dict[str, Any]:
    configs = []
    for name in TOPIC_SETTINGS if with_configs else ():
        value, source = node.cluster.catalogue.value_in_force(made, name)
        configs.append({"name": name, "value": value, "read_only": False, "config_source": source, "is_sensitive": False})
    return {
        "name": made.name,
        "topic_id": uuid.UUID(bytes=made.topic_id),
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "num_partitions": len(made.leaders),
        "replication_factor": len(made.homes[0].replicas),
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


API = Api(key=19, versions=range(2, 8), handle=handle)
