"""Metadata (3), v0-13: brokers, and the requested topics with their partitions' leaders; may create topics.

Version notes: v0 requests all topics with an empty list, v1+ with null; v4+ says whether topics may be created (before: yes); v8-10 carry
the cluster's authorized operations; v10+ topic ids, v12+ topics by id alone: before, a topic without a name or with an id makes the whole
request invalid.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.broker.cluster.brokers import Brokers
from ottla.broker.cluster.topics import Topics
from ottla.broker.network.request_scheduler import RequestScheduler, Work
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS, OPERATIONS_NOT_ASKED_FOR, TOPIC_OPERATIONS
from ottla.broker.protocol.request import Request
from ottla.core.config import BrokerConfig
from ottla.core.errors import ErrorCode
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.leadership import in_sync
from ottla.core.metadata.records import NO_LEADER
from ottla.core.metadata.topics import Topic, may_be_auto_created, topic_name_problem
from ottla.core.wire.api_keys import ApiKey

# Bit n is set for ACL operation n: what the resource type allows, since there are no ACLs yet.
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))

_VERSIONS_WITHOUT_TOPIC_IDS_ALONE: Final = (10, 11)


class Metadata:
    """What Metadata uses of one broker."""

    def __init__(
        self,
        *,
        brokers: Brokers,
        cluster_id: str,
        cluster_metadata: ClusterMetadata,
        cluster_topics: Topics,
        config: BrokerConfig,
        scheduler: RequestScheduler,
    ) -> None:
        self._brokers = brokers
        self._cluster_id = cluster_id
        self._cluster_metadata = cluster_metadata
        self._cluster_topics = cluster_topics
        self._config = config
        self._scheduler = scheduler

    def handle(self, request: Request) -> None:
        """Answer with the brokers that run, and the topics, in pieces: a topic may have thousands of partitions."""
        self._scheduler.run(request, self._answer(request))

    def _answer(self, request: Request) -> Work:
        message = request.message
        wants_all = message.topics is None or (request.version == 0 and not message.topics)
        with_operations = bool(getattr(message, "include_topic_authorized_operations", False))
        running = [{**each.endpoint._asdict(), "rack": None} for each in self._brokers.nodes.values() if each.is_alive]
        error, shown_id, controller_id = ErrorCode.NONE, self._cluster_id or None, self._brokers.controller_id
        topics: Iterable[dict[str, Any] | None]
        if wants_all:
            topics = (self._topic(topic, with_operations) for topic in list(self._cluster_metadata.topics.values()))
        elif _is_invalid(request.version, message.topics):
            error, shown_id, controller_id, running = ErrorCode.INVALID_REQUEST, None, -1, []
            topics = [_error(asked.name or "", error, getattr(asked, "topic_id", None)) for asked in message.topics]
        else:
            may_create = bool(getattr(message, "allow_auto_topic_creation", True)) and self._config.flag("auto.create.topics.enable")
            topics = self._asked(message.topics, may_create, with_operations)
        cluster_operations = bool(getattr(message, "include_cluster_authorized_operations", False))
        yield from request.reply_in_pieces(
            {
                "throttle_time": NO_THROTTLE_MS,
                "brokers": running,
                "cluster_id": shown_id,
                "controller_id": controller_id,
                "topics": topics,
                "cluster_authorized_operations": CLUSTER_OPERATIONS if cluster_operations else OPERATIONS_NOT_ASKED_FOR,
                "error_code": error,
            }
        )

    def _asked(self, topics: Sequence[Any], may_create: bool, with_operations: bool) -> Iterator[dict[str, Any] | None]:
        """Each topic once, however often it is requested."""
        ids = dict.fromkeys(asked.topic_id for asked in topics if asked.name is None)
        names = dict.fromkeys(asked.name for asked in topics if asked.name is not None)
        for topic_id in ids:
            by_id = self._cluster_metadata.topics_by_id.get(topic_id.bytes)
            yield self._topic(by_id, with_operations) if by_id else _error(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
        refused: Mapping[str, ErrorCode] = {}
        if may_create:
            missing = [name for name in names if name not in self._cluster_metadata.topics and may_be_auto_created(name)]
            refused = (yield from self._cluster_topics.ensure_in_pieces(missing)) if missing else {}
        for name in names:
            topic = self._cluster_metadata.topics.get(name)
            if topic is not None:
                yield self._topic(topic, with_operations)
            elif name in refused:
                yield _error(name, refused[name])
            else:
                invalid = topic_name_problem(name) is not None
                yield _error(name, ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _topic(self, topic: Topic, with_operations: bool) -> dict[str, Any]:
        return {
            "error_code": ErrorCode.NONE,
            "name": topic.name,
            "topic_id": uuid.UUID(bytes=topic.topic_id),
            "is_internal": topic.is_internal,
            "partitions": self._partitions(topic),
            "topic_authorized_operations": TOPIC_OPERATIONS if with_operations else OPERATIONS_NOT_ASKED_FOR,
        }

    def _partitions(self, topic: Topic) -> Iterator[dict[str, Any]]:
        live_ids = self._cluster_metadata.live_ids
        for number, (leader, leader_epoch, home) in enumerate(zip(topic.leaders, topic.leader_epochs, topic.replica_assignments)):
            yield {
                "error_code": ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
                "partition_index": number,
                "leader_id": leader,
                "leader_epoch": leader_epoch,
                "replica_nodes": home.replicas,
                "isr_nodes": in_sync(home, live_ids),
                "offline_replicas": tuple(each for each in home.replicas if each not in live_ids),
            }


def _is_invalid(version: int, topics: Sequence[Any]) -> bool:
    """Whether a topic is not named as the version asks for: then nothing of the request is answered, as in Kafka."""
    if version in _VERSIONS_WITHOUT_TOPIC_IDS_ALONE:
        return any(asked.name is None or asked.topic_id for asked in topics)
    return any(asked.name is None and not asked.topic_id for asked in topics)


def _error(name: str | None, error: ErrorCode, topic_id: uuid.UUID | None = None) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": OPERATIONS_NOT_ASKED_FOR,
    }


API = Api(key=ApiKey.METADATA, versions=range(14), handle=Metadata)
