"""Committed offsets: results, retriable errors and refusals. Against real brokers: test_client.py."""

from typing import Any

from ottla.client.admin.offsets import commit_offsets, committed_offsets, delete_offsets
from ottla.client.admin.values import CommittedOffset, Failure
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.core.wire.api_keys import ApiKey

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
