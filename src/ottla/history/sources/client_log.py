"""The logs of consumers, of any client, also mixed in one file: finds whose message a line holds, and gives it to that client's rules.

- Java (kafka-clients 4.3.0: AbstractCoordinator, ConsumerCoordinator, AbstractMembershipManager, AbstractHeartbeatRequestManager), classic
  and KIP-848, and Connect's workers: `[Consumer clientId=c, groupId=g] ...`. Ottla's consumers write those of AbstractCoordinator.
- librdkafka, and so confluent-kafka: `%4|1763800000.123|MAXPOLL|c#consumer-1| [thrd:main]: ...` on stderr, and `MAXPOLL [c#consumer-1]
  [thrd:main]: ...` through Python's logging. All but MAXPOLL and SESSTMOUT are written with `debug=cgrp` only.
- kafka-python 3.0, which says which member it is only when it joins: what names no group is given that of a log with one group.
- aiokafka, which began as its copy and shares messages with it. It leaves without a word when it was not polled in time: `LeaveGroup
  request succeeded` with no new process or subscription after it.

Subscriptions: other topics than before are a reason to join again, with a pattern because topics changed. Java, kafka-python and aiokafka
log each subscription with its topics; kafka-python and aiokafka also what a pattern matches whenever that changes. The first one of a
consumer says nothing: it has not joined yet, or is a new process in the same log.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final, NamedTuple

from ottla.history.sources.evidence import Cause, Kind, Source
from ottla.history.sources.log_lines import (
    NOTHING,
    REMOVED_BEFORE,
    Facts,
    LogReader,
    Meaning,
    leave_meaning,
    rejoin_meaning,
    without_logger,
)
from ottla.history.sources.silence import AIOKAFKA, JAVA, KAFKA_PYTHON, LIBRDKAFKA

GENERATION: Final = r"(?P<generation>-?\d{1,10})"
MEMBERS_MAX: Final = 10_000


class Joined(NamedTuple):
    """What a member said when it joined last."""

    member_id: str | None
    generation: int


@dataclass(slots=True)
class ClientPast:
    """What one log said before, for messages that do not repeat it.

    joined: by (client id, group), each None where this client's messages do not name it, the last one last. next_meaning: why a member is
    going to join again, for clients that log that before. is_left: a member left and has not joined again. rejoining: groups that are being
    joined. epochs: the last epoch by member id. groups: by client id, for clients that name the group in some messages.
    client_id: whose message is being read. leave_meanings: why a client left, by its id. subscribed: topics by
    client id; by_pattern: client ids that subscribe to a pattern. is_unsubscribed: a member has unsubscribed and not joined again.
    """

    joined: dict[tuple[str | None, str | None], Joined] = field(default_factory=dict)
    next_meaning: Meaning = NOTHING
    is_left: bool = False
    rejoining: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    client_id: str = ""
    leave_meanings: dict[str, Meaning] = field(default_factory=dict)
    subscribed: dict[str, frozenset[str]] = field(default_factory=dict)
    by_pattern: set[str] = field(default_factory=set)
    is_unsubscribed: bool = False

    def only_group(self) -> str | None:
        """The group, where the log is of one only."""
        groups = {group for _, group in self.joined if group is not None}
        return groups.pop() if len(groups) == 1 else None

    def is_new_epoch(self, member_id: str, epoch: int) -> bool:
        """Whether a member has another epoch than before; it is remembered."""
        if epoch <= 0 or self.epochs.get(member_id) == epoch:
            return False
        self.epochs[member_id] = epoch
        if len(self.epochs) > MEMBERS_MAX:
            del self.epochs[next(iter(self.epochs))]
        return True

    def complete(self, facts: Facts) -> Facts:
        """Add the member and the generation, from when this client joined, to what does not name them."""
        key = (facts.get("client_id"), facts.get("group"))
        if facts["kind"] is Kind.CLIENT_JOINED:
            self.joined.pop(key, None)
            self.joined[key] = Joined(facts.get("member_id"), facts["generation"])
            self.rejoining.discard(key[1] or "")
            self.is_left, self.is_unsubscribed, self.next_meaning = False, False, NOTHING
            if len(self.joined) > MEMBERS_MAX:
                del self.joined[next(iter(self.joined))]
            return facts
        last = self.joined.get(key)
        if last is None:
            return facts
        return facts | {"member_id": facts.get("member_id") or last.member_id, "generation": facts.get("generation", last.generation)}


Handler = Callable[[re.Match[str], ClientPast], Sequence[Facts]]


class Rule(NamedTuple):
    """One kind of message: a pattern for its beginning, and what makes facts of it."""

    pattern: re.Pattern[str]
    facts: Handler


def rule(pattern: str, facts: Handler) -> Rule:
    """A rule for messages that begin in this form."""
    return Rule(re.compile(pattern), facts)


GROUP_NAMES: Final = re.compile(r"\(\?P<\w+>")


class Rules:
    """The rules of one client. `any`: one pattern for what any of them fits, since most messages at the level DEBUG fit none."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules
        self.any = re.compile("|".join(f"(?:{GROUP_NAMES.sub('(?:', each.pattern.pattern)})" for each in rules))

    def first_facts(self, text: str, past: ClientPast) -> Sequence[Facts]:
        """What the first rule that fits says; nothing where none does: a client writes much that is not about its membership."""
        if self.any.match(text) is None:
            return ()
        text = without_logger(text)
        for each in self._rules:
            found = each.pattern.match(text)
            if found is not None:
                return each.facts(found, past)
        return ()


def meaning_facts(meaning: Meaning) -> Facts:
    """The cause, or the candidates, as fields of evidence."""
    return {"trigger": meaning.trigger, "candidates": meaning.candidates}


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


JAVA_PREFIX: Final = re.compile(
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
    prefix = JAVA_PREFIX.match(message)
    if prefix is None:
        return None
    owner = {"group": prefix["group"], "client_id": prefix["client"] or None, "instance_id": prefix["instance"]}
    past.client_id = prefix["client"]
    return [owner | facts for facts in JAVA_RULES.first_facts(message[prefix.end() :], past)]


def _joined(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    generation = int(found["generation"])
    if generation < 0:
        return ()
    joined = {"kind": Kind.CLIENT_JOINED, "generation": generation, "member_id": found["member"] or None, "library": JAVA}
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


def _unreleased(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.JOIN_REFUSED, "reason": found[0], "instance_id": found.groupdict().get("instance")}
    return (facts | {"candidates": (Cause.STATIC_FENCED, Cause.FAILED_JOIN)},)


def _no_assignor(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """INCONSISTENT_GROUP_PROTOCOL, which no line of a broker says."""
    group = found.groupdict().get("group")
    facts = {"kind": Kind.JOIN_REFUSED, "trigger": Cause.FAILED_JOIN, "reason": f"INCONSISTENT_GROUP_PROTOCOL: {found[0]}"}
    return (facts | ({"group": group or past.only_group()} if "group" in found.groupdict() else {}),)


def _silent_coordinator(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    """No answer to heartbeats for the session timeout: the member was stopped, or the coordinator was out of reach."""
    return ({"kind": Kind.CLIENT_LOST, "reason": found["reason"], "candidates": (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE)},)


def _moved(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """The KIP-848 member's states: a member that joined has an epoch above 0 when it reconciles or is stable."""
    state, epoch, member_id = found["state"], int(found["epoch"]), found["member"]
    facts: Facts = {"member_id": member_id, "group_type": "consumer"}
    if state in ("RECONCILING", "STABLE") and past.is_new_epoch(member_id, epoch):
        return (facts | {"kind": Kind.CLIENT_JOINED, "generation": epoch, "library": JAVA},)
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


JAVA_RULES: Final = Rules(
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
    rule(r"\w+ failed due to fenced instance id ", _fenced),
    rule(r"\w+ failed due to unreleased instance id (?P<instance>.{1,1000}?): ", _unreleased),
    rule(r"(?:JoinGroup|Attempt to join group) failed due to fatal error: The group member's supported protocols", _no_assignor),
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


LIBRDKAFKA_PREFIX: Final = re.compile(
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
    prefix = LIBRDKAFKA_PREFIX.match(message)
    if prefix is None:
        return None
    client_id, text = prefix["callback"] or prefix["logging"], message[prefix.end() :]
    named = GROUP_NAME.match(text)
    if named is not None:
        past.groups[client_id] = named["group"]
    past.client_id = client_id
    owner = {"client_id": client_id, "group": past.groups.get(client_id)}
    return [owner | facts for facts in LIBRDKAFKA_RULES.first_facts(text, past)]


def reason_meaning(reason: str) -> Meaning:
    """The cause in the reason that librdkafka gives for a rebalance; nothing for those that only follow another's."""
    return next((meaning for text, meaning in REASONS if reason.startswith(text)), Meaning())


def _librdkafka_poll_timeout(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
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


def _join_answered(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    if found["error"].startswith("Broker: Inconsistent group protocol"):
        return _no_assignor(found, past)
    if found["error"].strip() != "(no error)" or int(found["generation"]) < 0:
        return ()
    facts = {"kind": Kind.CLIENT_JOINED, "generation": int(found["generation"]), "member_id": found["member"]}
    return (facts | {"protocol": found["protocol"], "library": LIBRDKAFKA},)


def _heartbeat_answered(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """Each heartbeat of KIP-848 has the epoch: a new one is an event."""
    member_id, epoch = found["member"], int(found["epoch"])
    if not past.is_new_epoch(member_id, epoch):
        return ()
    facts = {"kind": Kind.CLIENT_JOINED, "generation": epoch, "member_id": member_id, "library": LIBRDKAFKA}
    return (facts | {"group_type": "consumer"},)


def _will_rejoin(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_LOST, "reason": found["reason"], "group_type": "consumer"}
    return (facts | {"candidates": REMOVED_BEFORE.candidates},)


QUOTED_GROUP: Final = r'Group "(?P<group>.{1,1000}?)"'

LIBRDKAFKA_RULES: Final = Rules(
    rule(r"Application maximum poll interval \((?P<limit>\d{1,15})ms\) exceeded by (?P<exceeded>\d{1,15})ms", _librdkafka_poll_timeout),
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
        r"my MemberId (?P<member>.{0,1000}?), member metadata count \d+: (?P<error>.*)",
        _join_answered,
    ),
    rule(
        r'ConsumerGroupHeartbeat response received for member id "(?P<member>.{1,1000}?)" with epoch (?P<epoch>-?\d{1,10})',
        _heartbeat_answered,
    ),
    rule(r"ConsumerGroupHeartbeat failed due to: (?P<reason>.*): will rejoin the group", _will_rejoin),
    rule(r"ConsumerGroupHeartbeat fatal error: Broker: (?:The instance ID is still used|Unreleased)", _unreleased),
)


def _kafka_python_joined(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_JOINED, "group": found["group"], "generation": int(found["generation"])}
    return (facts | {"member_id": found["member"], "protocol": found["protocol"], "library": KAFKA_PYTHON},)


def _kafka_python_rejoins(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
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


def _kafka_python_poll_timeout(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    past.next_meaning = Meaning(Cause.POLL_TIMEOUT)
    return ({"kind": Kind.CLIENT_LOST, "group": past.only_group(), "trigger": Cause.POLL_TIMEOUT, "reason": found[0]},)


def _kafka_python_silent_coordinator(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """No answer to heartbeats for the session timeout: the process was stopped, or the coordinator was out of reach."""
    facts = {"kind": Kind.CLIENT_LOST, "group": past.only_group(), "reason": found[0]}
    return (facts | {"candidates": (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE)},)


def _kafka_python_leaves(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """By `close`, `unsubscribe`, or after a poll timeout, which was logged before."""
    meaning = past.next_meaning if past.next_meaning.trigger == Cause.POLL_TIMEOUT else Meaning(Cause.LEAVE_CLOSE)
    facts = {"kind": Kind.CLIENT_LEAVES, "group": found["group"], "member_id": found["member"]}
    return (facts | meaning_facts(meaning),)


def _kafka_python_lost(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    group = found.groupdict().get("group") or past.only_group()
    return ({"kind": Kind.CLIENT_LOST, "group": group, "reason": found[0], "candidates": REMOVED_BEFORE.candidates},)


def _kafka_python_fenced(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
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
        _kafka_python_joined,
    ),
    rule(r"\(Re-\)joining group (?P<group>.{1,1000})", _kafka_python_rejoins),
    rule(rf"Attempt to join group (?:{GROUP} )?failed due to fatal error: (?:\[Error 23\] )?InconsistentGroupProtocol", _no_assignor),
    rule(r"Triggering follow-up rebalance for group ", _follows_up),
    rule(r"Consumer poll timeout has expired\. This means .{1,200} max_poll_interval_ms", _kafka_python_poll_timeout),
    rule(r"Heartbeat session expired(?:,| -) marking coordinator dead", _kafka_python_silent_coordinator),
    rule(rf"Leaving consumer group {GROUP} \(member (?P<member>.{{0,1000}})\)\.", _kafka_python_leaves),
    rule(rf"Heartbeat failed for group {GROUP}: generation id is not ? current\.", _kafka_python_lost),
    rule(r"Heartbeat(?:: | failed: )local member_id was not recognized", _kafka_python_lost),
    rule(rf"SyncGroup for group {GROUP} failed due to \[Error (?:22|25)\]", _kafka_python_lost),
    rule(rf"Heartbeat failed for group {GROUP} due to fenced id error: (?P<instance>.{{1,1000}})", _kafka_python_fenced),
    rule(rf"SyncGroup for group {GROUP} failed due to fenced id error: (?P<instance>.{{1,1000}})", _kafka_python_fenced),
    rule(rf"OffsetCommit for group {GROUP} failed due to fenced id error: (?P<instance>.{{1,1000}})", _kafka_python_fenced),
    rule(r"Heartbeat thread caught fenced group_instance_id (?P<instance>.{1,1000}) error", _kafka_python_fenced),
)


TOPIC_NAME: Final = re.compile(r"'([\w.-]{1,249})'")


def _aiokafka_joined(found: re.Match[str], _past: ClientPast) -> Sequence[Facts]:
    facts = {"kind": Kind.CLIENT_JOINED, "group": found["group"], "generation": int(found["generation"])}
    return (facts | {"member_id": found["member"].strip(), "library": AIOKAFKA},)


def _leads(found: re.Match[str], past: ClientPast) -> Sequence[Facts]:
    """The leader is the only member that names the assignor, right after it joined."""
    (client_id, group), joined = next(reversed(past.joined.items()), ((None, None), None))
    if joined is None or client_id is not None:
        return ()
    facts: Facts = {"kind": Kind.CLIENT_JOINED, "group": group, "generation": joined.generation}
    return (facts | {"member_id": joined.member_id, "protocol": found["protocol"], "library": AIOKAFKA},)


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
    rule(rf"Joined group '(?P<group>.{{1,1000}})' \(generation {GENERATION}\) with member_id (?P<member>.{{1,1000}})", _aiokafka_joined),
    rule(r"Elected group leader -- performing partition assignments using (?P<protocol>[\w.-]{1,200})", _leads),
    rule(r"LeaveGroup request succeeded", _left),
    rule(r"Metadata for topic has changed from (?P<before>\{.{0,50000}?\}) to (?P<now>\{.{0,50000}?\})", _metadata_changed),
    rule(r"Discovered coordinator ", _starts),
)


START_CHARACTERS_MAX: Final = 4000
"""A message begins within so many characters, so that a long line of another program is refused soon."""
PYTHON_RULES: Final = Rules(*KAFKA_PYTHON_RULES, *AIOKAFKA_RULES, *PYTHON_SUBSCRIPTIONS)
PYTHON_MESSAGE: Final = re.compile(
    r"(?:^|(?<=[\s:|\]\"]))(?:\(Re-\)joining group |Successfully joined group |Joined group '|Triggering follow-up rebalance "
    r"|Attempt to join group "
    r"|Consumer poll timeout has expired\. |Heartbeat(?: session expired|: local member| failed| thread caught)|Leaving consumer group "
    r"|(?:SyncGroup|OffsetCommit) for group |LeaveGroup request succeeded|Metadata for topic has changed |Updating subscribed topics to"
    r"|Discovered coordinator |Elected group leader -- |Unsubscribed all topics or patterns|Subscrib(?:ing to|ed to topic) pattern: )"
)


def client_log_reader(*, clock: str, zone: tzinfo) -> LogReader:
    """A reader of one client's log; `clock` names the log, `zone` is for times that name none."""
    return LogReader(parser=ClientLogParser(), clock=clock, zone=zone)


class ClientLogParser:
    """The messages of consumers, and what must be remembered of earlier ones."""

    source = Source.CLIENT_LOG
    needles: Sequence[bytes] = (b"roup", b"poll", b"eartbeat", b"etadata for topic", b"subscri", b"Subscri")

    def __init__(self) -> None:
        self._past = ClientPast()

    def find(self, text: str) -> int:
        """Where the first message of a client begins.

        Most lines are refused by the part that each message of a client has; looking for it costs a tenth of a pattern's search.
        """
        java = JAVA_PREFIX.search(text, 0, START_CHARACTERS_MAX) if " clientId=" in text else None
        first = START_CHARACTERS_MAX if java is None else java.start()
        if first == 0:
            return 0
        librdkafka = LIBRDKAFKA_PREFIX.search(text, 0, START_CHARACTERS_MAX) if "[thrd:" in text else None
        if librdkafka is not None:
            return min(librdkafka.start(), first)
        python = PYTHON_MESSAGE.search(text, 0, first)
        if python is not None:
            return python.start()
        return -1 if java is None else first

    def parse(self, message: str) -> Sequence[Facts] | None:
        """What the message says."""
        facts = java_facts(message, self._past)
        if facts is None:
            facts = librdkafka_facts(message, self._past)
        if facts is None:
            facts = PYTHON_RULES.first_facts(message, self._past)
        return [self._past.complete(each) for each in facts]
