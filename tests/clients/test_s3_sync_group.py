"""S3 on the wire, on both brokers: which answer a SyncGroup gets, in the order of the checks, and what becomes of the plan."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.testing.raw_member import RawMember
from ottla.testing.sim_protocol import encode_subscription

SYNC_GROUP = 14
NONE, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID = 0, 22, 23, 24, 25
REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID = 27, 82


def test_s3_1_and_2_the_order_of_the_checks(new_member: Callable[..., RawMember], unique_name: Callable[[str], str]) -> None:
    group, instance_id = unique_name("group"), unique_name("instance")
    member = new_member(group, instance_id)
    member.member_id, member.generation = "nobody", 7
    assert member.sync() == (UNKNOWN_MEMBER_ID, b""), "a group that nobody has heard of"
    member.member_id = ""
    assert member.join().error_code == NONE
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
        return int(member.client.call(SYNC_GROUP, 5, **(right | said)).error_code)

    wrong = {"generation_id": 9, "protocol_type": "connect"}
    assert answer(group_id="", member_id="stranger", **wrong) == INVALID_GROUP_ID
    assert answer(member_id="stranger", **wrong) == FENCED_INSTANCE_ID, "the instance id belongs to another member"
    assert answer(member_id="stranger", group_instance_id=None, **wrong) == UNKNOWN_MEMBER_ID
    assert answer(**wrong) == ILLEGAL_GENERATION
    assert answer(protocol_type="connect") == INCONSISTENT_GROUP_PROTOCOL
    assert answer(protocol_name="roundrobin") == INCONSISTENT_GROUP_PROTOCOL
    assert answer() == NONE


def test_s3_3_and_4_by_state_and_who_is_left_out_of_the_plan(
    new_member: Callable[..., RawMember],
    described: Callable[[str], Any],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
    wait_until: Callable[..., None],
) -> None:
    group = unique_name("group")
    first, second = new_member(group), new_member(group)
    assert first.join().error_code == NONE
    assert first.sync({first.member_id: b"all"}) == (NONE, b"all")
    assert first.sync() == (NONE, b"all"), "Stable: the assignment at once, again"
    joining = background(second.join)
    wait_until(lambda: described(group).group_state == "PreparingRebalance", "the second member asks to join")
    assert first.sync() == (REBALANCE_IN_PROGRESS, b"")
    assert first.join().error_code == NONE
    assert joining.result(10).error_code == NONE

    parked = background(second.sync)
    wait_until(lambda: described(group).group_state == "CompletingRebalance", "the plan is awaited")
    assert not parked.done()
    assert first.sync({first.member_id: b"everything"}) == (NONE, b"everything")
    assert parked.result(10) == (NONE, b""), "whom the plan leaves out gets an empty part"
    assert described(group).group_state == "Stable"
    assert (first.leave(), second.leave()) == (NONE, NONE)
    assert second.sync() == (UNKNOWN_MEMBER_ID, b""), "Empty: nobody is a member"


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_s3_consumers_and_connect_workers(
    new_member: Callable[..., RawMember], described: Callable[[str], Any], unique_name: Callable[[str], str], protocol_type: str
) -> None:
    group = unique_name("group")
    worker = new_member(group)
    protocol, metadata = ("range", encode_subscription(["flights"])) if protocol_type == "consumer" else ("sessioned", b"\0\1 of its own")
    assert worker.join([(protocol, metadata)], protocol_type=protocol_type).error_code == NONE
    plan = {worker.member_id: b"\0\1tasks"}
    assert worker.sync(plan, protocol_type=protocol_type, protocol=protocol) == (NONE, b"\0\1tasks")
    seen = described(group)
    assert (seen.group_state, seen.protocol_type, seen.protocol_data) == ("Stable", protocol_type, protocol)
