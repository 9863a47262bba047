"""The messages of aiokafka, whose poll timeout is silent."""

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.message_rule import ClientPast, first_facts
from ottla.core.diagnosis.evidence.client_log.parser import PYTHON_RULES
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

JOINED = "Joined group 'my group' (generation 3) with member_id c-1"
LEFT = "LeaveGroup request succeeded"
JOINS = "(Re-)joining group my group"


def parsed(*texts: str) -> list[Facts]:
    past = ClientPast()
    return [past.complete(facts) for text in texts for facts in first_facts(text, PYTHON_RULES, past)]


def test_joining() -> None:
    assert parsed(JOINED) == [{"kind": Kind.CLIENT_JOINED, "group": "my group", "generation": 3, "member_id": "c-1"}]


def test_a_leader_names_the_assignor_of_the_generation_that_it_joined() -> None:
    leads = "Elected group leader -- performing partition assignments using roundrobin"
    joined, led = parsed(JOINED, leads)
    assert led == joined | {"protocol": "roundrobin"}
    assert parsed(leads) == []


def test_a_leave_may_be_a_close_or_a_poll_timeout() -> None:
    _, left = parsed(JOINED, LEFT)
    assert (left["kind"], left["group"], left["candidates"]) == (Kind.CLIENT_LEAVES, "my group", (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT))


def test_a_return_of_the_same_consumer_was_a_poll_timeout() -> None:
    assert parsed(JOINED, LEFT, JOINS)[-1]["trigger"] == Cause.POLL_TIMEOUT


def test_a_new_process_in_the_same_log_was_a_close() -> None:
    texts = [JOINED, LEFT, "Updating subscribed topics to: frozenset({'a'})", "Discovered coordinator 1 for group my group", JOINS]
    assert parsed(*texts)[-1]["trigger"] is None


def test_changed_metadata_is_why_it_joins_again() -> None:
    evidence = parsed(JOINED, "Metadata for topic has changed from {'orders': 4} to {'orders': 6}. ", JOINS)
    assert (evidence[-1]["kind"], evidence[-1]["trigger"]) == (Kind.CLIENT_REJOINS, Cause.TOPIC_CHANGE)


def test_a_leader_knows_other_topics_when_a_member_has_subscribed_to_them() -> None:
    evidence = parsed(JOINED, "Metadata for topic has changed from {'orders': 4} to {'orders': 4, 'bills': 1}. ", JOINS)
    assert (evidence[-1]["trigger"], evidence[-1]["candidates"]) == (None, (Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION))
