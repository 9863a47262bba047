"""The messages of librdkafka, as its callback and Python's logging write them."""

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.librdkafka import librdkafka_facts
from ottla.core.diagnosis.evidence.client_log.message_rule import ClientPast
from ottla.core.diagnosis.evidence.client_reasons import REMOVED_BEFORE
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

MAXPOLL = (
    "Application maximum poll interval (300000ms) exceeded by 97ms (adjust max.poll.interval.ms for long-running "
    "message processing): leaving group"
)
STATE = 'Group "my group (a)" {} ({}) in state up (join-state steady) with 2 assigned partition(s){}: {}'


def parsed(*messages: str) -> list[Facts]:
    past = ClientPast()
    found: list[Facts] = []
    for message in messages:
        facts = librdkafka_facts(message, past)
        assert facts is not None
        found += facts
    return found


@pytest.mark.parametrize("prefix", ["MAXPOLL|c#consumer-1| [thrd:main]: ", "MAXPOLL [c#consumer-1] [thrd:main]: "])
def test_the_poll_interval_was_exceeded(prefix: str) -> None:
    [facts] = parsed(prefix + MAXPOLL)
    assert (facts["kind"], facts["trigger"], facts["client_id"]) == (Kind.CLIENT_LOST, Cause.POLL_TIMEOUT, "c")
    assert facts["evidence"] == {"max_poll_interval_ms": 300_000, "exceeded_ms": 97}


def test_the_session_timed_out() -> None:
    text = (
        "Consumer group session timed out (in join-state steady) after 6021 ms without a successful response from "
        "the group coordinator (broker 1, "
    )
    [facts] = parsed(f"SESSTMOUT|c#consumer-1| [thrd:main]: {text}last error was Success): revoking assignment and rejoining group")
    assert (facts["kind"], facts["candidates"]) == (Kind.CLIENT_LOST, (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE))
    assert facts["evidence"] == {"silent_ms": 6021}


@pytest.mark.parametrize(
    ("text", "kind", "trigger", "candidates"),
    [
        (STATE.format("is rebalancing", "EAGER", "", "rebalance in progress"), Kind.CLIENT_REJOINS, None, ()),
        (
            STATE.format("initiating rebalance", "EAGER", "", "Metadata for subscribed topic(s) has changed"),
            Kind.CLIENT_REJOINS,
            Cause.TOPIC_CHANGE,
            (),
        ),
        (STATE.format("initiating rebalance", "EAGER", "", "unsubscribe"), Kind.CLIENT_LEAVES, Cause.LEAVE_CLOSE, ()),
        (
            STATE.format("initiating rebalance", "COOPERATIVE", " (lost)", "max.poll.interval.ms exceeded"),
            Kind.CLIENT_REJOINS,
            Cause.POLL_TIMEOUT,
            (),
        ),
        (STATE.format("is rebalancing", "EAGER", " (lost)", "illegal generation"), Kind.CLIENT_LOST, None, REMOVED_BEFORE.candidates),
        (
            STATE.format("is rebalancing", "EAGER", " (lost)", "consumer fenced by newer instance"),
            Kind.CLIENT_LOST,
            Cause.STATIC_FENCED,
            (),
        ),
    ],
)
def test_reasons_of_rebalances(text: str, kind: Kind, trigger: str | None, candidates: tuple[str, ...]) -> None:
    [facts] = parsed(f"REBALANCE|c#consumer-1| [thrd:main]: {text}")
    assert (facts["kind"], facts["group"], facts["trigger"], facts["candidates"]) == (kind, "my group (a)", trigger, candidates)


def test_the_group_is_that_of_the_clients_other_messages() -> None:
    joined = "JoinGroup response: GenerationId 2, Protocol range, LeaderId m1 (me), my MemberId m1, member metadata count 1: "
    prefix = "c#consumer-1| [thrd:main]: "
    facts = parsed(
        f"REBALANCE|{prefix}{STATE.format('initiating rebalance', 'NONE', '', 'Metadata for subscribed topic(s) has changed')}",
        f"JOINGROUP|{prefix}{joined.replace('Id 2', 'Id -1')}Broker: Not coordinator",
        f"JOINGROUP|{prefix}{joined}(no error)",
    )
    assert facts == [
        {"client_id": "c", "group": "my group (a)", "kind": Kind.CLIENT_JOINED, "generation": 2, "member_id": "m1", "protocol": "range"}
    ]


def test_epochs_of_kip_848_are_events_when_they_change() -> None:
    text = 'HEARTBEAT|c#consumer-1| [thrd:main]: ConsumerGroupHeartbeat response received for member id "m" with epoch {}'
    assert [facts["generation"] for facts in parsed(*(text.format(epoch) for epoch in (0, 2, 2, 3)))] == [2, 3]


@pytest.mark.parametrize("message", ["", MAXPOLL, "FAIL|rdkafka#producer-1| [thrd:x]: Disconnected"])
def test_other_messages_are_not_a_consumers(message: str) -> None:
    assert librdkafka_facts(message, ClientPast()) is None


@pytest.mark.parametrize(("before", "cause"), [(0, Cause.SUBSCRIPTION), (1, Cause.TOPIC_CHANGE)])
def test_a_new_subscription_is_no_changed_topic(before: int, cause: Cause) -> None:
    changed = (
        f'SUBSCRIPTION|c#consumer-1| [thrd:main]: Group "my group (a)": effective subscription list changed from {before} to 2 topic(s):'
    )
    rejoins = "REBALANCE|c#consumer-1| [thrd:main]: " + STATE.format(
        "initiating rebalance", "EAGER", "", "Metadata for subscribed topic(s) has changed"
    )
    assert [facts["trigger"] for facts in parsed(changed, rejoins, rejoins)] == [cause, Cause.TOPIC_CHANGE]
