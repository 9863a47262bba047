"""The messages of librdkafka, and so of confluent-kafka: `%4|1763800000.123|MAXPOLL|c#consumer-1| [thrd:main]: ...` on stderr, and
`MAXPOLL [c#consumer-1] [thrd:main]: ...` through Python's logging. All but MAXPOLL and SESSTMOUT are written with `debug=cgrp` only.
"""

import re
from collections.abc import Sequence
from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.message_rule import MEMBERS_MAX, ClientPast, first_facts, meaning_facts, rule
from ottla.core.diagnosis.evidence.client_reasons import REMOVED_BEFORE, Meaning
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

PREFIX: Final = re.compile(
    r"(?P<facility>[A-Z][A-Z0-9_]{1,20})(?:\|(?P<callback>.{1,500}?)#consumer-\d+\| "
    r"| \[(?P<logging>.{1,500}?)#consumer-\d+\] )\[thrd:.{1,500}?\]: "
)

GROUP_NAME: Final = re.compile(r'Group "(?P<group>.{1,1000}?)"[: ]')

REASONS: Final = (
    ("max.poll.interval.ms exceeded", Meaning(Cause.POLL_TIMEOUT)),
    ("Consumer group session timed out", Meaning(Cause.EXPIRE_HEARTBEAT)),
    ("Metadata for subscribed topic(s) has changed", Meaning(Cause.TOPIC_CHANGE)),
    ("Subscription modified", Meaning(Cause.SUBSCRIPTION)),
    ("unsubscribe", Meaning(Cause.LEAVE_CLOSE)),
    ("rejoining group to redistribute", Meaning(Cause.COOP_FOLLOWUP)),
    ("Assignment Done: rejoining group to redistribute", Meaning(Cause.COOP_FOLLOWUP)),
    ("consumer fenced by newer instance", Meaning(Cause.STATIC_FENCED)),
    ("resetting member-id", REMOVED_BEFORE),
    ("illegal generation", REMOVED_BEFORE),
    ("member fenced - rejoining", REMOVED_BEFORE),
    ("OffsetCommit error: ", REMOVED_BEFORE),
    ("OffsetFetch error: ", REMOVED_BEFORE),
)


def librdkafka_facts(message: str, past: ClientPast) -> Sequence[Facts] | None:
    """What a message of librdkafka says; None where it is none."""
    prefix = PREFIX.match(message)
    if prefix is None:
        return None
    client_id, text = prefix["callback"] or prefix["logging"], message[prefix.end() :]
    named = GROUP_NAME.match(text)
    if named is not None:
        past.groups[client_id] = named["group"]
    past.client_id = client_id
    owner = {"client_id": client_id, "group": past.groups.get(client_id)}
    return [owner | facts for facts in first_facts(text, LIBRDKAFKA_RULES, past)]


def reason_meaning(reason: str) -> Meaning:
    """The cause in the reason that librdkafka gives for a rebalance; nothing for those that only follow another's."""
    return next((meaning for text, meaning in REASONS if reason.startswith(text)), Meaning())


def _poll_timeout(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    evidence = {"max_poll_interval_ms": int(found["limit"]), "exceeded_ms": int(found["exceeded"])}
    return ({"kind": Kind.CLIENT_LOST, "trigger": Cause.POLL_TIMEOUT, "reason": found[0], "evidence": evidence},)


def _session_timeout(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_LOST, "reason": found[0], "evidence": {"silent_ms": int(found["silent"])}}
    return (facts | {"candidates": (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE)},)


def _subscription_changed(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """A new subscription begins with no topic; what a pattern matches grows or shrinks from what it was."""
    if int(found["before"]) == 0 and len(past.subscribed) < MEMBERS_MAX:
        past.subscribed[past.client_id] = frozenset()
    else:
        past.subscribed.pop(past.client_id, None)
    return ()


def _rebalances(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """With the protocol NONE it is no member yet. After a new subscription, its topics are metadata that have changed, too."""
    meaning = reason_meaning(found["reason"])
    if meaning.trigger == Cause.TOPIC_CHANGE and past.subscribed.pop(past.client_id, None) is not None:
        meaning = Meaning(Cause.SUBSCRIPTION)
    if found["protocol"] == "NONE":
        return ()
    kind = Kind.CLIENT_REJOINS
    if meaning == REMOVED_BEFORE or meaning.trigger == Cause.STATIC_FENCED:
        kind = Kind.CLIENT_LOST
    elif meaning.trigger == Cause.LEAVE_CLOSE:
        kind = Kind.CLIENT_LEAVES
    return ({"kind": kind, "group": found["group"], "reason": found["reason"]} | meaning_facts(meaning),)


def _join_answered(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    if found["error"].strip() != "(no error)" or int(found["generation"]) < 0:
        return ()
    facts = {"kind": Kind.CLIENT_JOINED, "generation": int(found["generation"]), "member_id": found["member"]}
    return (facts | {"protocol": found["protocol"]},)


def _heartbeat_answered(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """Each heartbeat of KIP-848 has the epoch: a new one is an event."""
    member_id, epoch = found["member"], int(found["epoch"])
    if not past.is_new_epoch(member_id, epoch):
        return ()
    return ({"kind": Kind.CLIENT_JOINED, "generation": epoch, "member_id": member_id, "group_type": "consumer"},)


def _will_rejoin(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_LOST, "reason": found["reason"], "group_type": "consumer"}
    return (facts | {"candidates": REMOVED_BEFORE.candidates},)


QUOTED_GROUP: Final = r'Group "(?P<group>.{1,1000}?)"'

LIBRDKAFKA_RULES: Final = (
    rule(r"Application maximum poll interval \((?P<limit>\d{1,15})ms\) exceeded by (?P<exceeded>\d{1,15})ms", _poll_timeout),
    rule(
        r"Consumer group session timed out \(in join-state [\w-]{1,50}\) after (?P<silent>\d{1,15}) ms without a successful response "
        r"from the group coordinator",
        _session_timeout,
    ),
    rule(
        rf"{QUOTED_GROUP} (?:initiating rebalance|is rebalancing) \((?P<protocol>.{{1,30}})\) in state .{{1,200}}? with "
        rf"\d+ assigned partition\(s\)"
        r"(?: \(lost\))?: (?P<reason>.*)",
        _rebalances,
    ),
    rule(rf"{QUOTED_GROUP}: effective subscription list changed from (?P<before>\d{{1,9}}) to \d{{1,9}} topic", _subscription_changed),
    rule(
        r"JoinGroup response: GenerationId (?P<generation>-?\d{1,10}), Protocol (?P<protocol>.{0,200}?), LeaderId .{0,1000}?, "
        r"my MemberId (?P<member>.{1,1000}?), member metadata count \d+: (?P<error>.*)",
        _join_answered,
    ),
    rule(
        r'ConsumerGroupHeartbeat response received for member id "(?P<member>.{1,1000}?)" with epoch (?P<epoch>-?\d{1,10})',
        _heartbeat_answered,
    ),
    rule(r"ConsumerGroupHeartbeat failed due to: (?P<reason>.*): will rejoin the group", _will_rejoin),
)
