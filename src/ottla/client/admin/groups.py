"""An administrator's requests about groups and their offsets, sent to the groups' coordinators.

The coordinators of many groups are looked up at once, and each is called for all its groups. Where a coordinator has moved, is loading or
is gone, its groups are looked up and called again; a refusal is final. Offsets are read, committed (generation -1) and deleted from outside
the group: the coordinator decides whether the group accepts it. Assignments are not decoded here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, Union

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest as ConsumerGroupDescribeRequest1
from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse as ConsumerGroupDescribeResponse1
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest as DescribeGroupsRequest5
from kio.schema.describe_groups.v5.response import DescribeGroupsResponse as DescribeGroupsResponse5
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribeGroupsResponse
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.leave_group.v4.request import LeaveGroupRequest as LeaveGroupRequest4
from kio.schema.leave_group.v4.request import MemberIdentity as MemberIdentity4
from kio.schema.leave_group.v4.response import LeaveGroupResponse as LeaveGroupResponse4
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse
from kio.schema.list_groups.v4.request import ListGroupsRequest as ListGroupsRequest4
from kio.schema.list_groups.v4.response import ListGroupsResponse as ListGroupsResponse4
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.offset_commit.v8.request import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v8.response import OffsetFetchResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i64

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import CommittedOffset, DescribedGroup, DescribedMember, Failure, ListedGroup
from ottla.client.brokers import Brokers
from ottla.client.deadlines import RETRIABLE, Deadline, DeadlineExceededError, raise_for
from ottla.client.errors import BrokerUnavailableError, error_code
from ottla.client.network.connection import BrokerConnection
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey

GROUP_KEY: Final = 0
GROUPS_MAX: Final = 1_000
"""Groups in one request: more are split, which bounds the size of responses."""

T = TypeVar("T")
Result = Union[T, Failure]  # noqa: UP007 - not "T | Failure": it has to be generic while it is evaluated
GroupCall = Callable[[BrokerConnection, BrokerEndpoint, list[str]], Mapping[str, Result[T]]]


def call_coordinators(
    brokers: Brokers, name: str, groups: Iterable[str], call: GroupCall[T], *, key_type: int = GROUP_KEY
) -> dict[str, Result[T]]:
    """The results of `call(connection, coordinator, groups)` by group, in the order of `groups`.

    A group without a result before the deadline has a Failure with REQUEST_TIMED_OUT. `name` is the call's name in its message.
    `key_type`: what the names are, if not groups (FindCoordinator).
    """
    group_ids = list(dict.fromkeys(groups))
    found: dict[str, Result[T]] = {}
    coordinators: dict[str, BrokerEndpoint] = {}
    deadline, contact = (make(f"{name}(api=FIND_COORDINATOR)") for make in (brokers.deadline, brokers.contact_deadline))
    last: str | None = None
    while pending := [group for group in group_ids if group not in found]:
        try:
            last = _attempt(brokers, pending, coordinators, found, call, deadline, key_type)
            if len(found) < len(group_ids):
                deadline.wait(last)
        except BrokerUnavailableError as gone:
            try:
                brokers.wait(gone, deadline, contact, last)
            except DeadlineExceededError as error:
                return _timed_out(group_ids, found, error)
        except DeadlineExceededError as error:
            return _timed_out(group_ids, found, error)
    return {group: found[group] for group in group_ids}


def _timed_out(groups: list[str], found: Mapping[str, Result[T]], error: DeadlineExceededError) -> dict[str, Result[T]]:
    late = Failure(ErrorCode.REQUEST_TIMED_OUT, str(error))
    return {group: found.get(group, late) for group in groups}


def _attempt(
    brokers: Brokers,
    pending: list[str],
    coordinators: dict[str, BrokerEndpoint],
    found: dict[str, Result[T]],
    call: GroupCall[T],
    deadline: Deadline,
    key_type: int,
) -> str | None:
    """One attempt for all pending groups: the name of a retriable error, if there was one."""
    last = _find(brokers, [group for group in pending if group not in coordinators], coordinators, found, deadline, key_type)
    by_coordinator: dict[BrokerEndpoint, list[str]] = {}
    for group in pending:
        if group in coordinators:
            by_coordinator.setdefault(coordinators.pop(group), []).append(group)  # looked up again unless it answers
    for coordinator, groups in by_coordinator.items():
        for chunk in _chunks(groups):
            results = call(brokers.connection(coordinator, deadline), coordinator, chunk)
            for group in chunk:
                result = results.get(group, Failure(ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordinator did not answer for {group}"))
                if not isinstance(result, Failure) or result.code not in RETRIABLE:
                    found[group] = result
                    continue
                last = result.code.name
                if result.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    coordinators[group] = coordinator
    return last


def _find(
    brokers: Brokers,
    names: list[str],
    coordinators: dict[str, BrokerEndpoint],
    found: dict[str, Result[T]],
    deadline: Deadline,
    key_type: int,
) -> str | None:
    last = None
    for chunk in _chunks(names):
        request = FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=tuple(chunk))
        for item in brokers.call_any(request, FindCoordinatorResponse, deadline).coordinators:
            code = error_code(item.error_code)
            if item.key not in chunk:
                continue
            if code is ErrorCode.NONE:
                coordinators[item.key] = BrokerEndpoint(item.node_id, item.host, item.port)
            elif code in RETRIABLE:
                last = code.name
            else:
                found[item.key] = Failure(code)
    return last


def _chunks(names: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(names), GROUPS_MAX):
        yield names[at : at + GROUPS_MAX]


PartitionResults = Mapping[TopicPartition, Failure | None]
Committed = Mapping[TopicPartition, CommittedOffset]


def committed_offsets(brokers: Brokers, groups: Iterable[str]) -> dict[str, Committed | Failure]:
    """All committed offsets of each group; an unknown group has none."""

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, Committed | Failure]:
        request = OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id=GroupId(name), topics=None) for name in names))
        answer = brokers.call(connection, request, OffsetFetchResponse)
        found: dict[str, Committed | Failure] = {}
        for group in answer.groups:
            code = error_code(group.error_code)
            if code is not ErrorCode.NONE:
                found[group.group_id] = Failure(code)
                continue
            found[group.group_id] = {
                TopicPartition(topic.name, item.partition_index): CommittedOffset(
                    item.committed_offset, item.committed_leader_epoch, item.metadata or ""
                )
                for topic in group.topics
                for item in topic.partitions
                if error_code(item.error_code) is ErrorCode.NONE
            }
        return found

    return call_coordinators(brokers, "listConsumerGroupOffsets", groups, call)


def commit_offsets(brokers: Brokers, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> PartitionResults | Failure:
    """Commit offsets for a group; None for each committed partition."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        committed = CommittedOffset(offset) if isinstance(offset, int) else offset
        item = OffsetCommitRequestPartition(
            partition_index=i32(partition),
            committed_offset=i64(committed.offset),
            committed_leader_epoch=i32(committed.leader_epoch),
            committed_metadata=committed.metadata,
        )
        topics.setdefault(topic, []).append(item)
    request = OffsetCommitRequest(
        group_id=GroupId(group),
        member_id="",
        topics=tuple(OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(items)) for name, items in topics.items()),
    )

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, PartitionResults | Failure]:
        answer = brokers.call(connection, request, OffsetCommitResponse)
        return {group: _results(answer.topics)}

    return call_coordinators(brokers, "commitOffsets", [group], call)[group]


def delete_offsets(brokers: Brokers, group: str, partitions: Iterable[TopicPartition]) -> PartitionResults | Failure:
    """Delete a group's offsets; None for each deleted partition, one Failure when the whole request is refused."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=i32(partition)))
    request = OffsetDeleteRequest(
        group_id=GroupId(group),
        topics=tuple(OffsetDeleteRequestTopic(name=TopicName(name), partitions=tuple(items)) for name, items in topics.items()),
    )

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, PartitionResults | Failure]:
        answer = brokers.call(connection, request, OffsetDeleteResponse)
        code = error_code(answer.error_code)
        return {group: _results(answer.topics) if code is ErrorCode.NONE else Failure(code)}

    return call_coordinators(brokers, "offsetDelete", [group], call)[group]


def _results(topics: Iterable[Any]) -> PartitionResults | Failure:
    """Results by partition; a single retriable error stands for them all, so that all are retried."""
    results: dict[TopicPartition, Failure | None] = {}
    for topic in topics:
        for item in topic.partitions:
            code = error_code(item.error_code)
            if code in RETRIABLE:
                return Failure(code)
            results[TopicPartition(topic.name, item.partition_index)] = None if code is ErrorCode.NONE else Failure(code)
    return results


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


OF_GROUP, OF_BROKER = i8(32), i8(4)
"""Kinds of resources of DescribeConfigs."""
OF_ALL_GROUPS: Final = "group."
"""How a broker's setting for all groups begins, where a group's own has no prefix."""


def group_settings(brokers: Brokers, group: str, names: Sequence[str]) -> Mapping[str, str] | Failure:
    """Settings of a consumer group, for example consumer.session.timeout.ms, as its coordinator has them.

    Before Kafka 4.0 there are none for a single group, or the client may not see them: those of its coordinator for all groups hold.
    """

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, groups: list[str]) -> Mapping[str, Mapping[str, str] | Failure]:
        asked = (
            (OF_BROKER, str(coordinator.broker_id), tuple(OF_ALL_GROUPS + name for name in names)),
            (OF_GROUP, group, tuple(names)),
        )
        request = DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys) for kind, name, keys in asked
            )
        )
        found: dict[str, str] = {}
        failed: Failure | None = None
        results = brokers.call(connection, request, DescribeConfigsResponse).results
        for result in sorted(results, key=lambda each: each.resource_type):  # the group's own after those of all groups
            code = error_code(result.error_code)
            if code is not ErrorCode.NONE:
                failed = Failure(code, result.error_message)
            found |= {each.name.removeprefix(OF_ALL_GROUPS): each.value for each in result.configs if each.value is not None}
        missing = failed or Failure(ErrorCode.INVALID_CONFIG, f"no values of {', '.join(names)}")
        return {group: found if all(name in found for name in names) else missing}

    return call_coordinators(brokers, "describeConfigs", [group], call)[group]


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
