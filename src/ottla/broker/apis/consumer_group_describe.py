"""ConsumerGroupDescribe (69), v0-1: epochs, members and assignments of consumer groups (KIP-848).

Version notes: v1+ says of each member whether it uses the classic or the consumer protocol (KIP-1099).
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ottla.broker.coordination.groups import GroupRouter, serves_consumer_groups
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.config import BrokerConfig
from ottla.groups.commands import ConsumerGroupDescribe, ConsumerGroupDescribeResult, ConsumerGroupMember, Result
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import OPERATIONS_NOT_ASKED_FOR, Operation, ResourceType

_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def handle(
    request: Request, *, groups: GroupRouter, scheduler: RequestScheduler, config: BrokerConfig, cluster_metadata: ClusterMetadata
) -> None:
    """Ask each group's coordinator, in pieces; reads never wait. A group that is named twice is described once."""
    is_served = serves_consumer_groups(config, cluster_metadata)
    described = _described(groups, request, dict.fromkeys(request.message.group_ids), is_served)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "groups": described}))


def _described(groups: GroupRouter, request: Request, group_ids: Iterable[str], is_served: bool) -> Iterator[dict[str, Any]]:
    asked = request.message.include_authorized_operations
    results: list[Result] = []
    for group_id in group_ids:
        if not is_served:
            yield _refuse(group_id, ErrorCode.UNSUPPORTED_VERSION)
            continue
        reply_to = groups.expect_reply(results.append, request)
        groups.run(group_id, ConsumerGroupDescribe(reply_to=reply_to, group_id=group_id))
        result = results.pop()
        assert isinstance(result, ConsumerGroupDescribeResult)
        session = request.session
        if not all(session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in set(result.topic_names.values())):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result = ConsumerGroupDescribeResult(error=error, group_id=group_id, message=_HIDDEN_TOPICS)
        yield _group(result, session.operations(ResourceType.GROUP, group_id) if asked else OPERATIONS_NOT_ASKED_FOR)


def _group(result: ConsumerGroupDescribeResult, operations: int) -> dict[str, Any]:
    names = result.topic_names
    return {
        "error_code": result.error,
        "error_message": result.message,
        "group_id": result.group_id,
        "group_state": result.state,
        "group_epoch": result.epoch,
        "assignment_epoch": result.assignment_epoch,
        "assignor_name": result.assignor,
        "members": (_member(member, names) for member in result.members),
        "authorized_operations": operations if result.error is ErrorCode.NONE else OPERATIONS_NOT_ASKED_FOR,
    }


def _member(member: ConsumerGroupMember, names: Mapping[bytes, str]) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topics,
        "subscribed_topic_regex": member.regex,
        "assignment": _assignment(member.assignment, names),
        "target_assignment": _assignment(member.target, names),
        "member_type": 0 if member.is_classic else 1,
    }


def _assignment(partitions: Mapping[bytes, Iterable[int]], names: Mapping[bytes, str]) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": uuid.UUID(bytes=topic_id), "topic_name": names[topic_id], "partitions": list(numbers)}
            for topic_id, numbers in partitions.items()
        ]
    }


def _refuse(group_id: str, error: ErrorCode) -> dict[str, Any]:
    return _group(ConsumerGroupDescribeResult(error=error, group_id=group_id), OPERATIONS_NOT_ASKED_FOR)


API = Api(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    versions=range(2),
    handle=handle,
    access=(Access(Operation.DESCRIBE, ResourceType.GROUP, "group_ids[]", refuse=_refuse, answers="groups"),),
)
