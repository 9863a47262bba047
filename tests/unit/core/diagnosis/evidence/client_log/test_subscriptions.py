"""Subscriptions in the logs of clients: other topics, a pattern that matches others, and the end of a subscription."""

from datetime import UTC

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.parser import client_log_reader
from ottla.core.diagnosis.evidence.model import Evidence, Kind

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
