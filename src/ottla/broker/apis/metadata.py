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
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.config import BrokerConfig
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.leadership import in_sync
from ottla.metadata.records import NO_LEADER
from ottla.metadata.topics import INTERNAL_TOPICS, Topic, may_be_auto_created, topic_name_problem
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import OPERATIONS_NOT_ASKED_FOR, Operation, ResourceType

_FIRST_VERSION_WITH_LISTENER_ERRORS: Final = 6
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
        message, session = request.message, request.session
        wants_all = message.topics is None or (request.version == 0 and not message.topics)
        endpoints = [endpoint for endpoint in map(session.endpoint, sorted(self._cluster_metadata.live_ids)) if endpoint is not None]
        running = [{**endpoint._asdict(), "rack": None} for endpoint in endpoints]
        reachable = {endpoint.node_id for endpoint in endpoints}
        error, shown_id, controller_id = ErrorCode.NONE, self._cluster_id or None, self._brokers.controller_id
        topics: Iterable[dict[str, Any] | None]
        if wants_all:
            topics = (
                self._topic(request, topic, reachable)
                for topic in list(self._cluster_metadata.topics.values())
                if session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, log_if_denied=False)
            )
        elif _is_invalid(request.version, message.topics):
            error, shown_id, controller_id, running = ErrorCode.INVALID_REQUEST, None, -1, []
            topics = [_error(asked.name or "", error, getattr(asked, "topic_id", None)) for asked in message.topics]
        else:
            may_create = bool(getattr(message, "allow_auto_topic_creation", True)) and self._config.flag("auto.create.topics.enable")
            topics = self._asked(request, may_create, reachable)
        cluster_operations = bool(getattr(message, "include_cluster_authorized_operations", False))
        yield from request.reply_in_pieces(
            {
                "throttle_time": NO_THROTTLE_MS,
                "brokers": running,
                "cluster_id": shown_id,
                "controller_id": controller_id,
                "topics": topics,
                "cluster_authorized_operations": session.cluster_operations() if cluster_operations else OPERATIONS_NOT_ASKED_FOR,
                "error_code": error,
            }
        )

    def _asked(self, request: Request, may_create: bool, reachable: set[int]) -> Iterator[dict[str, Any] | None]:
        """Each topic once, however often it is requested.

        One that this request creates is unknown in its response and there in the next, as in Kafka, whose controller creates it meanwhile.
        """
        topics, session = request.message.topics, request.session
        ids = dict.fromkeys(asked.topic_id for asked in topics if asked.name is None)
        names = dict.fromkeys(asked.name for asked in topics if asked.name is not None)
        for topic_id in ids:
            by_id = self._cluster_metadata.topics_by_id.get(topic_id.bytes)
            if by_id is None:
                yield _error(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
            elif session.may(Operation.DESCRIBE, ResourceType.TOPIC, by_id.name):
                yield self._topic(request, by_id, reachable)
            else:
                yield _error(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id)
        unauthorized = {name for name in names if not session.may(Operation.DESCRIBE, ResourceType.TOPIC, name)}
        refused: Mapping[str, ErrorCode] = {}
        unshown: set[str] = set()
        if may_create:
            missing = [
                name
                for name in names
                if name not in self._cluster_metadata.topics and name not in unauthorized and may_be_auto_created(name)
            ]
            if missing and not session.may(Operation.CREATE, ResourceType.CLUSTER, log_if_denied=False):
                unauthorized |= {name for name in missing if not session.may(Operation.CREATE, ResourceType.TOPIC, name)}
                missing = [name for name in missing if name not in unauthorized]
            refused = (yield from self._cluster_topics.ensure_in_pieces(missing)) if missing else {}
            if not self._cluster_topics.are_shown_at_once:
                unshown.update(missing)
        for name in names:
            topic = self._cluster_metadata.topics.get(name)
            if name in unauthorized:
                yield _error(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif topic is not None and name not in unshown:
                yield self._topic(request, topic, reachable)
            else:
                invalid = topic_name_problem(name) is not None
                error = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                error, is_internal = refused.get(name, error), name in INTERNAL_TOPICS and name not in refused
                yield _error(name, error, is_internal=is_internal, operations=_operations(request, name))

    def _topic(self, request: Request, topic: Topic, reachable: set[int]) -> dict[str, Any]:
        return {
            "error_code": ErrorCode.NONE,
            "name": topic.name,
            "topic_id": uuid.UUID(bytes=topic.topic_id),
            "is_internal": topic.is_internal,
            "partitions": self._partitions(topic, reachable, request.version),
            "topic_authorized_operations": _operations(request, topic.name),
        }

    def _partitions(self, topic: Topic, reachable: set[int], version: int) -> Iterator[dict[str, Any]]:
        """A leader that does not advertise the listener is none to its clients."""
        no_listener = ErrorCode.LISTENER_NOT_FOUND if version >= _FIRST_VERSION_WITH_LISTENER_ERRORS else ErrorCode.LEADER_NOT_AVAILABLE
        live_ids = self._cluster_metadata.live_ids
        for number, (leader, leader_epoch, home) in enumerate(zip(topic.leaders, topic.leader_epochs, topic.replica_assignments)):
            is_reachable = leader in reachable
            error = ErrorCode.NONE if is_reachable else ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else no_listener
            yield {
                "error_code": error,
                "partition_index": number,
                "leader_id": leader if is_reachable else NO_LEADER,
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


def _operations(request: Request, name: str) -> int:
    """What the client may do with a topic, whether it exists or not, if it asks."""
    if not getattr(request.message, "include_topic_authorized_operations", False):
        return OPERATIONS_NOT_ASKED_FOR
    return request.session.operations(ResourceType.TOPIC, name)


def _error(
    name: str | None,
    error: ErrorCode,
    topic_id: uuid.UUID | None = None,
    *,
    is_internal: bool = False,
    operations: int = OPERATIONS_NOT_ASKED_FOR,
) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id,
        "is_internal": is_internal,
        "partitions": [],
        "topic_authorized_operations": operations,
    }


API = Api(
    key=ApiKey.METADATA,
    versions=range(14),
    handle=Metadata,
    access=(
        Access(Operation.DESCRIBE, ResourceType.TOPIC, "topics[].name"),
        Access(Operation.CREATE, ResourceType.TOPIC, "topics[].name", or_cluster=Operation.CREATE),
    ),
)
