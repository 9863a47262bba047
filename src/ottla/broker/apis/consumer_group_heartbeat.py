"""ConsumerGroupHeartbeat (68), v0-1: joins a consumer group (KIP-848), keeps a member's session, and brings its assignment.

Version notes: v1+ regular expressions, and the client makes the member's id (KIP-1082).
"""

import base64
import uuid
from datetime import timedelta
from functools import partial

from ottla.broker.coordination.groups import GroupRouter, serves_consumer_groups
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.config import BrokerConfig
from ottla.groups.commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResult, Result
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, groups: GroupRouter, config: BrokerConfig, cluster_metadata: ClusterMetadata) -> None:
    """Ask the group's coordinator."""
    message, session = request.message, request.session
    if not serves_consumer_groups(config, cluster_metadata):
        _refuse(request, ErrorCode.UNSUPPORTED_VERSION)
        return
    topics = message.subscribed_topic_names
    if topics and not all(session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        _refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    owned: dict[bytes, set[int]] | None = None
    if message.topic_partitions is not None:
        owned = {}
        for topic in message.topic_partitions:
            owned.setdefault(_id_bytes(topic.topic_id), set()).update(topic.partitions)
    timeout_ms = message.rebalance_timeout // timedelta(milliseconds=1)
    is_first_version = request.version == 0
    command = ConsumerGroupHeartbeat(
        reply_to=groups.expect_reply(partial(_answer, request), request),
        group_id=message.group_id,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=timeout_ms,
        topics=None if topics is None else frozenset(topics),
        regex=None if is_first_version else message.subscribed_topic_regex,
        assignor=message.server_assignor,
        owned=owned,
        client_id=request.client_id or "",
        client_host=session.client_host,
        client_port=session.client_port,
        new_member_id=_new_id() if is_first_version and not message.member_id else "",
        needs_member_id=not is_first_version,
        may_describe=None if session.authorizer is None else partial(session.may, Operation.DESCRIBE, ResourceType.TOPIC),
    )
    groups.run(message.group_id, command)


def _id_bytes(topic_id: uuid.UUID | None) -> bytes:
    return bytes(16) if topic_id is None else topic_id.bytes


def _new_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, ConsumerGroupHeartbeatResult)
    assignment = None
    if result.assignment is not None:
        assignment = {
            "topic_partitions": [
                {"topic_id": uuid.UUID(bytes=topic_id), "partitions": list(partitions)}
                for topic_id, partitions in result.assignment.items()
            ]
        }
    request.reply(
        {
            "throttle_time": NO_THROTTLE_MS,
            "error_code": result.error,
            "error_message": result.message,
            "member_id": result.member_id,
            "member_epoch": result.member_epoch,
            "heartbeat_interval": result.heartbeat_interval_ms,
            "assignment": assignment,
        }
    )


def _refuse(request: Request, error: ErrorCode) -> None:
    _answer(request, ConsumerGroupHeartbeatResult(error=error))


API = Api(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=range(2),
    handle=handle,
    elements_max=40_000,
    access=(
        Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_refuse),
        Access(Operation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names[]"),
    ),
)
