"""What clients say about their subscriptions: other topics than before are a reason to join again, with a pattern because topics changed.

Java, kafka-python and aiokafka log each subscription with its topics; kafka-python and aiokafka also what a pattern matches whenever that
changes. The first one of a consumer says nothing: it has not joined yet, or is a new process in the same log.
"""

import re
from collections.abc import Sequence
from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.message_rule import MEMBERS_MAX, ClientPast, meaning_facts, rule
from ottla.core.diagnosis.evidence.client_reasons import NOTHING, Meaning
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

TOPIC: Final = re.compile(r"(?<![\w.-])(?!frozenset)[\w.-]{1,249}(?![\w.-])")
TOPICS_CHARACTERS_MAX: Final = 100_000


def _changed(found: re.Match[str], past: ClientPast) -> Meaning:
    """Why the member joins again, if it does: its topics are others than those it said before."""
    topics = frozenset(TOPIC.findall(found["topics"][:TOPICS_CHARACTERS_MAX]))
    before = past.subscribed.get(past.client_id)
    past.subscribed[past.client_id] = topics
    if len(past.subscribed) > MEMBERS_MAX:
        del past.subscribed[next(iter(past.subscribed))]
    if not before or not topics or before == topics:
        return NOTHING
    return Meaning(Cause.TOPIC_CHANGE if past.client_id in past.by_pattern else Cause.SUBSCRIPTION)


def _uses_pattern(_found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    if len(past.by_pattern) < MEMBERS_MAX:
        past.by_pattern.add(past.client_id)
    return ()


def _java_subscribes(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    meaning = _changed(found, past)
    return () if meaning == NOTHING else ({"kind": Kind.CLIENT_REJOINS, "reason": found[0]} | meaning_facts(meaning),)


def _python_subscribes(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """`(Re-)joining group` follows. A member that had left before was asked to: this is a new subscription or a new process."""
    past.is_left = False
    meaning = _changed(found, past)
    if meaning != NOTHING:
        past.next_meaning = meaning
    return ()


def _unsubscribes(_found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """aiokafka leaves after this line; kafka-python and Java say themselves why they leave."""
    past.is_unsubscribed = True
    past.subscribed.pop(past.client_id, None)
    return ()


JAVA_SUBSCRIPTIONS: Final = (
    rule(r"Subscribed to topic\(s\): (?P<topics>.*)", _java_subscribes),
    rule(r"Subscribed to pattern: ", _uses_pattern),
)
PYTHON_SUBSCRIPTIONS: Final = (
    rule(r"Updating subscribed topics to: (?P<topics>.*)", _python_subscribes),
    rule(r"(?:Subscribing to|Subscribed to topic) pattern: ", _uses_pattern),
    rule(r"Unsubscribed all topics or patterns", _unsubscribes),
)
