"""The messages of kafka-python (kafka.coordinator), and those that aiokafka, which began as its copy, shares with it.

Texts of kafka-python 3.0, which says which member it is only when it joins: what names no group is given that of a log with one group.
"""

import re
from collections.abc import Sequence
from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.message_rule import GENERATION, ClientPast, meaning_facts, rule
from ottla.core.diagnosis.evidence.client_reasons import NOTHING, REMOVED_BEFORE, Meaning
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind


def _joined(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_JOINED, "group": found["group"], "generation": int(found["generation"])}
    return (facts | {"member_id": found["member"], "protocol": found["protocol"]},)


def _rejoins(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """Written before each JoinGroup, also of the same joining. aiokafka leaves without a word when it was not polled in time."""
    group, meaning = found["group"].strip(), past.next_meaning
    if past.is_left:
        meaning = Meaning(Cause.POLL_TIMEOUT)
    is_first = group not in past.rejoining and (None, group) in past.joined
    past.next_meaning, past.is_left = NOTHING, False
    if meaning == NOTHING and not is_first:
        return ()
    past.rejoining.add(group)
    return ({"kind": Kind.CLIENT_REJOINS, "group": group} | meaning_facts(meaning),)


def _follows_up(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    past.next_meaning = Meaning(Cause.COOP_FOLLOWUP)
    return ()


def _poll_timeout(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    past.next_meaning = Meaning(Cause.POLL_TIMEOUT)
    return ({"kind": Kind.CLIENT_LOST, "group": past.only_group(), "trigger": Cause.POLL_TIMEOUT, "reason": found[0]},)


def _silent_coordinator(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """No answer to heartbeats for the session timeout: the process was stopped, or the coordinator was out of reach."""
    facts = {"kind": Kind.CLIENT_LOST, "group": past.only_group(), "reason": found[0]}
    return (facts | {"candidates": (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE)},)


def _leaves(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """By `close`, `unsubscribe`, or after a poll timeout, which was logged before."""
    meaning = past.next_meaning if past.next_meaning.trigger == Cause.POLL_TIMEOUT else Meaning(Cause.LEAVE_CLOSE)
    facts = {"kind": Kind.CLIENT_LEAVES, "group": found["group"], "member_id": found["member"]}
    return (facts | meaning_facts(meaning),)


def _lost(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    group = found.groupdict().get("group") or past.only_group()
    return ({"kind": Kind.CLIENT_LOST, "group": group, "reason": found[0], "candidates": REMOVED_BEFORE.candidates},)


def _fenced(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    groups = found.groupdict()
    facts = {
        "kind": Kind.CLIENT_LOST,
        "group": groups.get("group") or past.only_group(),
        "trigger": Cause.STATIC_FENCED,
        "reason": found[0],
    }
    return (facts | {"instance_id": groups.get("instance")},)


GROUP: Final = r"(?P<group>.{1,1000}?)"

KAFKA_PYTHON_RULES: Final = (
    rule(
        rf"Successfully joined group {GROUP} <Generation {GENERATION} "
        r"\(member_id: (?P<member>.{0,1000}), protocol: (?P<protocol>.{0,200})\)>",
        _joined,
    ),
    rule(r"\(Re-\)joining group (?P<group>.{1,1000})", _rejoins),
    rule(r"Triggering follow-up rebalance for group ", _follows_up),
    rule(r"Consumer poll timeout has expired\. This means .{1,200} max_poll_interval_ms", _poll_timeout),
    rule(r"Heartbeat session expired(?:,| -) marking coordinator dead", _silent_coordinator),
    rule(rf"Leaving consumer group {GROUP} \(member (?P<member>.{{0,1000}})\)\.", _leaves),
    rule(rf"Heartbeat failed for group {GROUP}: generation id is not ? current\.", _lost),
    rule(r"Heartbeat(?:: | failed: )local member_id was not recognized", _lost),
    rule(rf"SyncGroup for group {GROUP} failed due to \[Error (?:22|25)\]", _lost),
    rule(rf"Heartbeat failed for group {GROUP} due to fenced id error: (?P<instance>.{{1,1000}})", _fenced),
    rule(rf"SyncGroup for group {GROUP} failed due to fenced id error: (?P<instance>.{{1,1000}})", _fenced),
    rule(rf"OffsetCommit for group {GROUP} failed due to fenced id error: (?P<instance>.{{1,1000}})", _fenced),
    rule(r"Heartbeat thread caught fenced group_instance_id (?P<instance>.{1,1000}) error", _fenced),
)
