"""DeleteTopics (20), v1-6: deletes topics with their records and the offsets that groups committed for them.

Version notes: v6 takes topics by name or by id; v5+ returns an error message.
"""

import asyncio
import uuid
from collections import Counter
from typing import Any

from ottla.broker.cluster.topics import TopicDeletion
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.broker.network.throttling import EXCEEDED, Throttling
from ottla.broker.partitions.offset_checkpoints import CheckpointDeletions
from ottla.broker.partitions.partitions import Partitions
from ottla.config import BrokerConfig
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


class DeleteTopics:
    """What DeleteTopics uses of one broker."""

    def __init__(
        self,
        *,
        cluster_metadata: ClusterMetadata,
        config: BrokerConfig,
        deletions: CheckpointDeletions,
        partitions: Partitions,
        scheduler: RequestScheduler,
        throttling: Throttling,
        topic_deletion: TopicDeletion,
    ) -> None:
        self._cluster_metadata = cluster_metadata
        self._config = config
        self._deletions = deletions
        self._partitions = partitions
        self._scheduler = scheduler
        self._throttling = throttling
        self._topic_deletion = topic_deletion

    def handle(self, request: Request) -> None:
        """Answer with one result a topic, when neither checkpoints nor directories on the disk have the names of deleted ones any more.

        Each deletion is made durable, so that many of them are done one after the other beside other requests.
        """
        self._scheduler.run(request, self._delete_all(request))

    def _delete_all(self, request: Request) -> Work:
        results: list[dict[str, Any]] = []
        if request.version >= 6:
            for asked in request.message.topics:
                results.append(self._delete_named(request, asked))
                yield
        else:
            times = Counter(request.message.topic_names)
            results += [
                _result(name, None, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, count in times.items() if count > 1
            ]
            for name, count in times.items():
                if count == 1:
                    results.append(self._delete(request, name))
                    yield

        def answer(_written: "asyncio.Future[None]") -> None:
            values = {"throttle_time": NO_THROTTLE_MS, "responses": results}
            self._scheduler.run(request, request.reply_in_pieces(values))

        asyncio.ensure_future(self._finish([result["name"] for result in results])).add_done_callback(request.guarded(answer))

    async def _finish(self, names: list[str | None]) -> None:
        await self._deletions.write()
        await self._partitions.when_moved(name for name in names if name is not None)

    def _delete_named(self, request: Request, asked: Any) -> dict[str, Any]:
        if asked.name is not None and asked.topic_id is not None:
            return _result(asked.name, asked.topic_id, ErrorCode.INVALID_REQUEST, "A topic is named by name or by id, not by both.")
        if asked.name is not None:
            return self._delete(request, asked.name)
        topic = self._cluster_metadata.topics_by_id.get(asked.topic_id.bytes) if asked.topic_id else None
        if topic is None:
            return _result(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return self._delete(request, topic.name, by_id=True)

    def _delete(self, request: Request, name: str, *, by_id: bool = False) -> dict[str, Any]:
        session = request.session
        topic = self._cluster_metadata.topics.get(name)
        topic_id = uuid.UUID(bytes=topic.topic_id) if topic else None
        if session.authorizer is not None and not session.may(Operation.DELETE, ResourceType.CLUSTER, log_if_denied=False):
            may_describe = session.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
            if not session.may(Operation.DELETE, ResourceType.TOPIC, name) and (topic is not None or not may_describe):
                refused_name, refused_id = (name if may_describe else None, topic_id) if by_id else (name, None)
                return _result(refused_name, refused_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        if not self._config.flag("delete.topic.enable"):
            return _result(name, topic_id, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        if topic is not None and not self._throttling.mutate(request, len(topic.leaders)):
            return _result(name, topic_id, EXCEEDED.error, EXCEEDED.message)
        try:
            refused = self._topic_deletion.delete(name)
        except StorageError as error:
            return _result(name, topic_id, error.code, str(error))
        return _result(name, topic_id, refused.error, refused.message) if refused else _result(name, topic_id, ErrorCode.NONE, None)


def _result(name: str | None, topic_id: uuid.UUID | None, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": message}


API = Api(
    key=ApiKey.DELETE_TOPICS,
    versions=range(1, 7),
    handle=DeleteTopics,
    elements_max=10_000,
    access=(Access(Operation.DELETE, ResourceType.TOPIC, "topics[].name", or_cluster=Operation.DELETE),),
)
