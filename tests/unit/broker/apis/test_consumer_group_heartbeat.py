"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, in both versions: a member joins, is described, and leaves."""

import uuid
from typing import Any

import pytest

from ottla.broker.coordination.groups import GroupRouter
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey


def heartbeat(api: Any, version: int, **fields: Any) -> Any:
    regex = {} if version == 0 else {"subscribed_topic_regex": None}
    values = {
        "group_id": "g",
        "member_id": "" if version == 0 else "m",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 300_000,
        "subscribed_topic_names": ["t"],
        "server_assignor": None,
        "topic_partitions": [],
    }
    return api.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **{**values, **regex, **fields})


@pytest.mark.parametrize("version", range(2))
def test_a_member_joins_is_described_and_leaves(api: Any, version: int) -> None:
    answer = heartbeat(api, version)
    assert (answer.error_code, answer.member_epoch, answer.assignment.topic_partitions) == (ErrorCode.NONE, 2, ())
    assert (answer.member_id == "m") == (version == 1)
    assert len(answer.member_id) == (22 if version == 0 else 1)
    (group, unknown) = api.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=["g", "x"], include_authorized_operations=False).groups
    assert (group.error_code, group.group_state, group.group_epoch, group.assignor_name) == (ErrorCode.NONE, "Stable", 2, "uniform")
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == (answer.member_id, 2, ("t",))
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")
    left = heartbeat(api, version, member_id=answer.member_id, member_epoch=-1, rebalance_timeout=-1)
    assert (left.error_code, left.member_epoch, left.assignment) == (ErrorCode.NONE, -1, None)


PARTS = [{"topic_id": uuid.UUID(int=1), "partitions": list(range(20_000))}]
NOTHING_NEW = {"member_epoch": 2, "rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}


def test_a_heartbeat_that_says_nothing_new_needs_no_command(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat(api, 1)
    heartbeat(api, 1, **NOTHING_NEW)  # the broker has made topics of its own meanwhile
    commands: list[Any] = []
    run = GroupRouter.run

    def note(router: GroupRouter, group_id: str, command: Any) -> None:
        commands.append(command)
        run(router, group_id, command)

    monkeypatch.setattr(GroupRouter, "run", note)
    answer = heartbeat(api, 1, **NOTHING_NEW)
    assert (answer.error_code, answer.error_message, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, None, "m", 2)
    assert (answer.heartbeat_interval.total_seconds(), answer.assignment) == (5, None)
    assert commands == []
    for more in (
        {"topic_partitions": []},
        {"rack_id": "r"},
        {"member_epoch": 1},
        {"member_id": "x"},
        {"instance_id": "i"},
        {"group_id": "h"},
    ):
        heartbeat(api, 1, **{**NOTHING_NEW, **more})
        assert commands.pop().member_epoch == more.get("member_epoch", 2)


def test_it_restarts_the_session(api: Any) -> None:
    heartbeat(api, 1)
    loop = next(iter(api.groups._by_partition.values()))
    (before,) = (timers.session.at_ms for timers in loop.coordinator.state.groups["g"].members_timers.values())
    api.now_ms += 1_000
    heartbeat(api, 1, **NOTHING_NEW)
    (after,) = (timers.session.at_ms for timers in loop.coordinator.state.groups["g"].members_timers.values())
    assert after == before + 1_000


def test_more_elements_than_one_request_may_have(api: Any) -> None:
    for many in ({"subscribed_topic_names": [f"t{n}" for n in range(30_000)], "topic_partitions": PARTS}, {"topic_partitions": PARTS * 2}):
        answer = heartbeat(api, 1, **many)
        assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_an_error_has_kafkas_message_and_nothing_else(api: Any) -> None:
    answer = heartbeat(api, 1, member_epoch=7)
    assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)
