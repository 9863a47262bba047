"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, in both versions: a member joins, is described, and leaves."""

from typing import Any

import pytest

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


def test_an_error_has_kafkas_message_and_nothing_else(api: Any) -> None:
    answer = heartbeat(api, 1, member_epoch=7)
    assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)
