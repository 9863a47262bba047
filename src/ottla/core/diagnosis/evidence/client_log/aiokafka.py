"""The messages of aiokafka's own (aiokafka.consumer.group_coordinator); those that it shares are with kafka-python's.

It leaves without a word when it was not polled in time: `LeaveGroup request succeeded` with no new process or subscription after it.
"""

import re
from collections.abc import Sequence
from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.message_rule import GENERATION, ClientPast, rule
from ottla.core.diagnosis.evidence.client_reasons import Meaning
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

TOPIC_NAME: Final = re.compile(r"'([\w.-]{1,249})'")


def _joined(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_JOINED, "group": found["group"], "generation": int(found["generation"])}
    return (facts | {"member_id": found["member"].strip()},)


def _leads(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """The leader is the only member that names the assignor, right after it joined."""
    (client_id, group), joined = next(reversed(past.joined.items()), ((None, None), None))
    if joined is None or client_id is not None:
        return ()
    facts: Facts = {"kind": Kind.CLIENT_JOINED, "group": group, "generation": joined.generation}
    return (facts | {"member_id": joined.member_id, "protocol": found["protocol"]},)


def _left(_found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    facts: Facts = {"kind": Kind.CLIENT_LEAVES, "group": past.only_group()}
    if past.is_unsubscribed:
        return (facts | {"trigger": Cause.LEAVE_CLOSE},)
    past.is_left = True
    return (facts | {"candidates": (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT)},)


def _starts(_found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """A new consumer: what left before had been asked to."""
    past.is_left = False
    return ()


def _metadata_changed(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """Other partitions of the same topics; a leader has other topics too when a member has subscribed to them."""
    before, now = (set(TOPIC_NAME.findall(found[name])) for name in ("before", "now"))
    past.next_meaning = Meaning(Cause.TOPIC_CHANGE) if before == now else Meaning(None, (Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION))
    return ()


AIOKAFKA_RULES: Final = (
    rule(rf"Joined group '(?P<group>.{{1,1000}})' \(generation {GENERATION}\) with member_id (?P<member>.{{1,1000}})", _joined),
    rule(r"Elected group leader -- performing partition assignments using (?P<protocol>[\w.-]{1,200})", _leads),
    rule(r"LeaveGroup request succeeded", _left),
    rule(r"Metadata for topic has changed from (?P<before>\{.{0,50000}?\}) to (?P<now>\{.{0,50000}?\})", _metadata_changed),
    rule(r"Discovered coordinator ", _starts),
)
