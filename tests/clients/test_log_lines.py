"""The log of a group's life, line by line, as Apache Kafka writes it and as we do: greps and log parsers work on both.

The same requests go to both brokers; the lines that name the group must be the same, with member ids replaced by names.
"""

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember

PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=P] "
PREPARING = "Preparing to rebalance group G in state PreparingRebalance with old generation"
RECEIVED = "Assignment received from leader M1 for group G for generation"
LEFT = "has left group through explicit `LeaveGroup` request; client reason:"
DYNAMIC = [
    "Dynamic member with unknown member id joins group G in Empty state. "
    "Created a new member id M1 and requesting the member to rejoin with this id.",
    "Pending dynamic member with id M1 joins group G in Empty state. Adding to the group now.",
    f"{PREPARING} 0 (reason: Adding new member M1 with group instance id null; client reason: not provided).",
    "Stabilized group G generation 1 with 1 members.",
    f"{RECEIVED} 1. The group has 1 members, 0 of which are static.",
    f"{PREPARING} 1 (reason: Leader M1 re-joining group during Stable; client reason: cached metadata has changed).",
    "Stabilized group G generation 2 with 1 members.",
    f"{RECEIVED} 2. The group has 1 members, 0 of which are static.",
    f"[Group G] Member M1 {LEFT} the consumer is being closed",
    f"{PREPARING} 2 (reason: explicit `LeaveGroup` request for (M1) members.).",
    "Group G with generation 3 is now empty.",
]
STATIC = [
    "Static member with groupInstanceId=I1 and unknown member id joins group G in Empty state. "
    "Created a new member id M1 for this member and added to the group.",
    f"{PREPARING} 0 (reason: Adding new member M1 with group instance id I1; client reason: not provided).",
    "Stabilized group G generation 1 with 1 members.",
    f"{RECEIVED} 1. The group has 1 members, 1 of which are static.",
    "Static member with groupInstanceId=I1 and unknown member id joins group G in Stable state. "
    "Replacing previously mapped member M1 with this groupInstanceId.",
    f"[Group G] Member M2 {LEFT} drain",
    f"{PREPARING} 1 (reason: explicit `LeaveGroup` request for () members.).",
    "Group G with generation 2 is now empty.",
]


@pytest.fixture
def read_lines(kafka_broker: Any, caplog: pytest.LogCaptureFixture) -> Callable[[str, dict[str, str]], list[str]]:
    """`read_lines(group, names)` gives the coordinator's lines so far that name the group, ids replaced by `names`."""
    caplog.set_level(logging.INFO, "ottla.broker")

    def read(group: str, names: dict[str, str]) -> list[str]:
        if kafka_broker.kind == "apache-kafka":
            said = kafka_broker.log_path.read_text().splitlines()
        else:
            said = [record.getMessage() for record in caplog.records]
        lines = []
        for line in said:
            if group in line and "GroupCoordinator id=" in line:
                text = re.sub(r"partition=\d+", "partition=P", line[line.index("[GroupCoordinator") :])
                for known, name in {group: "G", **names}.items():
                    text = text.replace(known, name)
                lines.append(re.sub(r" \(org\.apache\.kafka\S*\)$", "", text))
        return lines

    return read


@pytest.fixture
def only_member(new_member: Callable[..., RawMember], unique_name: Callable[[str], str]) -> Callable[..., RawMember]:
    """`only_member(instance_id=None)`: the only one of a new group; nothing is sent yet."""
    return lambda instance_id=None: new_member(unique_name("group"), instance_id)


def lead(member: RawMember, reason: str | None = None) -> None:
    """Joins, alone, and brings the plan if it leads a new generation."""
    before, answer = member.generation, member.join(reason=reason)
    assert answer.error_code == ErrorCode.NONE
    if member.generation != before:
        assert member.sync({member.member_id: b"all"}) == (ErrorCode.NONE, b"all")


def test_the_life_of_a_dynamic_member(only_member: Callable[..., RawMember], read_lines: Callable[..., list[str]]) -> None:
    member = only_member()
    lead(member)
    lead(member, "cached metadata has changed")
    assert member.leave("the consumer is being closed") == ErrorCode.NONE
    names = {member.member_id: "M1"}
    wait_until(lambda: any("is now empty" in line for line in read_lines(member.group, names)), "the last line")
    assert read_lines(member.group, names) == [PREFIX + line for line in DYNAMIC]


def test_the_life_of_a_static_member(
    only_member: Callable[..., RawMember],
    unique_name: Callable[[str], str],
    read_lines: Callable[..., list[str]],
) -> None:
    instance_id = unique_name("instance")
    member = only_member(instance_id)
    lead(member)
    names = {member.member_id: "M1"}
    member.member_id = ""
    lead(member)
    names |= {member.member_id: "M2", instance_id: "I1"}
    member.member_id = ""
    assert member.leave("drain") == ErrorCode.NONE, "an administrator removes by instance id alone"
    wait_until(lambda: any("is now empty" in line for line in read_lines(member.group, names)), "the last line")
    assert read_lines(member.group, names) == [PREFIX + line for line in STATIC]
