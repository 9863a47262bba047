"""ConsumerGroupHeartbeat (68), v0-1: joins a consumer group (KIP-848), keeps a member's session, and brings its assignment.

Version notes: v1+ regular expressions, and the client makes the member's id (KIP-1082).
"""

import base64
import uuid
from functools import partial
from struct import unpack_from
from typing import Final, NamedTuple

from ottla.broker.coordination.groups import GroupRouter, serves_consumer_groups
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.config import BrokerConfig
from ottla.groups.commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResult, Result
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode, PeerError, RequestTooLarge
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import COMPACT, Writer, bounded, int32, uvarint
from ottla.security.access import Operation, ResourceType

ELEMENTS_MAX: Final = 40_000
"""Topics and partitions in one request."""
UNCHANGED_TIMEOUT: Final = -1
_ID_BYTES: Final = 16
_NULL_STRUCTURE: Final = -1


class HeartbeatFields(NamedTuple):
    """The request's fields in their order, None where the member does not say; `owned`: partitions by topic id."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topics: frozenset[str] | None
    regex: str | None
    assignor: str | None
    owned: dict[bytes, set[int]] | None


@bounded
def read_consumer_heartbeat(data: bytes, at: int, version: int) -> tuple[HeartbeatFields, int]:
    """The request whose body begins at `at`. Raises PeerError."""
    group_id, at = COMPACT.text(data, at)
    member_id, at = COMPACT.text(data, at)
    epoch, at = int32(data, at)
    instance_id, at = COMPACT.nullable_text(data, at)
    rack_id, at = COMPACT.nullable_text(data, at)
    timeout_ms, at = int32(data, at)
    topics, at = _topics(data, at)
    regex = None
    if version >= 1:
        regex, at = COMPACT.nullable_text(data, at)
    assignor, at = COMPACT.nullable_text(data, at)
    owned, at = _owned(data, at, ELEMENTS_MAX - len(topics or ()))
    fields = HeartbeatFields(group_id, member_id, epoch, instance_id, rack_id, timeout_ms, topics, regex, assignor, owned)
    return fields, COMPACT.end(data, at)


def _topics(data: bytes, at: int) -> tuple[frozenset[str] | None, int]:
    if data[at] == 0:
        return None, at + 1
    count, at = COMPACT.length(data, at)
    if count > ELEMENTS_MAX:
        raise _too_large()
    topics = []
    for _ in range(count):
        topic, at = COMPACT.text(data, at)
        topics.append(topic)
    return frozenset(topics), at


def _owned(data: bytes, at: int, left: int) -> tuple[dict[bytes, set[int]] | None, int]:
    if data[at] == 0:
        return None, at + 1
    count, at = COMPACT.length(data, at)
    owned: dict[bytes, set[int]] = {}
    for _ in range(count):
        topic_id, at = data[at : at + _ID_BYTES], at + _ID_BYTES
        length, at = uvarint(data, at)
        numbers = length - 1
        left -= 1 + numbers
        if numbers < 0:
            raise PeerError("an array that must not be null")
        if left < 0:
            raise _too_large()
        owned.setdefault(topic_id, set()).update(unpack_from(f">{numbers}i", data, at))
        at = COMPACT.end(data, at + 4 * numbers)
    return owned, at


def _too_large() -> RequestTooLarge:
    return RequestTooLarge(f"a ConsumerGroupHeartbeat request with more than {ELEMENTS_MAX} topics and partitions")


def handle(request: Request, *, groups: GroupRouter, config: BrokerConfig, cluster_metadata: ClusterMetadata) -> None:
    """Ask the group's coordinator, first for a response that needs no command."""
    session, version = request.session, request.version
    if not serves_consumer_groups(config, cluster_metadata):
        _refuse(request, ErrorCode.UNSUPPORTED_VERSION)
        return
    asked = read_consumer_heartbeat(request.data, request.body_at, version)
    client_id = request.client_id or ""
    if asked[4:] == _NOTHING_SAID:
        interval_ms = groups.fast_consumer_heartbeat(*asked[:4], client_id, session.client_host)
        if interval_ms is not None:
            request.reply_bytes(_kept(asked.member_id, asked.epoch, interval_ms))
            return
    topics = asked.topics
    if topics and not all(session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        _refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    is_first_version = version == 0
    command = ConsumerGroupHeartbeat(
        reply_to=groups.expect_reply(partial(_answer, request), request),
        group_id=asked.group_id,
        member_id=asked.member_id,
        member_epoch=asked.epoch,
        instance_id=asked.instance_id,
        rack_id=asked.rack_id,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        topics=topics,
        regex=asked.regex,
        assignor=asked.assignor,
        owned=asked.owned,
        client_id=client_id,
        client_host=session.client_host,
        client_port=session.client_port,
        new_member_id=_new_id() if is_first_version and not asked.member_id else "",
        needs_member_id=not is_first_version,
        may_describe=None if session.authorizer is None else partial(session.may, Operation.DESCRIBE, ResourceType.TOPIC),
    )
    groups.run(asked.group_id, command)


_NOTHING_SAID: Final = (None, UNCHANGED_TIMEOUT, None, None, None, None)
"""The fields from `rack_id` on of a heartbeat that only keeps a session."""


def _kept(member_id: str, epoch: int, interval_ms: int) -> bytes:
    """The response to a member that has what it is to have."""
    out = Writer(True).int32(NO_THROTTLE_MS).int16(ErrorCode.NONE).nullable_string(None).string(member_id)
    return bytes(out.int32(epoch).int32(interval_ms).int8(_NULL_STRUCTURE).end().data)


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
    decodes_itself=True,
    access=(
        Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_refuse),
        Access(Operation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names[]"),
    ),
)
