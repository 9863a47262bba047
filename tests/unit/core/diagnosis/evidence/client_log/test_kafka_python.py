"""The messages of kafka-python, and those that it shares with aiokafka."""

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.kafka_python import KAFKA_PYTHON_RULES
from ottla.core.diagnosis.evidence.client_log.message_rule import ClientPast, first_facts
from ottla.core.diagnosis.evidence.client_reasons import REMOVED_BEFORE
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

JOINED = "Successfully joined group my group <Generation 3 (member_id: c-1, protocol: range)>"
POLL_TIMEOUT = (
    "Consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer "
    "than the configured max_poll_interval_ms, "
)


def parsed(*texts: str) -> list[Facts]:
    past = ClientPast()
    return [past.complete(facts) for text in texts for facts in first_facts(text, KAFKA_PYTHON_RULES, past)]


def test_a_poll_timeout_is_the_cause_of_the_leave_and_the_return() -> None:
    evidence = parsed(
        JOINED, POLL_TIMEOUT, "Leaving consumer group my group (member c-1).", "(Re-)joining group my group", "(Re-)joining group my group"
    )
    assert [(each["kind"], each["group"], each.get("trigger"), each["member_id"], each["generation"]) for each in evidence] == [
        (Kind.CLIENT_JOINED, "my group", None, "c-1", 3),
        (Kind.CLIENT_LOST, "my group", Cause.POLL_TIMEOUT, "c-1", 3),
        (Kind.CLIENT_LEAVES, "my group", Cause.POLL_TIMEOUT, "c-1", 3),
        (Kind.CLIENT_REJOINS, "my group", Cause.POLL_TIMEOUT, "c-1", 3),
    ]


def test_a_leave_alone_is_a_close() -> None:
    assert [each.get("trigger") for each in parsed(JOINED, "Leaving consumer group my group (member c-1).")] == [None, Cause.LEAVE_CLOSE]


@pytest.mark.parametrize(
    ("text", "trigger", "candidates"),
    [
        ("Heartbeat session expired, marking coordinator dead", None, (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE)),
        ("Heartbeat session expired - marking coordinator dead", None, (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE)),
        ("Heartbeat failed for group my group: generation id is not  current.", None, REMOVED_BEFORE.candidates),
        ("Heartbeat: local member_id was not recognized; this consumer needs to re-join", None, REMOVED_BEFORE.candidates),
        ("Heartbeat failed: local member_id was not recognized; resetting and re-joining group", None, REMOVED_BEFORE.candidates),
        (
            "SyncGroup for group my group failed due to [Error 22] IllegalGenerationError; reseting generation.",
            None,
            REMOVED_BEFORE.candidates,
        ),
        ("Heartbeat failed for group my group due to fenced id error: pod-1", Cause.STATIC_FENCED, ()),
        ("Heartbeat thread caught fenced group_instance_id pod-1 error", Cause.STATIC_FENCED, ()),
    ],
)
def test_what_a_member_lost_it_by(text: str, trigger: str | None, candidates: tuple[str, ...]) -> None:
    _, lost = parsed(JOINED, text)
    assert (lost["kind"], lost["group"], lost["generation"], lost["member_id"]) == (Kind.CLIENT_LOST, "my group", 3, "c-1")
    assert (lost.get("trigger"), lost.get("candidates", ())) == (trigger, candidates)


def test_the_cooperative_follow_up_is_named() -> None:
    text = "Triggering follow-up rebalance for group my group to complete cooperative move of 2 partition(s)"
    assert [each.get("trigger") for each in parsed(JOINED, text, "(Re-)joining group my group")] == [None, Cause.COOP_FOLLOWUP]


def test_the_first_join_is_no_return() -> None:
    assert parsed("(Re-)joining group my group") == []


def test_a_follower_says_that_it_joins_again_once() -> None:
    evidence = parsed(JOINED, "Group my group is rebalancing; rejoining.", "(Re-)joining group my group", "(Re-)joining group my group")
    assert [(each["kind"], each.get("trigger")) for each in evidence] == [(Kind.CLIENT_JOINED, None), (Kind.CLIENT_REJOINS, None)]
