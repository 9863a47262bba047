"""Each line of the KIP-848 coordinator gives its evidence or is known to be none."""

from typing import Any

import pytest

from ottla.core.diagnosis.evidence.broker_log.parser import BrokerLogParser
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
OWNED = "Static member m with instance id i cannot join the group because the instance id is owned by member n."
LEAVES = (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC)


def parsed(*texts: str) -> list[Facts]:
    parser = BrokerLogParser()
    found: list[Facts] = []
    for text in texts:
        facts = parser.parse(PREFIX + text)
        assert facts is not None, f"not understood: {text}"
        found += [{name: value for name, value in each.items() if value is not None and value != ()} for each in facts]
    return found


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "Member m joins the consumer group using the consumer protocol.",
            {"kind": Kind.MEMBER_JOINED, "member_id": "m", "protocol": "consumer"},
        ),
        (
            "Static member m with instance id i joins the consumer group using the consumer protocol.",
            {"kind": Kind.MEMBER_JOINED, "member_id": "m", "instance_id": "i", "protocol": "consumer"},
        ),
        (
            "Static member with instance id i re-joins the consumer group using the classic protocol. "
            "Created a new member m to replace the existing member n.",
            {
                "kind": Kind.STATIC_REPLACED,
                "member_id": "m",
                "instance_id": "i",
                "protocol": "classic",
                "candidates": (Cause.STATIC_REJOIN, Cause.STATIC_FENCED),
            },
        ),
        ("Member m left the consumer group.", {"kind": Kind.MEMBER_LEFT, "member_id": "m", "candidates": LEAVES}),
        (
            "Static member m with instance id i temporarily left the consumer group.",
            {"kind": Kind.MEMBER_LEFT, "member_id": "m", "instance_id": "i", "trigger": Cause.STATIC_REJOIN},
        ),
        (
            "Static Member m with instance id i left the consumer group.",
            {"kind": Kind.MEMBER_LEFT, "member_id": "m", "instance_id": "i", "candidates": LEAVES},
        ),
        (
            "Dynamic member m has left group through explicit `LeaveGroup` request; client reason: member was removed by an admin",
            {"kind": Kind.MEMBER_LEFT, "member_id": "m", "client_reason": "member was removed by an admin", "trigger": Cause.ADMIN},
        ),
        (
            "Member m fenced from the group because the member session expired.",
            {
                "kind": Kind.MEMBER_REMOVED,
                "member_id": "m",
                "reason": "the member session expired",
                "candidates": (Cause.EXPIRE_HEARTBEAT, Cause.POLL_TIMEOUT),
            },
        ),
        (
            "Member m fenced from the group because it failed to transition from epoch 7 within 8000ms.",
            {
                "kind": Kind.MEMBER_REMOVED,
                "member_id": "m",
                "reason": "it failed to transition from epoch 7 within 8000ms",
                "trigger": Cause.JOIN_TIMEOUT,
                "evidence": {"member_epoch": 7, "rebalance_timeout_ms": 8000},
            },
        ),
        (
            "Member m fenced from the group because the member failed to sync within timeout.",
            {
                "kind": Kind.MEMBER_REMOVED,
                "member_id": "m",
                "reason": "the member failed to sync within timeout",
                "trigger": Cause.SYNC_TIMEOUT,
            },
        ),
        (
            OWNED,
            {
                "kind": Kind.STATIC_FENCED,
                "member_id": "m",
                "instance_id": "i",
                "trigger": Cause.STATIC_FENCED,
                "reason": f"[GroupId g] {OWNED}",
            },
        ),
        ("Bumped group epoch to 5 with metadata hash -8042.", {"kind": Kind.JOIN_COMPLETED, "generation": 5}),
        ("Bumped group epoch to 5.", {"kind": Kind.JOIN_COMPLETED, "generation": 5}),
        (
            "Computed a new target assignment for epoch 5 with 'uniform' assignor in 3ms.",
            {"kind": Kind.SYNC_COMPLETED, "generation": 5, "protocol": "uniform", "evidence": {"assignor_ms": 3}},
        ),
    ],
)
def test_lines_that_are_evidence(text: str, facts: dict[str, Any]) -> None:
    assert parsed(f"[GroupId g] {text}") == [{"group": "g", "group_type": "consumer"} | facts]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Loaded consumer group g with 3 members.", {"kind": Kind.LOADED, "group_type": "consumer", "member_count": 3}),
        ("[GroupId=g] Unloaded group metadata for group epoch 7.", {"kind": Kind.UNLOADED, "group_type": "consumer", "generation": 7}),
        ("[GroupId g] Converted the classic group to a consumer group.", {"kind": Kind.CONVERTED, "group_type": "consumer"}),
        ("[GroupId g] Converted the empty consumer group to a classic group.", {"kind": Kind.CONVERTED, "group_type": "classic"}),
    ],
)
def test_lines_about_the_whole_group(text: str, facts: dict[str, Any]) -> None:
    [found] = parsed(text)
    assert {name: found.get(name) for name in ("group", *facts)} == {"group": "g"} | facts


@pytest.mark.parametrize(
    "text",
    [
        "[GroupId g] Scanned 4 topics to refresh regular expressions [a.*, b] in 3ms.",
        "[GroupId g] Dynamic member with unknown member id joins the consumer group. "
        "Created a new member id m and requesting the member to rejoin with this id.",
        "[GroupId g] Creating a simple consumer group via manual offset commit.",
        "[GroupId g][MemberId m] Member joins the streams group.",
        "Loaded share group g with 3 members.",
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
    ],
)
def test_lines_that_are_known_and_no_evidence(text: str) -> None:
    assert parsed(text) == []


def kinds(*texts: str) -> list[tuple[Kind, tuple[str, ...]]]:
    return [(facts["kind"], facts.get("candidates", ())) for facts in parsed(*texts)]


def test_a_new_metadata_hash_alone_says_that_topics_changed() -> None:
    bumps = [f"[GroupId g] Bumped group epoch to {epoch} with metadata hash {number}." for epoch, number in ((2, 11), (3, 11), (4, 12))]
    changed = (Kind.TOPICS_CHANGED, (Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION))
    assert kinds(*bumps) == [(Kind.JOIN_COMPLETED, ()), (Kind.JOIN_COMPLETED, ()), changed, (Kind.JOIN_COMPLETED, ())]


def test_a_new_metadata_hash_by_a_member_is_no_change_of_topics() -> None:
    texts = [
        "[GroupId g] Bumped group epoch to 2 with metadata hash 11.",
        "[GroupId g] Member m left the consumer group.",
        "[GroupId g] Bumped group epoch to 3 with metadata hash 0.",
    ]
    assert Kind.TOPICS_CHANGED not in [kind for kind, _ in kinds(*texts)]


def test_epochs_of_share_groups_are_none() -> None:
    texts = [
        "[GroupId g] Member m joins the share group using the share protocol.",
        "[GroupId g] Bumped group epoch to 2 with metadata hash 11.",
    ]
    assert parsed(*texts) == []
