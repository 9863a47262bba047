"""Groups of both protocols as old and new brokers describe them."""

import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.groups import (
    GROUPS_MAX,
    call_coordinators,
    commit_offsets,
    committed_offsets,
    delete_groups,
    delete_offsets,
    describe_groups,
    group_settings,
    list_consumer_groups,
    remove_member,
)
from ottla.client.admin.values import CommittedOffset, DescribedGroup, DescribedMember, Failure
from ottla.client.errors import BrokerUnavailableError, RequestFailedError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey

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
            ApiKey.DESCRIBE_CONFIGS: "settings",
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


class Cluster:
    """Two brokers; `places` has the coordinator of each group, `codes` the errors of FindCoordinator."""

    def __init__(self, scripted: Any, places: Mapping[str, int]) -> None:
        self.places = dict(places)
        self.codes: dict[str, list[int]] = {}
        self.lookups: list[tuple[str, ...]] = []
        for place in ("a:1", "b:2"):
            scripted.broker(place, self.answer)

    def answer(self, api_key: int, request: Any) -> Any:
        assert api_key == ApiKey.FIND_COORDINATOR
        self.lookups.append(request.coordinator_keys)
        return {"coordinators": [self._found(key) for key in request.coordinator_keys]}

    def _found(self, key: str) -> dict[str, Any]:
        code = self.codes[key].pop(0) if self.codes.get(key) else 0
        node = self.places[key]
        return {"key": key, "node_id": node, "host": "ab"[node - 1], "port": node, "error_code": code, "error_message": None}


def test_each_coordinator_gets_one_request_for_all_its_groups(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1, "h": 2, "i": 1})
    asked = []

    def ask(connection: Any, node: BrokerEndpoint, names: list[str]) -> dict[str, Any]:
        asked.append((connection.name, node.broker_id, names))
        return {name: f"{name} of {node.broker_id}" for name in names}

    found = call_coordinators(scripted.brokers(), "describes", ["i", "g", "h", "g"], ask)
    assert list(found.items()) == [("i", "i of 1"), ("g", "g of 1"), ("h", "h of 2")]
    assert cluster.lookups == [("i", "g", "h")]
    assert asked == [("a:1", 1, ["i", "g"]), ("b:2", 2, ["h"])]


def test_a_group_whose_coordinator_moved_is_looked_up_again_and_the_others_are_not(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1, "h": 1})

    def ask(connection: Any, node: BrokerEndpoint, names: list[str]) -> dict[str, Any]:
        if node.broker_id == 1 and "g" in names:
            cluster.places["g"] = 2
            return {name: Failure(ErrorCode.NOT_COORDINATOR) if name == "g" else name for name in names}
        return dict.fromkeys(names, node.broker_id)

    assert call_coordinators(scripted.brokers(), "describes", ["g", "h"], ask) == {"g": 2, "h": "h"}
    assert cluster.lookups == [("g", "h"), ("g",)]
    assert scripted.waits == [0.1]


def test_a_loading_coordinator_is_retried_without_a_lookup(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1})
    answers = iter([Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), "loaded"])
    assert call_coordinators(scripted.brokers(), "describes", ["g"], lambda *_: {"g": next(answers)}) == {"g": "loaded"}
    assert (cluster.lookups, scripted.waits) == ([("g",)], [0.1, 0.2])


def test_no_coordinator_yet(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1})
    cluster.codes["g"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert call_coordinators(scripted.brokers(), "describes", ["g"], lambda *_: {"g": 1}) == {"g": 1}
    assert len(cluster.lookups) == 3


def test_a_coordinator_that_is_gone_is_looked_up_again(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1, "h": 2})

    def ask(connection: Any, node: BrokerEndpoint, names: list[str]) -> dict[str, Any]:
        if node.broker_id == 1:
            cluster.places["g"] = 2
            raise BrokerUnavailableError("gone")
        return dict.fromkeys(names, node.broker_id)

    assert call_coordinators(scripted.brokers(), "describes", ["g", "h"], ask) == {"g": 2, "h": 2}


def test_a_refusal_is_of_one_group_alone(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1, "": 1})
    cluster.codes[""] = [ErrorCode.INVALID_GROUP_ID]
    found = call_coordinators(scripted.brokers(), "describes", ["", "g"], lambda *_: {"g": "there"})
    assert found == {"": Failure(ErrorCode.INVALID_GROUP_ID), "g": "there"}


def test_groups_without_a_response_in_time_fail_and_others_do_not(scripted: Any) -> None:
    Cluster(scripted, {"g": 1, "h": 1})
    brokers = scripted.brokers(timeout_ms=250)
    loading = Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    found = call_coordinators(brokers, "describes", ["g", "h"], lambda *_: {"g": loading, "h": "there"})
    late = "Timed out after 2 attempt(s), the last: COORDINATOR_LOAD_IN_PROGRESS. Call: describes(api=FIND_COORDINATOR)"
    assert found == {"g": Failure(ErrorCode.REQUEST_TIMED_OUT, late), "h": "there"}


def test_no_broker_is_reachable(scripted: Any) -> None:
    found = call_coordinators(scripted.brokers(timeout_ms=150), "describes", ["g"], lambda *_: {"g": 1})
    sentence = "Timed out waiting for a node assignment. Call: describes(api=FIND_COORDINATOR) (no connection to broker a:1)"
    assert found == {"g": Failure(ErrorCode.REQUEST_TIMED_OUT, sentence)}


def test_a_group_that_the_coordinator_leaves_out(scripted: Any) -> None:
    Cluster(scripted, {"g": 1})
    (failure,) = call_coordinators(scripted.brokers(), "describes", ["g"], lambda *_: {}).values()
    assert failure == Failure(ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator did not answer for g")


def test_many_groups_are_split_into_several_requests(scripted: Any) -> None:
    names = [f"g{number}" for number in range(2 * GROUPS_MAX + 1)]
    cluster = Cluster(scripted, dict.fromkeys(names, 1))
    sizes = []

    def ask(connection: Any, node: BrokerEndpoint, chunk: list[str]) -> dict[str, Any]:
        sizes.append(len(chunk))
        return dict.fromkeys([*chunk, "not requested"], 1)

    assert call_coordinators(scripted.brokers(), "describes", names, ask) == dict.fromkeys(names, 1)
    assert sizes == [len(lookup) for lookup in cluster.lookups] == [GROUPS_MAX, GROUPS_MAX, 1]


def test_a_coordinator_that_is_not_at_its_advertised_address_is_soon_reported(scripted: Any) -> None:
    Cluster(scripted, {"g": 2})
    del scripted.answers["b:2"]
    found = call_coordinators(scripted.brokers(timeout_ms=60_000, bootstrap_timeout_ms=350), "describes", ["g"], lambda *_: {})
    failure = found["g"]
    assert isinstance(failure, Failure)
    assert str(failure.message).startswith("the cluster was reached, but not its broker 2 in 350 ms (no connection to broker b:2)")
    assert sum(scripted.waits) < 0.35


ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def answering(scripted: Any, *answers: Any) -> list[Any]:
    """A broker that coordinates every group and sends these responses one after another; its requests."""
    waiting, requests = list(answers), []

    def answer(api_key: int, request: Any) -> Any:
        if api_key == ApiKey.FIND_COORDINATOR:
            place = {"node_id": 1, "host": "a", "port": 1, "error_code": ErrorCode.NONE, "error_message": None}
            return {"coordinators": [place | {"key": key} for key in request.coordinator_keys]}
        requests.append(request)
        return waiting.pop(0)

    scripted.broker("a:1", answer)
    return requests


def results(*codes: int) -> dict[str, Any]:
    return {"topics": [{"name": "t", "partitions": [{"partition_index": at, "error_code": code} for at, code in enumerate(codes)]}]}


def test_committed_offsets(scripted: Any) -> None:
    def item(number: int, offset: int, code: int) -> dict[str, Any]:
        place = {"partition_index": number, "committed_offset": offset, "committed_leader_epoch": 4, "metadata": ""}
        return place | {"error_code": code}

    topics = [{"name": "t", "partitions": [item(0, 7, 0), item(1, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]}]
    groups = [
        {"group_id": "g", "topics": topics, "error_code": ErrorCode.NONE},
        {"group_id": "h", "topics": [], "error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED},
    ]
    requests = answering(scripted, {"groups": groups})
    found = committed_offsets(scripted.brokers(), ["g", "h"])
    assert found == {"g": {ZERO: CommittedOffset(7, 4)}, "h": Failure(ErrorCode.GROUP_AUTHORIZATION_FAILED)}
    assert [(group.group_id, group.topics) for group in requests[0].groups] == [("g", None), ("h", None)]


def test_a_commit_without_a_member(scripted: Any) -> None:
    requests = answering(scripted, results(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    found = commit_offsets(scripted.brokers(), "g", {ZERO: 5, ONE: 6})
    assert found == {ZERO: None, ONE: Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert (requests[0].generation_id_or_member_epoch, requests[0].member_id, requests[0].group_instance_id) == (-1, "", None)
    assert [item.committed_offset for item in requests[0].topics[0].partitions] == [5, 6]


def test_all_partitions_are_retried_while_the_coordinator_loads(scripted: Any) -> None:
    loading = results(*[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2)
    requests = answering(
        scripted,
        loading,
        results(0, 0),
        {"error_code": ErrorCode.NOT_COORDINATOR, "topics": []},
        {"error_code": ErrorCode.NONE, **results(0, 0)},
    )
    assert commit_offsets(scripted.brokers(), "g", {ZERO: 5, ONE: 6}) == {ZERO: None, ONE: None}
    assert delete_offsets(scripted.brokers(), "g", [ZERO, ONE]) == {ZERO: None, ONE: None}
    assert len(requests) == 4


def test_a_refusal_of_the_whole_group(scripted: Any) -> None:
    answering(scripted, {"error_code": ErrorCode.NON_EMPTY_GROUP, "topics": []})
    assert delete_offsets(scripted.brokers(), "g", [ZERO]) == Failure(ErrorCode.NON_EMPTY_GROUP)


def described_settings(kind: int, error: ErrorCode = ErrorCode.NONE, **values: str | None) -> dict[str, Any]:
    about = {"read_only": False, "config_source": 1, "is_sensitive": False, "synonyms": (), "config_type": 1, "documentation": None}
    configs = [{"name": name, "value": value, **about} for name, value in values.items()]
    return {"error_code": error, "error_message": "why", "resource_type": kind, "resource_name": "", "configs": configs}


def test_a_groups_own_settings_come_before_those_of_all_groups(scripted: Any) -> None:
    of_all = described_settings(4, **{"group.a": "1", "group.b": "2", "group.c": None})
    of_group = described_settings(32, a="9")
    answers = Answers(scripted, settings={"results": [of_group, of_all]})
    assert group_settings(scripted.brokers(), "g", ["a", "b"]) == {"a": "9", "b": "2"}
    asked = [(each.resource_type, each.resource_name, each.configuration_keys) for each in answers.requests[-1].resources]
    assert asked == [(4, "1", ("group.a", "group.b")), (32, "g", ("a", "b"))]
    assert group_settings(scripted.brokers(), "g", ["a", "c"]) == Failure(ErrorCode.INVALID_CONFIG, "no values of a, c")
    refused = described_settings(32, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    answers.by_api["settings"] = {"results": [refused, of_all]}
    assert group_settings(scripted.brokers(), "g", ["a", "b"]) == {"a": "1", "b": "2"}, "Kafka before 4.0"
    assert group_settings(scripted.brokers(), "g", ["c"]) == Failure(ErrorCode.GROUP_AUTHORIZATION_FAILED, "why")
