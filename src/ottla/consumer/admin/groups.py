"""Groups by their names: which there are, what they look like, and away with them (ListGroups, DescribeGroups, 69, DeleteGroups).

It knows which API describes which kind of group, and never what an assignment's bytes mean.
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
from kio.schema.list_groups.v4.request import ListGroupsRequest as ListGroupsRequest4
from kio.schema.list_groups.v4.response import ListGroupsResponse as ListGroupsResponse4
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.types import GroupId

from ottla.consumer.admin.coordinators import ask_coordinators
from ottla.consumer.admin.values import DescribedGroup, DescribedMember, Failure, ListedGroup, Node
from ottla.consumer.brokers import Brokers
from ottla.consumer.connection import Connection
from ottla.consumer.errors import error_code
from ottla.consumer.retrying import Deadline, raise_for
from ottla.core.errors import ErrorCode

LIST_GROUPS: Final = 16
DESCRIBE_GROUPS: Final = 15
CONSUMER_GROUP_DESCRIBE: Final = 69
CONSUMER_PROTOCOLS: Final = ("", "consumer")
"""The protocol types of groups of consumers: "" is a group that only ever committed."""
NOT_OF_THIS_KIND: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


def list_consumer_groups(brokers: Brokers, *, states: Sequence[str] = (), kinds: Sequence[str] = ()) -> list[ListedGroup]:
    """Groups of consumers on all brokers, by name; `states` and `kinds` (in lower case) choose, none means all.

    Raises OutOfTimeError or RequestFailedError when a broker does not answer.
    """

    def attempt(deadline: Deadline) -> list[ListedGroup]:
        found: dict[str, ListedGroup] = {}
        for node in brokers.nodes(deadline).values():
            connection = brokers.node(node, deadline)
            if connection.speaks(LIST_GROUPS, 5):
                wanted = tuple(kinds) or ("classic", "consumer")
                answer = brokers.ask(connection, ListGroupsRequest(states_filter=tuple(states), types_filter=wanted), ListGroupsResponse)
            else:
                answer = brokers.ask(connection, ListGroupsRequest4(states_filter=tuple(states)), ListGroupsResponse4)
            raise_for(answer.error_code, f"ListGroups of broker {node.broker_id}")
            for group in answer.groups:
                kind = getattr(group, "group_type", "")
                listed = ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type, state=group.group_state, kind=kind)
                found[group.group_id] = listed
        return [found[name] for name in sorted(found) if found[name].kind == "consumer" or found[name].protocol_type in CONSUMER_PROTOCOLS]

    return brokers.persist("listGroups", attempt)


def describe_groups(brokers: Brokers, groups: Iterable[str]) -> dict[str, DescribedGroup | Failure]:
    """Each group as its coordinator describes it, whichever kind it is; a group that nobody knows is a Failure (before v6 it is Dead)."""

    def ask(connection: Connection, node: Node, names: list[str]) -> Mapping[str, DescribedGroup | Failure]:
        found: dict[str, DescribedGroup | Failure] = {}
        if connection.speaks(CONSUMER_GROUP_DESCRIBE, 0):
            found = _describe_modern(brokers, connection, node, names)
        others = [name for name in names if name not in found or _is_of_another_kind(found[name])]
        return found | (_describe_classic(brokers, connection, node, others) if others else {})

    return ask_coordinators(brokers, "describeConsumerGroups", groups, ask)


def _is_of_another_kind(answer: DescribedGroup | Failure) -> bool:
    return isinstance(answer, Failure) and answer.code in NOT_OF_THIS_KIND


def _describe_modern(brokers: Brokers, connection: Connection, node: Node, names: list[str]) -> dict[str, DescribedGroup | Failure]:
    ids = tuple(map(GroupId, names))
    if connection.speaks(CONSUMER_GROUP_DESCRIBE, 1):
        request = ConsumerGroupDescribeRequest1(group_ids=ids, include_authorized_operations=False)
        answer = brokers.ask(connection, request, ConsumerGroupDescribeResponse1)
    else:
        older = ConsumerGroupDescribeRequest(group_ids=ids, include_authorized_operations=False)
        answer = brokers.ask(connection, older, ConsumerGroupDescribeResponse)
    found: dict[str, DescribedGroup | Failure] = {}
    for group in answer.groups:
        code = error_code(group.error_code)
        if code is not ErrorCode.NONE:
            found[group.group_id] = Failure(code, group.error_message)
            continue
        found[group.group_id] = DescribedGroup(
            group_id=group.group_id,
            kind="consumer",
            protocol_type="consumer",
            state=group.group_state,
            assignor=group.assignor_name,
            coordinator=node,
            members=tuple(map(_modern_member, group.members)),
            group_epoch=group.group_epoch,
            target_epoch=group.assignment_epoch,
        )
    return found


def _modern_member(member: Any) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assigned={topic.topic_name: tuple(topic.partitions) for topic in member.assignment.topic_partitions},
        target={topic.topic_name: tuple(topic.partitions) for topic in member.target_assignment.topic_partitions},
        epoch=member.member_epoch,
        is_upgraded={0: False, 1: True}.get(getattr(member, "member_type", -1)),
    )


def _describe_classic(brokers: Brokers, connection: Connection, node: Node, names: list[str]) -> dict[str, DescribedGroup | Failure]:
    ids = tuple(map(GroupId, names))
    if connection.speaks(DESCRIBE_GROUPS, 6):
        request = DescribeGroupsRequest(groups=ids, include_authorized_operations=False)
        answer = brokers.ask(connection, request, DescribeGroupsResponse)
    else:
        older = DescribeGroupsRequest5(groups=ids, include_authorized_operations=False)
        answer = brokers.ask(connection, older, DescribeGroupsResponse5)
    found: dict[str, DescribedGroup | Failure] = {}
    for group in answer.groups:
        code = error_code(group.error_code)
        if code is not ErrorCode.NONE:
            found[group.group_id] = Failure(code, getattr(group, "error_message", None))
            continue
        found[group.group_id] = DescribedGroup(
            group_id=group.group_id,
            kind="classic",
            protocol_type=group.protocol_type,
            state=group.group_state,
            assignor=group.protocol_data,
            coordinator=node,
            members=tuple(
                DescribedMember(
                    member_id=member.member_id,
                    instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    host=member.client_host,
                    assignment_bytes=bytes(member.member_assignment),
                )
                for member in group.members
            ),
        )
    return found


def delete_groups(brokers: Brokers, groups: Iterable[str]) -> dict[str, Failure | None]:
    """Deletes groups; None for each that is gone now."""

    def ask(connection: Connection, node: Node, names: list[str]) -> Mapping[str, Failure | None]:
        answer = brokers.ask(connection, DeleteGroupsRequest(groups_names=tuple(map(GroupId, names))), DeleteGroupsResponse)
        codes = {result.group_id: error_code(result.error_code) for result in answer.results}
        return {name: None if code is ErrorCode.NONE else Failure(code) for name, code in codes.items()}

    return ask_coordinators(brokers, "deleteConsumerGroups", groups, ask)
