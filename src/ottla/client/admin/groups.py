"""Requests about groups: ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups, LeaveGroup.

It knows which API describes which kind of group, and does not decode assignments.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest as ConsumerGroupDescribeRequest1
from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse as ConsumerGroupDescribeResponse1
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest as DescribeGroupsRequest5
from kio.schema.describe_groups.v5.response import DescribeGroupsResponse as DescribeGroupsResponse5
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribeGroupsResponse
from kio.schema.leave_group.v4.request import LeaveGroupRequest as LeaveGroupRequest4
from kio.schema.leave_group.v4.request import MemberIdentity as MemberIdentity4
from kio.schema.leave_group.v4.response import LeaveGroupResponse as LeaveGroupResponse4
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse
from kio.schema.list_groups.v4.request import ListGroupsRequest as ListGroupsRequest4
from kio.schema.list_groups.v4.response import ListGroupsResponse as ListGroupsResponse4
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.types import GroupId

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.coordinators import call_coordinators
from ottla.client.admin.values import DescribedGroup, DescribedMember, Failure, ListedGroup
from ottla.client.brokers import Brokers
from ottla.client.deadlines import Deadline, raise_for
from ottla.client.errors import error_code
from ottla.client.network.connection import BrokerConnection
from ottla.core.errors import ErrorCode
from ottla.core.wire.api_keys import ApiKey

CONSUMER_PROTOCOLS: Final = ("", "consumer")
"""The protocol types of consumer groups: "" is a group that only ever committed."""
NOT_OF_THIS_KIND: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


def list_consumer_groups(brokers: Brokers, *, states: Sequence[str] = (), kinds: Sequence[str] = ()) -> list[ListedGroup]:
    """Consumer groups on all brokers, by name; `states` and `kinds` (in lower case) filter them, none means all.

    Raises DeadlineExceededError or RequestFailedError when a broker does not answer.
    """

    def attempt(deadline: Deadline) -> list[ListedGroup]:
        found: dict[str, ListedGroup] = {}
        for broker in brokers.endpoints(deadline).values():
            connection = brokers.connection(broker, deadline)
            if connection.speaks(ApiKey.LIST_GROUPS, 5):
                wanted = tuple(kinds) or ("classic", "consumer")
                answer = brokers.call(connection, ListGroupsRequest(states_filter=tuple(states), types_filter=wanted), ListGroupsResponse)
            else:
                answer = brokers.call(connection, ListGroupsRequest4(states_filter=tuple(states)), ListGroupsResponse4)
            raise_for(answer.error_code, f"ListGroups of broker {broker.broker_id}")
            for group in answer.groups:
                kind = getattr(group, "group_type", "")
                listed = ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type, state=group.group_state, kind=kind)
                found[group.group_id] = listed
        return [found[name] for name in sorted(found) if found[name].kind == "consumer" or found[name].protocol_type in CONSUMER_PROTOCOLS]

    return brokers.retry("listGroups", attempt)


def describe_groups(brokers: Brokers, groups: Iterable[str]) -> dict[str, DescribedGroup | Failure]:
    """Each group as its coordinator describes it, of either kind; an unknown group is a Failure (before v6 it is Dead)."""

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, DescribedGroup | Failure]:
        found: dict[str, DescribedGroup | Failure] = {}
        if connection.speaks(ApiKey.CONSUMER_GROUP_DESCRIBE, 0):
            found = _describe_consumer(brokers, connection, coordinator, names)
        others = [name for name in names if name not in found or _is_of_another_kind(found[name])]
        return found | (_describe_classic(brokers, connection, coordinator, others) if others else {})

    return call_coordinators(brokers, "describeConsumerGroups", groups, call)


def _is_of_another_kind(answer: DescribedGroup | Failure) -> bool:
    return isinstance(answer, Failure) and answer.code in NOT_OF_THIS_KIND


def _describe_consumer(
    brokers: Brokers, connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]
) -> dict[str, DescribedGroup | Failure]:
    ids = tuple(map(GroupId, names))
    if connection.speaks(ApiKey.CONSUMER_GROUP_DESCRIBE, 1):
        request = ConsumerGroupDescribeRequest1(group_ids=ids, include_authorized_operations=False)
        answer = brokers.call(connection, request, ConsumerGroupDescribeResponse1)
    else:
        older = ConsumerGroupDescribeRequest(group_ids=ids, include_authorized_operations=False)
        answer = brokers.call(connection, older, ConsumerGroupDescribeResponse)
    return {group.group_id: _failure(group) or _consumer_group(group, coordinator) for group in answer.groups}


def _failure(group: Any) -> Failure | None:
    """The group's error, if it has one; DescribeGroups has a message for it since v6."""
    code = error_code(group.error_code)
    return None if code is ErrorCode.NONE else Failure(code, getattr(group, "error_message", None))


def _consumer_group(group: Any, coordinator: BrokerEndpoint) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        kind="consumer",
        protocol_type="consumer",
        state=group.group_state,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(map(_consumer_member, group.members)),
        group_epoch=group.group_epoch,
        target_epoch=group.assignment_epoch,
    )


def _consumer_member(member: Any) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        topics=tuple(member.subscribed_topic_names),
        rack=member.rack_id,
        assigned={topic.topic_name: tuple(topic.partitions) for topic in member.assignment.topic_partitions},
        target={topic.topic_name: tuple(topic.partitions) for topic in member.target_assignment.topic_partitions},
        epoch=member.member_epoch,
        is_upgraded={0: False, 1: True}.get(getattr(member, "member_type", -1)),
    )


def _describe_classic(
    brokers: Brokers, connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]
) -> dict[str, DescribedGroup | Failure]:
    ids = tuple(map(GroupId, names))
    if connection.speaks(ApiKey.DESCRIBE_GROUPS, 6):
        request = DescribeGroupsRequest(groups=ids, include_authorized_operations=False)
        answer = brokers.call(connection, request, DescribeGroupsResponse)
    else:
        older = DescribeGroupsRequest5(groups=ids, include_authorized_operations=False)
        answer = brokers.call(connection, older, DescribeGroupsResponse5)
    return {group.group_id: _failure(group) or _classic_group(group, coordinator) for group in answer.groups}


def _classic_group(group: Any, coordinator: BrokerEndpoint) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        kind="classic",
        protocol_type=group.protocol_type,
        state=group.group_state,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(map(_classic_member, group.members)),
    )


def _classic_member(member: Any) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment_bytes=bytes(member.member_assignment),
        subscription_bytes=bytes(member.member_metadata),
    )


def delete_groups(brokers: Brokers, groups: Iterable[str]) -> dict[str, Failure | None]:
    """Delete groups; None for each deleted one."""

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, Failure | None]:
        answer = brokers.call(connection, DeleteGroupsRequest(groups_names=tuple(map(GroupId, names))), DeleteGroupsResponse)
        codes = {result.group_id: error_code(result.error_code) for result in answer.results}
        return {name: None if code is ErrorCode.NONE else Failure(code) for name, code in codes.items()}

    return call_coordinators(brokers, "deleteConsumerGroups", groups, call)


def remove_member(brokers: Brokers, group: str, member_id: str, reason: str) -> Failure | None:
    """Let a member of a classic group leave it; None when it has. The coordinator logs `reason` (KIP-800)."""

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, Failure | None]:
        (name,) = map(GroupId, names)
        if connection.speaks(ApiKey.LEAVE_GROUP, 5):
            request = LeaveGroupRequest(
                group_id=name, members=(MemberIdentity(member_id=member_id, group_instance_id=None, reason=reason),)
            )
            answer = brokers.call(connection, request, LeaveGroupResponse)
        else:
            older = LeaveGroupRequest4(group_id=name, members=(MemberIdentity4(member_id=member_id, group_instance_id=None),))
            answer = brokers.call(connection, older, LeaveGroupResponse4)
        codes = [error_code(each.error_code) for each in (answer, *answer.members)]
        failed = [code for code in codes if code is not ErrorCode.NONE]
        return {group: Failure(failed[0]) if failed else None}

    return call_coordinators(brokers, "removeMembersFromConsumerGroup", [group], call)[group]
