"""Groups of both protocols as old and new brokers describe them."""

import uuid
from typing import Any

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.groups import delete_groups, describe_groups, list_consumer_groups, remove_member
from ottla.client.admin.values import DescribedGroup, DescribedMember, Failure
from ottla.client.errors import RequestFailedError
from ottla.core.errors import ErrorCode
from ottla.core.wire.api_keys import ApiKey

NODE = BrokerEndpoint(1, "a", 1)


class Answers:
    """The responses of one broker, by API, and its requests."""

    def __init__(self, scripted: Any, **by_api: Any) -> None:
        self.by_api = by_api
        self.requests: list[Any] = []
        scripted.broker("a:1", self.answer)

    def answer(self, api_key: int, request: Any) -> Any:
        self.requests.append(request)
        if api_key == ApiKey.METADATA:
            brokers = [{"node_id": 1, "host": "a", "port": 1, "rack": None}]
            return {"brokers": brokers, "topics": [], "cluster_id": None, "controller_id": 1, "cluster_authorized_operations": 0}
        if api_key == ApiKey.FIND_COORDINATOR:
            place = {"node_id": 1, "host": "a", "port": 1, "error_code": ErrorCode.NONE, "error_message": None}
            return {"coordinators": [place | {"key": key} for key in request.coordinator_keys]}
        name = {
            ApiKey.LIST_GROUPS: "lists",
            ApiKey.DESCRIBE_GROUPS: "classic",
            ApiKey.CONSUMER_GROUP_DESCRIBE: "modern",
            ApiKey.DELETE_GROUPS: "deletes",
            ApiKey.LEAVE_GROUP: "leaves",
        }[api_key]
        return self.by_api[name]


def listed(group: str, protocol_type: str, kind: str = "classic") -> dict[str, str]:
    return {"group_id": group, "protocol_type": protocol_type, "group_state": "Stable", "group_type": kind}


def test_only_consumer_groups_are_listed(scripted: Any) -> None:
    groups = [listed("z", "consumer"), listed("a", ""), listed("c", "connect"), listed("m", "consumer", "consumer")]
    answers = Answers(scripted, lists={"error_code": ErrorCode.NONE, "groups": groups})
    found = list_consumer_groups(scripted.brokers(), states=["Stable"])
    assert [(group.group_id, group.kind) for group in found] == [("a", "classic"), ("m", "consumer"), ("z", "classic")]
    assert (answers.requests[-1].states_filter, answers.requests[-1].types_filter) == (("Stable",), ("classic", "consumer"))
    list_consumer_groups(scripted.brokers(), kinds=["consumer"])
    assert answers.requests[-1].types_filter == ("consumer",)


def test_a_broker_that_does_not_know_types(scripted: Any) -> None:
    scripted.api_versions[ApiKey.LIST_GROUPS] = range(5)
    Answers(scripted, lists={"error_code": ErrorCode.NONE, "groups": [listed("g", "consumer")]})
    assert [group.kind for group in list_consumer_groups(scripted.brokers())] == [""]


def test_a_refused_list(scripted: Any) -> None:
    Answers(scripted, lists={"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "groups": []})
    with pytest.raises(RequestFailedError, match="ListGroups of broker 1: CLUSTER_AUTHORIZATION_FAILED"):
        list_consumer_groups(scripted.brokers())


CLASSIC_MEMBER = {
    "member_id": "m",
    "group_instance_id": "i",
    "client_id": "c",
    "client_host": "/h",
    "member_metadata": b"s",
    "member_assignment": b"x",
}
CLASSIC = {
    "error_code": ErrorCode.NONE,
    "error_message": None,
    "group_id": "g",
    "group_state": "Stable",
    "protocol_type": "consumer",
    "protocol_data": "range",
    "members": [CLASSIC_MEMBER],
    "authorized_operations": 0,
}
DESCRIBED_MEMBER = DescribedMember(member_id="m", instance_id="i", client_id="c", host="/h", assignment_bytes=b"x", subscription_bytes=b"s")
DESCRIBED = DescribedGroup(
    group_id="g",
    kind="classic",
    protocol_type="consumer",
    state="Stable",
    assignor="range",
    coordinator=NODE,
    members=(DESCRIBED_MEMBER,),
)


@pytest.mark.parametrize("newest", [5, 6])
def test_a_classic_group(scripted: Any, newest: int) -> None:
    scripted.api_versions[ApiKey.DESCRIBE_GROUPS] = range(newest + 1)
    answers = Answers(scripted, classic={"groups": [CLASSIC]})
    assert describe_groups(scripted.brokers(), ["g"]) == {"g": DESCRIBED}
    assert answers.requests[-1].__version__ == newest


def test_an_unknown_group(scripted: Any) -> None:
    unknown = CLASSIC | {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": "Group g not found.", "members": []}
    Answers(scripted, classic={"groups": [unknown]})
    assert describe_groups(scripted.brokers(), ["g"]) == {"g": Failure(ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")}


def modern(error: ErrorCode, group: str, newest: int) -> dict[str, Any]:
    def assignment(*partitions: int) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_id": uuid.UUID(int=1), "topic_name": "t", "partitions": partitions}]}

    member = {
        "member_id": "m",
        "instance_id": None,
        "rack_id": "r",
        "member_epoch": 4,
        "client_id": "c",
        "client_host": "/h",
        "subscribed_topic_names": ("t",),
        "subscribed_topic_regex": None,
        "member_type": 1,
        "assignment": assignment(0, 1),
        "target_assignment": assignment(0),
    }
    return {
        "error_code": error,
        "error_message": None,
        "group_id": group,
        "group_state": "Reconciling",
        "group_epoch": 5,
        "assignment_epoch": 4,
        "assignor_name": "uniform",
        "authorized_operations": 0,
        "members": [] if error else [member],
    }


@pytest.mark.parametrize("newest", [0, 1])
def test_a_kip_848_group_beside_a_classic_one(scripted: Any, newest: int) -> None:
    scripted.api_versions[ApiKey.CONSUMER_GROUP_DESCRIBE] = range(newest + 1)
    groups = [modern(ErrorCode.NONE, "new", newest), modern(ErrorCode.GROUP_ID_NOT_FOUND, "g", newest)]
    answers = Answers(scripted, modern={"groups": groups}, classic={"groups": [CLASSIC]})
    found = describe_groups(scripted.brokers(), ["new", "g"])
    assert found["g"] == DESCRIBED
    group = found["new"]
    assert isinstance(group, DescribedGroup)
    assert (group.kind, group.state, group.assignor, group.group_epoch, group.target_epoch) == ("consumer", "Reconciling", "uniform", 5, 4)
    (member,) = group.members
    assert (member.topics, member.rack) == (("t",), "r")
    assert (member.assigned, member.target, member.epoch) == ({"t": (0, 1)}, {"t": (0,)}, 4)
    assert member.is_upgraded is (True if newest == 1 else None)
    assert answers.requests[-1].groups == ("g",)


def test_a_group_without_permission_is_requested_once(scripted: Any) -> None:
    scripted.api_versions[ApiKey.CONSUMER_GROUP_DESCRIBE] = range(2)
    Answers(scripted, modern={"groups": [modern(ErrorCode.GROUP_AUTHORIZATION_FAILED, "g", 1)]})
    assert describe_groups(scripted.brokers(), ["g"]) == {"g": Failure(ErrorCode.GROUP_AUTHORIZATION_FAILED)}


def test_deleting(scripted: Any) -> None:
    results = [{"group_id": "g", "error_code": ErrorCode.NONE}, {"group_id": "h", "error_code": ErrorCode.NON_EMPTY_GROUP}]
    Answers(scripted, deletes={"results": results})
    assert delete_groups(scripted.brokers(), ["g", "h"]) == {"g": None, "h": Failure(ErrorCode.NON_EMPTY_GROUP)}


@pytest.mark.parametrize("version", [4, 5])
def test_a_member_is_removed(scripted: Any, version: int) -> None:
    scripted.api_versions[ApiKey.LEAVE_GROUP] = range(version + 1)
    member = {"member_id": "m", "group_instance_id": None, "error_code": ErrorCode.NONE}
    answers = Answers(scripted, leaves={"error_code": ErrorCode.NONE, "members": [member]})
    assert remove_member(scripted.brokers(), "g", "m", "it has ended") is None
    (sent,) = answers.requests[-1].members
    assert (sent.member_id, getattr(sent, "reason", None)) == ("m", "it has ended" if version == 5 else None)
    member["error_code"] = ErrorCode.UNKNOWN_MEMBER_ID
    assert remove_member(scripted.brokers(), "g", "m", "") == Failure(ErrorCode.UNKNOWN_MEMBER_ID)
