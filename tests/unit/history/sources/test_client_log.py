"""What is remembered of a client's earlier messages completes later ones, and has a limit."""

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.membership.evidence import Evidence as OwnEvidence
from ottla.client.membership.evidence import generation_text
from ottla.client.membership.values import GroupSettings
from ottla.history.sources.client_log import (
    KAFKA_PYTHON_RULES,
    MEMBERS_MAX,
    PYTHON_RULES,
    ClientLogParser,
    ClientPast,
    Rules,
    client_log_reader,
    java_facts,
    librdkafka_facts,
    rule,
)
from ottla.history.sources.evidence import Cause, Evidence, Kind
from ottla.history.sources.log_lines import REMOVED_BEFORE, Facts


def joined(client: str, group: str | None, generation: int) -> dict[str, object]:
    return {
        "kind": Kind.CLIENT_JOINED,
        "client_id": client,
        "group": group,
        "generation": generation,
        "member_id": f"{client}-1",
        "library": "java",
    }


def test_what_names_no_member_has_that_of_the_clients_last_join() -> None:
    past = ClientPast()
    past.complete(joined("a", "g", 3))
    past.complete(joined("b", "g", 4))
    assert past.complete({"kind": Kind.CLIENT_LOST, "client_id": "a", "group": "g"})["member_id"] == "a-1"
    assert past.complete({"kind": Kind.CLIENT_LOST, "client_id": "b", "group": "g"})["generation"] == 4
    assert "member_id" not in past.complete({"kind": Kind.CLIENT_LOST, "client_id": "c", "group": "g"})


def test_the_group_is_known_where_there_is_one_only() -> None:
    past = ClientPast()
    assert past.only_group() is None
    past.complete(joined("a", "g", 3))
    assert past.only_group() == "g"
    past.complete(joined("a", "h", 3))
    assert past.only_group() is None


def test_members_are_forgotten_beyond_the_limit() -> None:
    past = ClientPast()
    for number in range(MEMBERS_MAX + 2):
        past.complete(joined(str(number), "g", 1))
        past.is_new_epoch(str(number), 1)
    assert len(past.joined) == len(past.epochs) == MEMBERS_MAX


def test_the_first_rule_that_fits_is_taken() -> None:
    rules = Rules(rule("a", lambda found, _: ({"first": found[0]},)), rule("ab", lambda found, _: ({"second": found[0]},)))
    assert rules.first_facts("ab", ClientPast()) == ({"first": "a"},)
    assert rules.first_facts("b", ClientPast()) == ()


def test_the_first_message_of_a_line_counts() -> None:
    java, python = "[Consumer clientId=c, groupId=g] Request joining group due to: ", "(Re-)joining group "
    find = ClientLogParser().find
    assert find(f"INFO {java}{python}g") == find(f"INFO {python}{java}g") == 5
    assert find(f"INFO {java.replace('R', 'r')}g") == find("INFO nothing of a client") == -1


# Subscriptions in the logs of clients: other topics, a pattern that matches others, and the end of a subscription.

AT = "2026-11-22 14:00:00,000 INFO "
JAVA = AT + "[Consumer clientId=c, groupId=g] "
JOINED = "Successfully joined group with generation Generation{generationId=3, memberId='c-1', protocol='range'}"
PYTHON_JOINED = AT + "kafka.coordinator Successfully joined group g <Generation 3 (member_id: c-1, protocol: range)>"
AIO_JOINED = AT + "aiokafka.consumer.group_coordinator Joined group 'g' (generation 3) with member_id c-1"
PYTHON_JOINS = AT + "kafka.coordinator (Re-)joining group g"


def read(*lines: str) -> list[Evidence]:
    return [each for each in client_log_reader(clock="c", zone=UTC).read(lines) if each.kind is not Kind.CLIENT_JOINED]


def test_java_subscribes_to_other_topics() -> None:
    subscribed = JAVA + "Subscribed to topic(s): orders{} (org.apache.kafka.clients.consumer.internals.AsyncKafkaConsumer)"
    assert read(subscribed.format(""), JAVA + JOINED, subscribed.format("")) == [], "the first, and the same again"
    (found,) = read(subscribed.format(""), JAVA + JOINED, subscribed.format(", bills"))
    assert (found.kind, found.trigger, found.group, found.generation) == (Kind.CLIENT_REJOINS, Cause.SUBSCRIPTION, "g", 3)


@pytest.mark.parametrize("topics", ["['orders'{}]", "frozenset({{'orders'{}}})"])
def test_python_clients_join_again_after_they_subscribed_to_other_topics(topics: str) -> None:
    updating = AT + "kafka.consumer.subscription_state Updating subscribed topics to: " + topics
    (found,) = read(updating.format(""), PYTHON_JOINED, updating.format(", 'bills'"), PYTHON_JOINS)
    assert (found.kind, found.trigger) == (Kind.CLIENT_REJOINS, Cause.SUBSCRIPTION)
    (found,) = read(updating.format(""), PYTHON_JOINED, updating.format(""), PYTHON_JOINS)
    assert found.trigger is None


@pytest.mark.parametrize("pattern", ["Subscribing to pattern: /^o.*/", "Subscribed to topic pattern: re.compile('^o.*')"])
def test_a_pattern_matches_other_topics_when_topics_change(pattern: str) -> None:
    updating = AT + "kafka.consumer.subscription_state Updating subscribed topics to: ['o1'{}]"
    (found,) = read(AT + pattern, updating.format(""), PYTHON_JOINED, updating.format(", 'o2'"), PYTHON_JOINS)
    assert found.trigger == Cause.TOPIC_CHANGE


def test_an_aiokafka_member_that_unsubscribed_has_left_on_purpose() -> None:
    unsubscribed = AT + "aiokafka.consumer.consumer Unsubscribed all topics or patterns and assigned partitions"
    left = AT + "aiokafka.consumer.group_coordinator LeaveGroup request succeeded"
    assert [each.trigger for each in read(AIO_JOINED, unsubscribed, left)] == [Cause.LEAVE_CLOSE]
    (open_,) = read(AIO_JOINED, unsubscribed, AIO_JOINED, left)
    assert open_.candidates == (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT)


# The messages of Java consumers, classic and KIP-848, with the prefix that names client and group.

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
            {"kind": Kind.CLIENT_JOINED, "generation": 3, "member_id": "c-1", "protocol": "range", "library": "java"},
        ),
        (
            f"Successfully synced group in generation {GENERATION}",
            {"kind": Kind.CLIENT_JOINED, "generation": 3, "member_id": "c-1", "protocol": "range", "library": "java"},
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
    evidence = OwnEvidence(GroupSettings(group_id="g"), now_ms=0)
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


# The messages of librdkafka, as its callback and Python's logging write them.

MAXPOLL = (
    "Application maximum poll interval (300000ms) exceeded by 97ms (adjust max.poll.interval.ms for long-running "
    "message processing): leaving group"
)
STATE = 'Group "my group (a)" {} ({}) in state up (join-state steady) with 2 assigned partition(s){}: {}'


def parsed_librdkafka(*messages: str) -> list[Facts]:
    past = ClientPast()
    found: list[Facts] = []
    for message in messages:
        facts = librdkafka_facts(message, past)
        assert facts is not None
        found += facts
    return found


@pytest.mark.parametrize("prefix", ["MAXPOLL|c#consumer-1| [thrd:main]: ", "MAXPOLL [c#consumer-1] [thrd:main]: "])
def test_the_poll_interval_was_exceeded(prefix: str) -> None:
    [facts] = parsed_librdkafka(prefix + MAXPOLL)
    assert (facts["kind"], facts["trigger"], facts["client_id"]) == (Kind.CLIENT_LOST, Cause.POLL_TIMEOUT, "c")
    assert facts["evidence"] == {"max_poll_interval_ms": 300_000, "exceeded_ms": 97}


def test_the_session_timed_out() -> None:
    text = (
        "Consumer group session timed out (in join-state steady) after 6021 ms without a successful response from "
        "the group coordinator (broker 1, "
    )
    [facts] = parsed_librdkafka(
        f"SESSTMOUT|c#consumer-1| [thrd:main]: {text}last error was Success): revoking assignment and rejoining group"
    )
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
    [facts] = parsed_librdkafka(f"REBALANCE|c#consumer-1| [thrd:main]: {text}")
    assert (facts["kind"], facts["group"], facts["trigger"], facts["candidates"]) == (kind, "my group (a)", trigger, candidates)


def test_the_group_is_that_of_the_clients_other_messages() -> None:
    joined = "JoinGroup response: GenerationId 2, Protocol range, LeaderId m1 (me), my MemberId m1, member metadata count 1: "
    prefix = "c#consumer-1| [thrd:main]: "
    facts = parsed_librdkafka(
        f"REBALANCE|{prefix}{STATE.format('initiating rebalance', 'NONE', '', 'Metadata for subscribed topic(s) has changed')}",
        f"JOINGROUP|{prefix}{joined.replace('Id 2', 'Id -1')}Broker: Not coordinator",
        f"JOINGROUP|{prefix}{joined}Broker: Unknown member",
        f"JOINGROUP|{prefix}{joined}(no error)",
    )
    assert facts == [
        {
            "client_id": "c",
            "group": "my group (a)",
            "kind": Kind.CLIENT_JOINED,
            "generation": 2,
            "member_id": "m1",
            "protocol": "range",
            "library": "librdkafka",
        }
    ]


def test_epochs_of_kip_848_are_events_when_they_change() -> None:
    text = 'HEARTBEAT|c#consumer-1| [thrd:main]: ConsumerGroupHeartbeat response received for member id "m" with epoch {}'
    assert [facts["generation"] for facts in parsed_librdkafka(*(text.format(epoch) for epoch in (0, 2, 2, 3)))] == [2, 3]


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
    assert [facts["trigger"] for facts in parsed_librdkafka(changed, rejoins, rejoins)] == [cause, Cause.TOPIC_CHANGE]


# The messages of kafka-python, and those that it shares with aiokafka.

JOINED_KAFKA_PYTHON = "Successfully joined group my group <Generation 3 (member_id: c-1, protocol: range)>"
POLL_TIMEOUT = (
    "Consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer "
    "than the configured max_poll_interval_ms, "
)


def parsed_kafka_python(*texts: str) -> list[Facts]:
    past = ClientPast()
    return [past.complete(facts) for text in texts for facts in Rules(*KAFKA_PYTHON_RULES).first_facts(text, past)]


def test_a_poll_timeout_is_the_cause_of_the_leave_and_the_return() -> None:
    evidence = parsed_kafka_python(
        JOINED_KAFKA_PYTHON,
        POLL_TIMEOUT,
        "Leaving consumer group my group (member c-1).",
        "(Re-)joining group my group",
        "(Re-)joining group my group",
    )
    assert [(each["kind"], each["group"], each.get("trigger"), each["member_id"], each["generation"]) for each in evidence] == [
        (Kind.CLIENT_JOINED, "my group", None, "c-1", 3),
        (Kind.CLIENT_LOST, "my group", Cause.POLL_TIMEOUT, "c-1", 3),
        (Kind.CLIENT_LEAVES, "my group", Cause.POLL_TIMEOUT, "c-1", 3),
        (Kind.CLIENT_REJOINS, "my group", Cause.POLL_TIMEOUT, "c-1", 3),
    ]


def test_a_leave_alone_is_a_close() -> None:
    assert [each.get("trigger") for each in parsed_kafka_python(JOINED_KAFKA_PYTHON, "Leaving consumer group my group (member c-1).")] == [
        None,
        Cause.LEAVE_CLOSE,
    ]


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
    _, lost = parsed_kafka_python(JOINED_KAFKA_PYTHON, text)
    assert (lost["kind"], lost["group"], lost["generation"], lost["member_id"]) == (Kind.CLIENT_LOST, "my group", 3, "c-1")
    assert (lost.get("trigger"), lost.get("candidates", ())) == (trigger, candidates)


def test_the_cooperative_follow_up_is_named() -> None:
    text = "Triggering follow-up rebalance for group my group to complete cooperative move of 2 partition(s)"
    assert [each.get("trigger") for each in parsed_kafka_python(JOINED_KAFKA_PYTHON, text, "(Re-)joining group my group")] == [
        None,
        Cause.COOP_FOLLOWUP,
    ]


def test_the_first_join_is_no_return() -> None:
    assert parsed_kafka_python("(Re-)joining group my group") == []


def test_a_follower_says_that_it_joins_again_once() -> None:
    evidence = parsed_kafka_python(
        JOINED_KAFKA_PYTHON, "Group my group is rebalancing; rejoining.", "(Re-)joining group my group", "(Re-)joining group my group"
    )
    assert [(each["kind"], each.get("trigger")) for each in evidence] == [(Kind.CLIENT_JOINED, None), (Kind.CLIENT_REJOINS, None)]


# The messages of aiokafka, whose poll timeout is silent.

JOINED_AIOKAFKA = "Joined group 'my group' (generation 3) with member_id c-1"
LEFT = "LeaveGroup request succeeded"
JOINS = "(Re-)joining group my group"


def parsed_aiokafka(*texts: str) -> list[Facts]:
    past = ClientPast()
    return [past.complete(facts) for text in texts for facts in PYTHON_RULES.first_facts(text, past)]


def test_joining() -> None:
    assert parsed_aiokafka(JOINED_AIOKAFKA) == [
        {"kind": Kind.CLIENT_JOINED, "group": "my group", "generation": 3, "member_id": "c-1", "library": "aiokafka"}
    ]


def test_a_leader_names_the_assignor_of_the_generation_that_it_joined() -> None:
    leads = "Elected group leader -- performing partition assignments using roundrobin"
    joined, led = parsed_aiokafka(JOINED_AIOKAFKA, leads)
    assert led == joined | {"protocol": "roundrobin"}
    assert parsed_aiokafka(leads) == []


def test_a_leave_may_be_a_close_or_a_poll_timeout() -> None:
    _, left = parsed_aiokafka(JOINED_AIOKAFKA, LEFT)
    assert (left["kind"], left["group"], left["candidates"]) == (Kind.CLIENT_LEAVES, "my group", (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT))


def test_a_return_of_the_same_consumer_was_a_poll_timeout() -> None:
    assert parsed_aiokafka(JOINED_AIOKAFKA, LEFT, JOINS)[-1]["trigger"] == Cause.POLL_TIMEOUT


def test_a_new_process_in_the_same_log_was_a_close() -> None:
    texts = [JOINED_AIOKAFKA, LEFT, "Updating subscribed topics to: frozenset({'a'})", "Discovered coordinator 1 for group my group", JOINS]
    assert parsed_aiokafka(*texts)[-1]["trigger"] is None


def test_changed_metadata_is_why_it_joins_again() -> None:
    evidence = parsed_aiokafka(JOINED_AIOKAFKA, "Metadata for topic has changed from {'orders': 4} to {'orders': 6}. ", JOINS)
    assert (evidence[-1]["kind"], evidence[-1]["trigger"]) == (Kind.CLIENT_REJOINS, Cause.TOPIC_CHANGE)


def test_a_leader_knows_other_topics_when_a_member_has_subscribed_to_them() -> None:
    evidence = parsed_aiokafka(JOINED_AIOKAFKA, "Metadata for topic has changed from {'orders': 4} to {'orders': 4, 'bills': 1}. ", JOINS)
    assert (evidence[-1]["trigger"], evidence[-1]["candidates"]) == (None, (Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION))


# Logs of real clients beside an Apache Kafka 4.3.0, each alone and all mixed, are understood.

LOGS = Path(__file__).parents[3] / "data" / "logs"


def read_logs(*names: str) -> list[Evidence]:
    reader = client_log_reader(clock="c", zone=UTC)
    evidence = list(reader.read_chunk(b"".join((LOGS / f"{name}.log").read_bytes() for name in names)))
    assert reader.counts.skipped == {}
    return evidence


@pytest.mark.parametrize(
    ("name", "generations"),
    [("java-4.3.0", [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]), ("kafka-python-3.0", [1, 3, 4]), ("aiokafka-0.14", [1, 4, 5])],
)
def test_generations_that_clients_joined(name: str, generations: list[int]) -> None:
    joined = {
        each.generation
        for each in read_logs(name)
        if each.kind is Kind.CLIENT_JOINED and each.group in ("java-classic", "kafka-python", "aiokafka")
    }
    assert sorted(joined, key=lambda generation: generation or 0) == generations


@pytest.mark.parametrize("name", ["java-4.3.0", "kafka-python-3.0", "aiokafka-0.14", "librdkafka-2.16"])
def test_each_client_says_that_it_was_not_polled(name: str) -> None:
    kinds = (Kind.CLIENT_LOST, Kind.CLIENT_REJOINS, Kind.CLIENT_LEAVES)
    assert Cause.POLL_TIMEOUT in {each.trigger for each in read_logs(name) if each.kind in kinds}


def test_logs_of_all_clients_may_be_in_one_file() -> None:
    """Only what names no group, and had it from being alone, knows less."""
    names = ("java-4.3.0", "kafka-python-3.0", "aiokafka-0.14", "librdkafka-2.16")
    together, alone = read_logs(*names), [each for name in names for each in read_logs(name)]
    assert [(each.at_ms, each.kind, each.trigger) for each in together] == [(each.at_ms, each.kind, each.trigger) for each in alone]


def test_a_line_without_a_time_is_counted() -> None:
    reader = client_log_reader(clock="c", zone=UTC)
    assert list(reader.read(["WARNING:kafka.coordinator:Heartbeat session expired, marking coordinator dead"])) == []
    assert str(reader.counts) == "0 of 1 lines were understood; skipped: 1 no time, or no date"


def test_lines_of_the_application_are_no_clients() -> None:
    reader = client_log_reader(clock="c", zone=UTC)
    assert list(reader.read(["2026-11-22 14:31:07,123 INFO app a group of people polled", "2026-11-22 14:31:07,123 my heartbeat"])) == []
    assert (reader.counts.lines, reader.counts.understood, reader.counts.skipped) == (2, 0, {})


@given(st.text(max_size=300))
def test_any_message_is_read(text: str) -> None:
    parser = ClientLogParser()
    for start in (
        "[Consumer clientId=c, groupId=g] ",
        "REBALANCE|c#consumer-1| [thrd:main]: Group ",
        "(Re-)joining group ",
        "Heartbeat failed",
        "",
    ):
        parser.find(start + text)
        parser.parse(start + text)


# A member that may not join.

NO_ASSIGNOR = "The group member's supported protocols are incompatible with those of existing members"


@pytest.mark.parametrize(
    "lines",
    [
        [JAVA + "JoinGroup failed due to fatal error: " + NO_ASSIGNOR],
        [AT + "kafka.coordinator Attempt to join group g failed due to fatal error: InconsistentGroupProtocolError"],
        [AIO_JOINED, AT + "aiokafka Attempt to join group failed due to fatal error: [Error 23] InconsistentGroupProtocolError"],
        [
            '%7|1763800000.000|CGRPSTATE|c#consumer-1| [thrd:main]: Group "g" changed state init -> up',
            "%7|1763800000.123|JOINGROUP|c#consumer-1| [thrd:main]: JoinGroup response: GenerationId -1, Protocol , LeaderId , "
            "my MemberId , member metadata count 0: Broker: Inconsistent group protocol",
        ],
    ],
)
def test_a_member_whose_assignor_nobody_shares_is_refused(lines: list[str]) -> None:
    (found,) = read(*lines)
    assert (found.kind, found.trigger, found.group) == (Kind.JOIN_REFUSED, Cause.FAILED_JOIN, "g")
    assert (found.reason or "").startswith("INCONSISTENT_GROUP_PROTOCOL")


def test_an_instance_id_that_is_not_released() -> None:
    (found,) = read(JAVA + "ConsumerGroupHeartbeat failed due to unreleased instance id i: owned by member n.")
    assert (found.kind, found.instance_id, found.candidates) == (Kind.JOIN_REFUSED, "i", (Cause.STATIC_FENCED, Cause.FAILED_JOIN))
