"""The messages of Java consumers, classic and KIP-848, with the prefix that names client and group."""

from typing import Any

import pytest

from ottla.core.client.group.evidence import Evidence, generation_text
from ottla.core.client.group.values import GroupSettings
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.java import java_facts
from ottla.core.diagnosis.evidence.client_log.message_rule import ClientPast
from ottla.core.diagnosis.evidence.client_reasons import REMOVED_BEFORE
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

PREFIX = "[Consumer clientId=c, groupId=g] "
GENERATION = "Generation{generationId=3, memberId='c-1', protocol='range'}"
MOVED = "Member m with epoch {} transitioned from {} to {}."
RETURNS = {"candidates": REMOVED_BEFORE.candidates}


def parsed(*texts: str) -> list[Facts]:
    past = ClientPast()
    found: list[Facts] = []
    for text in texts:
        facts = java_facts(PREFIX + text, past)
        assert facts is not None
        found += [{name: value for name, value in each.items() if value is not None and value != ()} for each in facts]
    return found


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            f"Successfully joined group with generation {GENERATION}",
            {"kind": Kind.CLIENT_JOINED, "generation": 3, "member_id": "c-1", "protocol": "range"},
        ),
        (
            f"Successfully synced group in generation {GENERATION}",
            {"kind": Kind.CLIENT_JOINED, "generation": 3, "member_id": "c-1", "protocol": "range"},
        ),
        (
            "Request joining group due to: cached metadata has changed from (version8: {a=[NO_RACK]}) at the beginning "
            "of the rebalance to ()",
            {
                "kind": Kind.CLIENT_REJOINS,
                "trigger": Cause.TOPIC_CHANGE,
                "client_reason": "cached metadata has changed from (version8: {a=[NO_RACK]}) at the beginning of the rebalance to ()",
            },
        ),
        (
            "Request joining group due to: group is already rebalancing",
            {"kind": Kind.CLIENT_REJOINS, "client_reason": "group is already rebalancing"},
        ),
        (
            "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than",
            {"kind": Kind.CLIENT_LOST, "trigger": Cause.POLL_TIMEOUT, "reason": "consumer poll timeout has expired."},
        ),
        (
            "Consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than",
            {"kind": Kind.CLIENT_LOST, "trigger": Cause.POLL_TIMEOUT, "reason": "Consumer poll timeout has expired."},
        ),
        (
            "Member c-1 sending LeaveGroup request to coordinator b:9092 (id: 2147483646 rack: null isFenced: false) "
            "due to the consumer is being closed",
            {"kind": Kind.CLIENT_LEAVES, "member_id": "c-1", "client_reason": "the consumer is being closed", "trigger": Cause.LEAVE_CLOSE},
        ),
        (
            f"Attempt to heartbeat with {GENERATION} and group instance id Optional.empty failed due to "
            f"UNKNOWN_MEMBER_ID, resetting generation",
            {"kind": Kind.CLIENT_LOST, "generation": 3, "member_id": "c-1", "reason": "UNKNOWN_MEMBER_ID"} | RETURNS,
        ),
        (
            "Resetting generation due to: encountered ILLEGAL_GENERATION from OFFSET_COMMIT response",
            {"kind": Kind.CLIENT_LOST, "reason": "ILLEGAL_GENERATION"} | RETURNS,
        ),
        (
            "Resetting generation and member id due to: encountered FENCED_INSTANCE_ID from JOIN_GROUP response",
            {"kind": Kind.CLIENT_LOST, "reason": "FENCED_INSTANCE_ID", "trigger": Cause.STATIC_FENCED},
        ),
        (
            "Group coordinator b:9092 (id: 1 rack: null) is unavailable or invalid due to cause: session timed out "
            "without receiving a heartbeat "
            "response. isDisconnected: false. Rediscovery will be attempted.",
            {
                "kind": Kind.CLIENT_LOST,
                "reason": "session timed out without receiving a heartbeat response",
                "candidates": (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE),
            },
        ),
        (
            "Time between subsequent calls to poll() was longer than the configured max.poll.interval.ms, exceeded "
            "approximately by 3041 ms. "
            "Member m will rejoin the group now.",
            {"kind": Kind.CLIENT_REJOINS, "member_id": "m", "trigger": Cause.POLL_TIMEOUT, "evidence": {"exceeded_ms": 3041}},
        ),
    ],
)
def test_messages_that_are_evidence(text: str, facts: dict[str, Any]) -> None:
    assert parsed(text) == [{"client_id": "c", "group": "g"} | facts]


@pytest.mark.parametrize(
    "text",
    [
        "(Re-)joining group",
        "Request joining group due to: need to re-join with the given member-id: c-1",
        "Resetting generation and member id due to: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response",
        "Successfully joined group with generation Generation{generationId=-1, memberId='', protocol='null'}",
        "Subscribed to topic(s): orders",
        MOVED.format(0, "UNSUBSCRIBED", "JOINING"),
    ],
)
def test_messages_that_are_no_evidence(text: str) -> None:
    assert parsed(text) == []


LEAVES = "Member c-1 sending LeaveGroup request to coordinator b:9092 (id: 1 rack: null) due to "
PROACTIVELY = "Request joining group due to: consumer pro-actively leaving the group"


def test_a_leave_is_no_return_unless_the_poll_timed_out() -> None:
    close, timeout = f"{LEAVES}the consumer is being closed", f"{LEAVES}consumer poll timeout has expired."
    assert [(each["kind"], each["trigger"]) for each in parsed(close, PROACTIVELY)] == [(Kind.CLIENT_LEAVES, Cause.LEAVE_CLOSE)]
    assert [(each["kind"], each["trigger"]) for each in parsed(timeout, PROACTIVELY)] == [
        (Kind.CLIENT_LEAVES, Cause.POLL_TIMEOUT),
        (Kind.CLIENT_REJOINS, Cause.POLL_TIMEOUT),
    ]


def test_a_member_of_kip_848_joins_each_epoch_once() -> None:
    texts = [
        MOVED.format(2, "JOINING", "RECONCILING"),
        MOVED.format(2, "ACKNOWLEDGING", "STABLE"),
        MOVED.format(3, "STABLE", "RECONCILING"),
    ]
    assert [(each["kind"], each["generation"], each["member_id"]) for each in parsed(*texts)] == [
        (Kind.CLIENT_JOINED, 2, "m"),
        (Kind.CLIENT_JOINED, 3, "m"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "kind", "trigger"),
    [
        ("LEAVING", "STALE", Kind.CLIENT_LEAVES, Cause.POLL_TIMEOUT),
        ("LEAVING", "UNSUBSCRIBED", Kind.CLIENT_LEAVES, Cause.LEAVE_CLOSE),
        ("STABLE", "FENCED", Kind.CLIENT_LOST, None),
    ],
)
def test_a_member_of_kip_848_leaves_and_is_fenced(before: str, after: str, kind: Kind, trigger: Cause | None) -> None:
    [facts] = parsed(MOVED.format(-1, before, after))
    assert (facts["kind"], facts.get("trigger"), facts["member_id"]) == (kind, trigger, "m")


def test_the_prefix_may_name_an_instance_and_a_worker() -> None:
    text = f"Successfully joined group with generation {GENERATION}"
    [facts] = java_facts(f"[Consumer instanceId=pod-1, clientId=c, groupId=a, b] {text}", ClientPast()) or ()
    assert (facts["instance_id"], facts["client_id"], facts["group"]) == ("pod-1", "c", "a, b")
    [facts] = java_facts(f"[Worker clientId=connect-1, groupId=connect] {text}", ClientPast()) or ()
    assert (facts["client_id"], facts["group"]) == ("connect-1", "connect")
    assert java_facts(text, ClientPast()) is None


def test_what_ottlas_consumers_write_is_understood() -> None:
    evidence = Evidence(GroupSettings(group_id="g"), now_ms=0)
    generation = generation_text(3, "c-1", "range")
    evidence.rejoin_requested("subscription has changed")
    evidence.joined(generation, 10)
    evidence.assigned(generation)
    evidence.session_over(46_000)
    evidence.removed("UNKNOWN_MEMBER_ID", "HEARTBEAT", generation, 46_000, 46_010)
    evidence.rejoin_requested("encountered UNKNOWN_MEMBER_ID from HEARTBEAT response")
    evidence.removed("ILLEGAL_GENERATION", "OFFSET_COMMIT", generation, 46_000, 46_020)
    evidence.leaving("c-1", 1, "consumer poll timeout has expired.")
    evidence.rejoin_requested("consumer pro-actively leaving the group")
    written = [line for line in evidence.log_lines if isinstance(line, str)]
    found = parsed(*written)
    assert [(facts["kind"], facts.get("trigger")) for facts in found] == [
        (Kind.CLIENT_REJOINS, Cause.SUBSCRIPTION),
        (Kind.CLIENT_JOINED, None),
        (Kind.CLIENT_JOINED, None),
        (Kind.CLIENT_LOST, None),
        (Kind.CLIENT_LOST, None),
        (Kind.CLIENT_REJOINS, Cause.EXPIRE_HEARTBEAT),
        (Kind.CLIENT_LOST, None),
        (Kind.CLIENT_LEAVES, Cause.POLL_TIMEOUT),
        (Kind.CLIENT_REJOINS, Cause.POLL_TIMEOUT),
    ]
    assert found[4]["member_id"] == "c-1"
