"""Each line of the classic coordinator, as Apache Kafka 2.x to 4.x write it, gives its evidence or is known to be none."""

from typing import Any

import pytest

from ottla.core.diagnosis.evidence.broker_log.parser import BrokerLogParser
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
SCALA = "[GroupCoordinator 0]: "
M = "c-0a1b2c3d-0000-4000-8000-000000000001"
N = "d-0a1b2c3d-0000-4000-8000-000000000002"
LEAVES = (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC)
LEFT = "has left group through explicit `LeaveGroup` request; client reason: "
METADATA = (
    f"MemberMetadata(memberId={M}, groupInstanceId=Some(i), clientId=c, clientHost=/10.0.0.1, sessionTimeoutMs=10000, "
    "rebalanceTimeoutMs=1, supportedProtocols=List(range))"
)


def parsed(*messages: str) -> list[Facts]:
    parser = BrokerLogParser()
    found: list[Facts] = []
    for message in messages:
        facts = parser.parse(message)
        assert facts is not None, f"not understood: {message}"
        found += [{name: value for name, value in each.items() if value is not None and value != ()} for each in facts]
    return found


@pytest.mark.parametrize(
    ("message", "facts"),
    [
        (f"{PREFIX}Stabilized group g generation 3 with 2 members.", {"kind": Kind.JOIN_COMPLETED, "generation": 3, "member_count": 2}),
        (
            f"{SCALA}Stabilized group g generation 3 (__consumer_offsets-12) with 2 members",
            {"kind": Kind.JOIN_COMPLETED, "generation": 3, "member_count": 2},
        ),
        (f"{SCALA}Stabilized group g generation 3 (__consumer_offsets-12)", {"kind": Kind.JOIN_COMPLETED, "generation": 3}),
        (
            f"{PREFIX}Assignment received from leader {M} for group g for generation 3. The group has 2 members, 1 of which are static.",
            {"kind": Kind.SYNC_COMPLETED, "generation": 3, "leader": M, "member_count": 2, "evidence": {"static_members": 1}},
        ),
        (f"{SCALA}Assignment received from leader for group g for generation 3", {"kind": Kind.SYNC_COMPLETED, "generation": 3}),
        (f"{PREFIX}Group g with generation 4 is now empty.", {"kind": Kind.EMPTIED, "generation": 4, "member_count": 0}),
        (
            f"{SCALA}Group g with generation 4 is now empty (__consumer_offsets-12)",
            {"kind": Kind.EMPTIED, "generation": 4, "member_count": 0},
        ),
        (
            f"{PREFIX}[Group g] Member {M} {LEFT}consumer poll timeout has expired.",
            {
                "kind": Kind.MEMBER_LEFT,
                "member_id": M,
                "client_reason": "consumer poll timeout has expired.",
                "trigger": Cause.POLL_TIMEOUT,
            },
        ),
        (
            f"{SCALA}Member {METADATA} has left group g through explicit `LeaveGroup` request; client reason: the consumer is being closed",
            {
                "kind": Kind.MEMBER_LEFT,
                "member_id": M,
                "instance_id": "i",
                "client_id": "c",
                "client_host": "/10.0.0.1",
                "client_reason": "the consumer is being closed",
                "trigger": Cause.LEAVE_CLOSE,
            },
        ),
        (
            f"{SCALA}Member[group.instance.id None, member.id {M}] in group g has left, removing it from the group",
            {"kind": Kind.MEMBER_LEFT, "member_id": M, "candidates": LEAVES},
        ),
        (
            f"{SCALA}Member {M} in group g has left, removing it from the group",
            {"kind": Kind.MEMBER_LEFT, "member_id": M, "candidates": LEAVES},
        ),
        (
            f"{PREFIX}Member {M} in group g has failed, removing it from the group.",
            {"kind": Kind.MEMBER_REMOVED, "member_id": M, "trigger": Cause.EXPIRE_HEARTBEAT},
        ),
        (
            f"{PREFIX}Pending dynamic member with id {M} joins group g in Stable state. Adding to the group now.",
            {"kind": Kind.MEMBER_JOINED, "member_id": M, "client_id": "c"},
        ),
        (
            f"{PREFIX}Dynamic member with unknown member id joins group g in state Empty. "
            f"Created a new member id {M} and added the member to the group.",
            {"kind": Kind.MEMBER_JOINED, "member_id": M, "client_id": "c"},
        ),
        (
            f"{PREFIX}Static member with groupInstanceId=i and unknown member id joins group g in Empty state. "
            f"Created a new member id {M} for this member and added to the group.",
            {"kind": Kind.MEMBER_JOINED, "member_id": M, "instance_id": "i"},
        ),
        (f"{PREFIX}Loaded classic group g with 3 members.", {"kind": Kind.LOADED, "group_type": "classic", "member_count": 3}),
        (f"{SCALA}Loading group metadata for g with generation 7", {"kind": Kind.LOADED, "group_type": "classic", "generation": 7}),
        (f"{SCALA}Unloading group metadata for g with generation 7", {"kind": Kind.UNLOADED, "group_type": "classic", "generation": 7}),
        (
            f"{PREFIX}[GroupId=g] Unloading group metadata for generation 7.",
            {"kind": Kind.UNLOADED, "group_type": "classic", "generation": 7},
        ),
        (f"{PREFIX}The following groups were deleted: g. A total of 3 offsets were removed.", {"kind": Kind.DELETED}),
        ("[GroupMetadataManager brokerId=0] Group g transitioned to Dead in generation 4", {"kind": Kind.DELETED, "generation": 4}),
        (
            f"{SCALA}Preparing to rebalance group g in state PreparingRebalance with old generation 2 (__consumer_offsets-12) "
            f"(reason: removing member {M} on heartbeat expiration)",
            {
                "kind": Kind.TRIGGER,
                "generation": 2,
                "trigger": Cause.EXPIRE_HEARTBEAT,
                "member_id": M,
                "reason": f"removing member {M} on heartbeat expiration",
            },
        ),
        (f"{SCALA}Preparing to rebalance group g with old generation 2 (__consumer_offsets-12)", {"kind": Kind.TRIGGER, "generation": 2}),
        (
            f"{PREFIX}Preparing to rebalance group g in state PreparingRebalance with old generation 2 (reason: the moon is full).",
            {"kind": Kind.TRIGGER, "generation": 2, "reason": "the moon is full"},
        ),
    ],
)
def test_lines_that_are_evidence(message: str, facts: dict[str, Any]) -> None:
    assert parsed(message) == [{"group": "g"} | facts]


@pytest.mark.parametrize(
    "message",
    [
        f"{PREFIX}Dynamic member with unknown member id joins group g in Empty state. "
        f"Created a new member id {M} and requesting the member to rejoin with this id.",
        f"{PREFIX}[Group g] Pending member {M} {LEFT}not provided",
        f"{PREFIX}Group g could not complete rebalance because no members rejoined.",
        f"{PREFIX}Group leader [memberId: {M}, groupInstanceId: None] failed to join before the rebalance timeout. "
        f"Member {N} was elected as the new leader.",
        f"{PREFIX}Pending member {M} in group g has been removed after session timeout expiration.",
        f"{PREFIX}Setting empty assignments for members [{M}] of g for generation 3.",
        f"{SCALA}Elected as the group coordinator for partition 12 in epoch 3",
        f"{SCALA}Resigned as the group coordinator for partition 12 in epoch Some(3)",
        "[GroupCoordinator id=1] Scheduling loading of metadata from __consumer_offsets-13 with epoch 0",
        "[GroupCoordinator id=1] Startup complete.",
        "[GroupCoordinator id=1] Writing records to __consumer_offsets-3 failed due to: The request included a message larger.",
        "[GroupCoordinator 0]: Startup complete.",
    ],
)
def test_lines_that_are_known_and_no_evidence(message: str) -> None:
    assert parsed(message) == []


@pytest.mark.parametrize("members", [f"[{M}, {N}]", f"Set({M}, {N})"])
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("removed dynamic members who haven't joined: ", Cause.JOIN_TIMEOUT),
        ("remove dynamic members who haven't joined: ", Cause.JOIN_TIMEOUT),
        ("removed members who haven't sent their sync requests: ", Cause.SYNC_TIMEOUT),
    ],
)
def test_each_removed_member_is_evidence(members: str, text: str, cause: Cause) -> None:
    assert parsed(f"{PREFIX}Group g {text}{members}") == [
        {"kind": Kind.MEMBER_REMOVED, "group": "g", "member_id": member, "trigger": cause} for member in (M, N)
    ]


REPLACED = (
    "Static member with groupInstanceId=i and unknown member id joins group g in {} state. "
    f"Replacing previously mapped member {M} with this groupInstanceId."
)
NO_REBALANCE = "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a rebalance."
CANDIDATES = (Cause.STATIC_REJOIN, Cause.STATIC_FENCED)


@pytest.mark.parametrize(
    "text", [NO_REBALANCE, NO_REBALANCE.replace("the selected protocol", "selectProtocol").replace("trigger a", "trigger")]
)
def test_a_static_return_without_a_rebalance_has_the_group_of_the_line_before(text: str) -> None:
    other = PREFIX.replace("partition=3", "partition=4")
    evidence = parsed(
        PREFIX + REPLACED.format("Stable"), other + NO_REBALANCE, f"{other}Group h with generation 4 is now empty.", PREFIX + text
    )
    assert evidence[1:] == [{"kind": Kind.STATIC_REPLACED, "group": "g", "instance_id": "i", "reason": text, "candidates": CANDIDATES}]


def test_a_static_return_in_scala_names_the_new_member() -> None:
    start = f"{SCALA}Static member Some(i) of group g with unknown member id rejoins, assigning new member id {N}, "
    text = "Static member which joins during Stable stage and doesn't affect selectProtocol will not trigger rebalance."
    [evidence] = parsed(f"{start}while old member {M} will be removed.", SCALA + text)
    assert evidence == {
        "kind": Kind.STATIC_REPLACED,
        "group": "g",
        "instance_id": "i",
        "member_id": N,
        "reason": text,
        "candidates": CANDIDATES,
    }


def test_a_static_return_with_a_new_assignor_is_a_rebalance() -> None:
    change = f"Group's selectedProtocol will change because static member {M} with instance id i joined with change of protocol"
    reason = f"{change}; client reason: not provided"
    evidence = parsed(
        PREFIX + REPLACED.format("Stable"),
        f"{PREFIX}Preparing to rebalance group g in state PreparingRebalance with old generation 2 (reason: {reason}).",
    )
    assert [(each["kind"], each["trigger"]) for each in evidence] == [(Kind.TRIGGER, Cause.ASSIGNOR_CHANGE)]


def test_a_static_return_during_a_rebalance_is_coalesced() -> None:
    [evidence] = parsed(PREFIX + REPLACED.format("PreparingRebalance"))
    assert evidence == {"kind": Kind.STATIC_REPLACED, "group": "g", "instance_id": "i", "coalesced": True, "candidates": CANDIDATES}


def test_a_replaced_process_that_goes_on_is_fenced() -> None:
    fenced = f"Request memberId={M} for static member with groupInstanceId=i is fenced by existing memberId={N} during operation Heartbeat"
    evidence = parsed(PREFIX + REPLACED.format("Stable"), PREFIX + NO_REBALANCE, PREFIX + fenced)
    assert evidence[1] == {
        "kind": Kind.STATIC_FENCED,
        "group": "g",
        "member_id": M,
        "instance_id": "i",
        "reason": fenced,
        "trigger": Cause.STATIC_FENCED,
    }
