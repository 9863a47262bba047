"""On the wire, on both brokers: the response to a SyncGroup, in the order of the checks, and what becomes of the assignments."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember
from tests.support.kit.consumer_protocol import encode_subscription


def test_the_order_of_the_checks(new_member: Callable[..., RawMember], unique_name: Callable[[str], str]) -> None:
    group, instance_id = unique_name("group"), unique_name("instance")
    member = new_member(group, instance_id)
    member.member_id, member.generation = "unknown", 7
    assert member.sync() == (ErrorCode.UNKNOWN_MEMBER_ID, b""), "an unknown group"
    member.member_id = ""
    assert member.join().error_code == ErrorCode.NONE
    right = {
        "group_id": group,
        "generation_id": 1,
        "member_id": member.member_id,
        "group_instance_id": instance_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
    }

    def answer(**said: Any) -> int:
        return int(member.client.call(ApiKey.SYNC_GROUP, 5, **(right | said)).error_code)

    wrong = {"generation_id": 9, "protocol_type": "connect"}
    assert answer(group_id="", member_id="stranger", **wrong) == ErrorCode.INVALID_GROUP_ID
    assert answer(member_id="stranger", **wrong) == ErrorCode.FENCED_INSTANCE_ID, "the instance id belongs to another member"
    assert answer(member_id="stranger", group_instance_id=None, **wrong) == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer(**wrong) == ErrorCode.ILLEGAL_GENERATION
    assert answer(protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answer(protocol_name="roundrobin") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answer() == ErrorCode.NONE


def test_by_state_and_who_is_left_out_of_the_plan(
    new_member: Callable[..., RawMember],
    described: Callable[[str], Any],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
) -> None:
    group = unique_name("group")
    first, second = new_member(group), new_member(group)
    assert first.join().error_code == ErrorCode.NONE
    assert first.sync({first.member_id: b"all"}) == (ErrorCode.NONE, b"all")
    assert first.sync() == (ErrorCode.NONE, b"all"), "Stable: the assignment at once, again"
    joining = background(second.join)
    wait_until(lambda: described(group).group_state == "PreparingRebalance", "the second member asks to join")
    assert first.sync() == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert first.join().error_code == ErrorCode.NONE
    assert joining.result(60).error_code == ErrorCode.NONE

    parked = background(second.sync)
    wait_until(lambda: described(group).group_state == "CompletingRebalance", "the plan is awaited")
    assert not parked.done()
    assert first.sync({first.member_id: b"everything"}) == (ErrorCode.NONE, b"everything")
    assert parked.result(60) == (ErrorCode.NONE, b""), "whom the plan leaves out gets an empty part"
    assert described(group).group_state == "Stable"
    assert (first.leave(), second.leave()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert second.sync() == (ErrorCode.UNKNOWN_MEMBER_ID, b""), "Empty: there is no member"


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_consumers_and_connect_workers(
    new_member: Callable[..., RawMember], described: Callable[[str], Any], unique_name: Callable[[str], str], protocol_type: str
) -> None:
    group = unique_name("group")
    worker = new_member(group)
    protocol, metadata = ("range", encode_subscription(["flights"])) if protocol_type == "consumer" else ("sessioned", b"\0\1 of its own")
    assert worker.join([(protocol, metadata)], protocol_type=protocol_type).error_code == ErrorCode.NONE
    plan = {worker.member_id: b"\0\1tasks"}
    assert worker.sync(plan, protocol_type=protocol_type, protocol=protocol) == (ErrorCode.NONE, b"\0\1tasks")
    seen = described(group)
    assert (seen.group_state, seen.protocol_type, seen.protocol_data) == ("Stable", protocol_type, protocol)
