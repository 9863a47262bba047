"""Pieces of the coordinator's lines: lists of members and optional values as Java and Scala print them."""

import gzip
import re
from collections import Counter
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.sources.broker_log import (
    ENTRIES_MAX,
    MEMBER,
    BrokerLogParser,
    Memory,
    broker_log_reader,
    member_ids,
    option,
    remember,
    rule,
    trigger_facts,
)
from ottla.history.sources.evidence import Cause, Evidence, Kind
from ottla.history.sources.log_lines import Facts

UUID = "0a1b2c3d-0000-4000-8000-00000000000"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ()),
        ("[]", ()),
        ("m1", ("m1",)),
        ("[m1, m2]", ("m1", "m2")),
        ("Set(m1, m2)", ("m1", "m2")),
        ("HashSet(m1)", ("m1",)),
        (f"a, b-{UUID}1, c-{UUID}2", (f"a, b-{UUID}1", f"c-{UUID}2")),
    ],
)
def test_lists_of_members(text: str, ids: tuple[str, ...]) -> None:
    assert member_ids(text) == ids


@pytest.mark.parametrize(
    ("text", "value"), [(None, None), ("None", None), ("null", None), ("Some(a)", "a"), ("Some(a))", "a)"), ("a", "a")]
)
def test_optional_values(text: str | None, value: str | None) -> None:
    assert option(text) == value


def test_a_member_id_ends_with_its_uuid() -> None:
    found = re.match(rf"{MEMBER} in group", f"c in group x-{UUID}1 in group g")
    assert found is not None
    assert found["member"] == f"c in group x-{UUID}1"


def test_a_rule_is_for_the_whole_message_with_or_without_a_stop() -> None:
    made = rule("[Word", r" (?P<n>\d+)", lambda found, _: ({"n": found["n"]},))
    texts = ["[Word 1", "[Word 2.", "[Word 3 more", "Word 4"]
    found = [made.facts(each, Memory())[0]["n"] for text in texts if (each := made.pattern.match(text))]
    assert (made.word, found) == ("[Word", ["1", "2"])


# What is remembered of earlier lines has a limit.

WHOLE_UUID = "0a1b2c3d-0000-4000-8000-000000000001"


def test_the_oldest_is_forgotten_first() -> None:
    entries: dict[int, int] = {}
    for number in range(ENTRIES_MAX + 5):
        remember(entries, number, number)
    assert (len(entries), min(entries)) == (ENTRIES_MAX, 5)


def test_the_client_id_of_a_dynamic_member_is_in_its_id() -> None:
    memory = Memory()
    assert memory.client_of(f"my client-{WHOLE_UUID}") is None
    assert memory.learn_client(f"my client-{WHOLE_UUID}") == "my client"
    assert memory.client_of(f"my client-{WHOLE_UUID}") == "my client"
    assert memory.learn_client("chosen-by-the-client") is None


# The reasons of rebalances, of Apache Kafka 4.x and of older releases, and the causes they tell.

M = "c-0a1b2c3d-0000-4000-8000-000000000001"
N = "d-0a1b2c3d-0000-4000-8000-000000000002"
JOINS = (Cause.JOIN_NEW, Cause.COLD_START, Cause.RESTART_DYNAMIC)
LEAVES = (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC)
REJOINS = (Cause.SUBSCRIPTION, Cause.TOPIC_CHANGE, Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS)


def facts_of(reason: str, memory: Memory | None = None) -> Facts | None:
    return trigger_facts(reason, group="g", memory=memory or Memory())


@pytest.mark.parametrize(
    ("reason", "member_id", "trigger", "candidates"),
    [
        (f"Adding new member {M} with group instance id null; client reason: not provided", M, None, JOINS),
        (f"Adding new member {M} with group instance id None; client reason: not provided", M, None, JOINS),
        (f"Adding new member {M} with group instanceid None", M, None, JOINS),
        (f"Adding new member {M}", M, None, JOINS),
        (f"explicit `LeaveGroup` request for ({M}) members.", M, None, LEAVES),
        (f"removing member {M} on LeaveGroup", M, None, LEAVES),
        (f"Removing member {M} on LeaveGroup; client reason: consumer poll timeout has expired.", M, Cause.POLL_TIMEOUT, ()),
        (f"removing member {M} on heartbeat expiration.", M, Cause.EXPIRE_HEARTBEAT, ()),
        (f"removing member {M} on heartbeat expiration", M, Cause.EXPIRE_HEARTBEAT, ()),
        (f"Leader {M} re-joining group during Stable; client reason: cached metadata has changed", M, Cause.TOPIC_CHANGE, ()),
        (f"leader {M} re-joining group during Stable", M, None, REJOINS),
        (f"Updating metadata for member {M} during CompletingRebalance; client reason: not provided", M, None, REJOINS),
        (f"Updating metadata for member {M}", M, None, REJOINS),
        (f"Removing [{M}] on pending sync request expiration", M, Cause.SYNC_TIMEOUT, ()),
        (f"Removing Set({M}) on pending sync request expiration", M, Cause.SYNC_TIMEOUT, ()),
        (f"Error UNKNOWN_SERVER_ERROR when storing group assignmentduring SyncGroup (member: {M}).", M, Cause.STORE_ERROR, ()),
        (f"error when storing group assignment during SyncGroup (member: {M})", M, Cause.STORE_ERROR, ()),
        ("Downgrade group g from consumer to classic for member leaving.", None, Cause.MIGRATION, ()),
        ("Downgrade group g from consumer to classic with stale assignment.", None, Cause.MIGRATION, ()),
    ],
)
def test_reasons(reason: str, member_id: str | None, trigger: str | None, candidates: tuple[str, ...]) -> None:
    facts = facts_of(reason)
    assert facts is not None
    assert (facts.get("member_id"), facts.get("trigger"), facts.get("candidates", ())) == (member_id, trigger, candidates)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Updating metadata for static member M with instance id I; client reason: not provided", None),
        (
            "Group's selectedProtocol will change because static member M with instance id I joined with change of protocol; "
            "client reason: not provided",
            Cause.ASSIGNOR_CHANGE,
        ),
        (
            "Group's selectedProtocol will change because static member M with instance id Some(I) joined with change of protocol",
            Cause.ASSIGNOR_CHANGE,
        ),
    ],
)
def test_static_members_are_named_by_their_instance(reason: str, cause: Cause | None) -> None:
    facts = facts_of(reason)
    assert facts is not None
    assert (facts["member_id"], facts["instance_id"], facts["trigger"]) == ("M", "I", cause)


@pytest.mark.parametrize(
    ("reason", "evidence"),
    [
        (
            "Freshly-loaded group g (size 3) is over capacity 2. Rebalancing in order to give a chance for consumers to commit offsets",
            {"group_max_size": 2, "group_size": 3},
        ),
        (
            "Freshly-loaded group is over capacity (2). Rebalacing in order to give a chance for consumers to commit offsets",
            {"group_max_size": 2},
        ),
    ],
)
def test_groups_over_their_capacity(reason: str, evidence: dict[str, int]) -> None:
    assert facts_of(reason) == {"trigger": Cause.CAPACITY, "evidence": evidence}


def test_a_leave_has_the_reasons_of_its_members() -> None:
    memory = Memory()
    memory.leave_reasons = {("g", M): "the consumer is being closed", ("g", N): "consumer poll timeout has expired."}
    facts = facts_of(f"explicit `LeaveGroup` request for ({M}, {N}) members.", memory)
    assert facts == {"trigger": None, "candidates": (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT), "evidence": {"members_left": 2}}
    assert memory.leave_reasons == {}


def test_members_removed_by_their_instance_were_removed_by_an_admin() -> None:
    facts = facts_of("explicit `LeaveGroup` request for () members.")
    assert facts is not None
    assert facts["trigger"] == Cause.ADMIN


def test_the_client_of_a_dynamic_member_is_known_from_then_on() -> None:
    memory = Memory()
    facts_of(f"Adding new member {M} with group instance id null; client reason: not provided", memory)
    facts = facts_of(f"removing member {M} on heartbeat expiration.", memory)
    assert facts is not None
    assert facts["client_id"] == "c"


def test_other_reasons_are_not_known() -> None:
    assert facts_of("just because") is None


# Each line of the classic coordinator, as Apache Kafka 2.x to 4.x write it, gives its evidence or is known to be none.

PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
SCALA = "[GroupCoordinator 0]: "
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


# Each line of the KIP-848 coordinator gives its evidence or is known to be none.

OWNED = "Static member m with instance id i cannot join the group because the instance id is owned by member n."


def parsed_modern(*texts: str) -> list[Facts]:
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
                "kind": Kind.JOIN_REFUSED,
                "member_id": "m",
                "instance_id": "i",
                "candidates": (Cause.STATIC_FENCED, Cause.FAILED_JOIN),
                "reason": f"UNRELEASED_INSTANCE_ID: [GroupId g] {OWNED}",
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
def test_lines_of_kip_848_that_are_evidence(text: str, facts: dict[str, Any]) -> None:
    assert parsed_modern(f"[GroupId g] {text}") == [{"group": "g", "group_type": "consumer"} | facts]


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
    [found] = parsed_modern(text)
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
def test_lines_of_kip_848_that_are_known_and_no_evidence(text: str) -> None:
    assert parsed_modern(text) == []


def kinds(*texts: str) -> list[tuple[Kind, tuple[str, ...]]]:
    return [(facts["kind"], facts.get("candidates", ())) for facts in parsed_modern(*texts)]


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
    assert parsed_modern(*texts) == []


# Group ids, client ids and reasons are strangers' text and come out as they went in; a log of Apache Kafka 4.3.0 is understood.

LOG = Path(__file__).parents[3] / "data" / "logs" / "apache-kafka-4.3.0.log"
RECORDED = Path(__file__).parents[3] / "data" / "diagnosis"
SCENARIOS = Path(__file__).parents[3] / "scenarios"
LOGGER = " (org.apache.kafka.coordinator.group.GroupMetadataManager)"

NASTY = [
    "in state",
    " in group ",
    ") members.",
    "(reason: ",
    " with ",
    "generation 3",
    "'",
    '"',
    "[",
    "]",
    "] ",
    "(",
    ")",
    ", ",
    ".",
    " ",
    "null",
    "ä",
    "{}",
]
NAMES = (
    st.lists(st.one_of(st.sampled_from(NASTY), st.text("abc-_.9", max_size=4)), min_size=1, max_size=6)
    .map("".join)
    .map(lambda name: f"g{name}g")
)
REASONS = st.lists(st.one_of(st.sampled_from([*NASTY, "; client reason: "]), st.text("abc", max_size=4)), max_size=6).map("".join)
NUMBERS = st.integers(0, 2**31 - 1)


def parse_one(message: str) -> Evidence | None:
    reader = broker_log_reader(clock="c", zone=UTC)
    found = list(reader.read([f"[2026-11-22 14:31:07,123] INFO {PREFIX}{message}{LOGGER}"]))
    return found[0] if len(found) == 1 else None


@given(group=NAMES, generation=NUMBERS, count=NUMBERS)
def test_generations_of_any_group(group: str, generation: int, count: int) -> None:
    stable = parse_one(f"Stabilized group {group} generation {generation} with {count % 10**6} members.")
    assert stable is not None
    assert (stable.kind, stable.group, stable.generation, stable.member_count) == (Kind.JOIN_COMPLETED, group, generation, count % 10**6)
    empty = parse_one(f"Group {group} with generation {generation} is now empty.")
    assert empty is not None
    assert (empty.kind, empty.group, empty.generation) == (Kind.EMPTIED, group, generation)


@given(group=NAMES, client=NAMES, reason=REASONS, generation=NUMBERS)
def test_joins_of_any_client(group: str, client: str, reason: str, generation: int) -> None:
    member_id = f"{client}-{WHOLE_UUID}"
    why = f"Adding new member {member_id} with group instance id null; client reason: {reason}"
    join = parse_one(f"Preparing to rebalance group {group} in state PreparingRebalance with old generation {generation} (reason: {why}).")
    assert join is not None
    assert (join.kind, join.group, join.generation, join.reason) == (Kind.TRIGGER, group, generation, why)
    assert (join.member_id, join.client_id, join.instance_id, join.client_reason) == (member_id, client, None, reason)


@given(group=NAMES, client=NAMES)
def test_members_of_any_group_and_client(group: str, client: str) -> None:
    member_id = f"{client}-{WHOLE_UUID}"
    for message, kind in (
        (f"Member {member_id} in group {group} has failed, removing it from the group.", Kind.MEMBER_REMOVED),
        (f"Pending dynamic member with id {member_id} joins group {group} in Stable state. Adding to the group now.", Kind.MEMBER_JOINED),
        (f"[GroupId {group}] Member {member_id} left the consumer group.", Kind.MEMBER_LEFT),
        (f"[GroupId {group}] Member {member_id} joins the consumer group using the consumer protocol.", Kind.MEMBER_JOINED),
    ):
        evidence = parse_one(message)
        assert evidence is not None
        assert (evidence.kind, evidence.group, evidence.member_id) == (kind, group, member_id)


@given(group=NAMES, client=NAMES, generation=NUMBERS)
def test_assignments_of_any_leader(group: str, client: str, generation: int) -> None:
    leader = f"{client}-{WHOLE_UUID}"
    evidence = parse_one(
        f"Assignment received from leader {leader} for group {group} for generation {generation}. "
        "The group has 3 members, 0 of which are static."
    )
    assert evidence is not None
    assert (evidence.kind, evidence.group, evidence.generation, evidence.leader) == (Kind.SYNC_COMPLETED, group, generation, leader)


@pytest.mark.parametrize("text", ["", "]", "no prefix", "[GroupCoordinator id=1]", PREFIX, f"{PREFIX}Something else happened."])
def test_other_messages_are_not_understood(text: str) -> None:
    assert BrokerLogParser().parse(text) is None


@given(st.text(max_size=200))
def test_any_message_is_read(text: str) -> None:
    parser = BrokerLogParser()
    for start in ("Preparing to rebalance group ", "Member ", "[GroupId ", "[Group ", "Static member ", "Group "):
        parser.parse(PREFIX + start + text)


def test_a_hostile_line_is_refused_soon() -> None:
    """Long ids with the text between them a thousand times: the patterns' lengths are limited."""
    line = f"Member {'x in group ' * 50_000} has failed, removing it from the grou"
    assert BrokerLogParser().parse(PREFIX + line) is None


def test_the_log_of_an_apache_kafka_is_understood() -> None:
    reader = broker_log_reader(clock="server.log", zone=UTC)
    evidence = list(reader.read_chunk(LOG.read_bytes()))
    assert reader.counts.skipped == {}
    assert reader.counts.mentions_kafka
    assert reader.counts.understood > 150
    assert {each.group for each in evidence} == {
        "java-classic",
        "java-static",
        "java-next",
        "next-static",
        "java-coop",
        "rd group (a) in state",
        "kafka-python",
        "aiokafka",
    }
    rounds = [each.generation for each in evidence if each.group == "java-classic" and each.kind is Kind.SYNC_COMPLETED]
    assert rounds == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]
    causes = Counter(each.trigger for each in evidence if each.group == "java-classic" and each.kind is Kind.TRIGGER)
    assert causes[Cause.POLL_TIMEOUT] == 1
    assert causes[Cause.EXPIRE_HEARTBEAT] == 1
    assert causes[Cause.LEAVE_CLOSE] == 2
    static = [(each.kind, each.group) for each in evidence if each.kind in (Kind.STATIC_REPLACED, Kind.STATIC_FENCED, Kind.JOIN_REFUSED)]
    assert static == [
        (Kind.STATIC_REPLACED, "java-static"),
        (Kind.STATIC_REPLACED, "next-static"),
        (Kind.JOIN_REFUSED, "next-static"),
        (Kind.STATIC_REPLACED, "java-static"),
        (Kind.STATIC_FENCED, "java-static"),
    ]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*/broker.log.gz")), ids=lambda path: path.parent.name)
def test_each_line_of_the_recorded_incidents_is_understood(path: Path) -> None:
    reader = broker_log_reader(clock="server.log", zone=UTC)
    evidence = sum(1 for _ in reader.read_chunk(gzip.decompress(path.read_bytes())))
    assert evidence > 10
    assert reader.counts.skipped == {}


def test_each_line_of_ottlas_own_coordinator_is_understood() -> None:
    """The lines in the scenarios, which are compared with Apache Kafka's."""
    parser, messages = BrokerLogParser(), set()
    for path in SCENARIOS.rglob("*.txt"):
        messages |= {found[1] for found in re.finditer(r"^ *log {2,}(.*)$", path.read_text(), re.MULTILINE)}
    assert len(messages) > 100
    assert [message for message in sorted(messages) if parser.parse(PREFIX + message) is None] == []
