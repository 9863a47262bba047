"""The messages of Kafka's Java clients: `[Consumer clientId=c, groupId=g] ...`, classic and KIP-848, and Connect's workers.

Texts of kafka-clients 4.3.0: AbstractCoordinator, ConsumerCoordinator, AbstractMembershipManager, AbstractHeartbeatRequestManager. Ottla's
consumers write those of AbstractCoordinator.
"""

import re
from collections.abc import Sequence
from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.message_rule import GENERATION, MEMBERS_MAX, ClientPast, first_facts, meaning_facts, rule
from ottla.core.diagnosis.evidence.client_log.subscriptions import JAVA_SUBSCRIPTIONS
from ottla.core.diagnosis.evidence.client_reasons import REMOVED_BEFORE, leave_meaning, rejoin_meaning
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

PREFIX: Final = re.compile(
    r"\[(?:Consumer|Worker) (?:instanceId=(?P<instance>.{1,1000}?), )?clientId=(?P<client>.{0,1000}?)"
    r"(?:, groupId=(?P<group>.{0,1000}?))?\] "
    r"(?=[A-Z(%c])"
)
"""A message begins with a capital letter, with `(Re-)joining` or with `consumer poll timeout`."""

GENERATION_TEXT: Final = (
    rf"Generation\{{generationId={GENERATION}, memberId='(?P<member>.{{0,1000}})', protocol='?(?P<protocol>.{{0,200}}?)'?\}}"
)
SECOND_STEP: Final = "need to re-join with the given member-id"
"""Every dynamic member's first join is answered with an id to join with."""
AFTER_LEAVING: Final = "consumer pro-actively leaving the group"
MEMBER: Final = r"Member (?P<member>\S{1,1000}?)"
EPOCH: Final = r"with epoch (?P<epoch>-?\d{1,10})"


def java_facts(message: str, past: ClientPast) -> Sequence[Facts] | None:
    """What a message of a Java client says; None where it is none that is known."""
    prefix = PREFIX.match(message)
    if prefix is None:
        return None
    owner = {"group": prefix["group"], "client_id": prefix["client"] or None, "instance_id": prefix["instance"]}
    past.client_id = prefix["client"]
    return [owner | facts for facts in first_facts(message[prefix.end() :], JAVA_RULES, past)]


def _joined(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    generation = int(found["generation"])
    if generation < 0:
        return ()
    joined = {"kind": Kind.CLIENT_JOINED, "generation": generation, "member_id": found["member"] or None}
    return (joined | {"protocol": found["protocol"]},)


def _rejoins(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """Written with every leave too, where it only says that the member would join if it were asked to."""
    reason = found["reason"].strip()
    meaning = rejoin_meaning(reason)
    if reason.startswith(AFTER_LEAVING):
        meaning = past.leave_meanings.pop(past.client_id, meaning)
    if reason.startswith(SECOND_STEP) or meaning.trigger == Cause.LEAVE_CLOSE:
        return ()
    return ({"kind": Kind.CLIENT_REJOINS, "client_reason": reason} | meaning_facts(meaning),)


def _poll_timeout(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    return ({"kind": Kind.CLIENT_LOST, "trigger": Cause.POLL_TIMEOUT, "reason": found[0]},)


def _polls_again(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_REJOINS, "trigger": Cause.POLL_TIMEOUT, "member_id": found["member"]}
    return (facts | {"evidence": {"exceeded_ms": int(found["exceeded"])}},)


def _leaves(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    reason = found["reason"].strip()
    meaning = leave_meaning(reason)
    past.leave_meanings[past.client_id] = meaning
    if len(past.leave_meanings) > MEMBERS_MAX:
        del past.leave_meanings[next(iter(past.leave_meanings))]
    return ({"kind": Kind.CLIENT_LEAVES, "member_id": found["member"], "client_reason": reason} | meaning_facts(meaning),)


def _lost(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    """The coordinator answered that it does not know the member or its generation."""
    groups = found.groupdict()
    error = groups["error"]
    facts: Facts = {"kind": Kind.CLIENT_LOST, "reason": error, "member_id": groups.get("member") or None}
    generation = int(groups["generation"]) if groups.get("generation") else -1
    if generation >= 0:
        facts["generation"] = generation
    if "FENCED_INSTANCE_ID" in error:
        return (facts | {"trigger": Cause.STATIC_FENCED},)
    return (facts | {"candidates": REMOVED_BEFORE.candidates},)


def _fenced(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    return ({"kind": Kind.CLIENT_LOST, "trigger": Cause.STATIC_FENCED, "reason": found[0]},)


def _silent_coordinator(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    """No answer to heartbeats for the session timeout: the member was stopped, or the coordinator was out of reach."""
    return ({"kind": Kind.CLIENT_LOST, "reason": found["reason"], "candidates": (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE)},)


def _moved(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """The KIP-848 member's states: a member that joined has an epoch above 0 when it reconciles or is stable."""
    state, epoch, member_id = found["state"], int(found["epoch"]), found["member"]
    facts: Facts = {"member_id": member_id, "group_type": "consumer"}
    if state in ("RECONCILING", "STABLE") and past.is_new_epoch(member_id, epoch):
        return (facts | {"kind": Kind.CLIENT_JOINED, "generation": epoch},)
    if state == "FENCED":
        return _lost_epoch(found)
    if found["before"] == "LEAVING":
        cause = {"STALE": Cause.POLL_TIMEOUT, "UNSUBSCRIBED": Cause.LEAVE_CLOSE}.get(state)
        return (facts | {"kind": Kind.CLIENT_LEAVES, "trigger": cause},)
    return ()


def _lost_epoch(found: re.Match[str]) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_LOST, "member_id": found["member"], "group_type": "consumer", "reason": found[0]}
    return (facts | {"candidates": REMOVED_BEFORE.candidates},)


def _heartbeat_refused(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    return _lost_epoch(found)


JAVA_RULES: Final = (
    *JAVA_SUBSCRIPTIONS,
    rule(rf"Successfully (?:joined group with|synced group in) generation {GENERATION_TEXT}", _joined),
    rule(r"Request joining group due to: (?P<reason>.*)", _rejoins),
    rule(r"[Cc]onsumer poll timeout has expired\.", _poll_timeout),
    rule(rf"{MEMBER} sending LeaveGroup request to coordinator .{{1,1000}}? due to (?P<reason>.*)", _leaves),
    rule(
        rf"Attempt to heartbeat with {GENERATION_TEXT} and group instance id .{{0,1000}}? failed due to (?P<error>\w+)(?:: .*)?, "
        r"resetting generation",
        _lost,
    ),
    rule(
        r"Resetting generation (?:and member id )?due to: encountered (?P<error>\w+) from (?:JOIN_GROUP|SYNC_GROUP|OFFSET_COMMIT) response",
        _lost,
    ),
    rule(r"JoinGroup failed: The group instance id .{1,1000} has been fenced by another instance", _fenced),
    rule(r"SyncGroup failed: The group instance id .{1,1000} has been fenced by another instance", _fenced),
    rule(r"Caught fenced group\.instance\.id .{1,1000} error in heartbeat thread", _fenced),
    rule(r"OffsetCommit failed with .{1,1000} due to group instance id .{1,1000} fenced", _fenced),
    rule(r"\w+ failed due to (?:fenced|unreleased) instance id ", _fenced),
    rule(
        r"Group coordinator (?:.{1,1000}? )?is unavailable or invalid due to cause: "
        r"(?P<reason>session timed out without receiving a heartbeat response)",
        _silent_coordinator,
    ),
    rule(rf"{MEMBER} {EPOCH} transitioned from (?P<before>\w+) to (?P<state>\w+)\.", _moved),
    rule(
        r"Time between subsequent calls to poll\(\) was longer than the configured max\.poll\.interval\.ms, exceeded approximately by "
        r"(?P<exceeded>\d{1,15}) ms\. Member (?P<member>\S{1,1000}) will rejoin the group now\.",
        _polls_again,
    ),
    rule(r"\w+ failed for member (?P<member>\S{1,1000}) because epoch .{1,20} is fenced", _heartbeat_refused),
    rule(r"\w+ failed because member (?P<member>\S{1,1000}) is unknown", _heartbeat_refused),
)
