"""The logs of brokers: what group coordinators write, of Apache Kafka 2.x to 4.x and of Ottla.

Groups speak through two coordinators: the classic one (in Java since 4.0; in Scala before, which names the partition in some lines, prints
options as Scala does, and gives no client's reason before 3.2) and that of KIP-848, `[GroupId G] ...`, whose heartbeats bring no reason,
so that a leave is a close or a poll timeout. Reasons of `Preparing to rebalance group ...` name the cause, or those that it may be.

Group ids, client ids and reasons are chosen by strangers and may hold any text, also that of the line around them. Member ids that a
broker made end in a UUID, and that is where they are taken to end. Lengths are limited, so that no line takes long to refuse. What earlier
lines said and later ones do not repeat is remembered, the oldest forgotten first.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Final, NamedTuple, TypeVar

from ottla.history.sources.evidence import Cause, Kind, Source
from ottla.history.sources.log_lines import (
    ANY_LEAVE,
    Facts,
    LogReader,
    Meaning,
    first_join_meaning,
    leave_meaning,
    rejoin_meaning,
    without_logger,
)

UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
STATE: Final = r"(?:Empty|PreparingRebalance|CompletingRebalance|Stable|Dead|AwaitingSync)"
GROUP: Final = r"(?P<group>.{1,1000})"
FIRST_GROUP: Final = r"(?P<group>.{1,1000}?)"
"""For lines that end with a stranger's text: the shortest group id that fits."""
MEMBER: Final = rf"(?P<member>.{{1,1000}}?-{UUID}|.{{1,1000}}?)"
REPLACED: Final = rf"(?P<replaced>.{{1,1000}}?-{UUID}|.{{1,1000}}?)"
INSTANCE: Final = r"(?P<instance>.{1,1000}?)"
CLIENT_REASON: Final = r"(?:; client reason: (?P<client_reason>.*))?"
PARTITION: Final = r"(?: \(__consumer_offsets-\d+\))?"
"""The coordinators of 2.x and 3.x name the group's partition in the line."""

MEMBER_SEPARATOR: Final = re.compile(rf"(?<={UUID}), ")

Key = TypeVar("Key")
Value = TypeVar("Value")

ENTRIES_MAX: Final = 20_000

MADE_BY_BROKER: Final = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.DOTALL)


class Memory:
    """One broker log's past, for one reader. `partition`: the coordinator that wrote the line being read."""

    def __init__(self) -> None:
        self.partition = ""
        self.leave_reasons: dict[tuple[str, str], str] = {}
        """(group, member id): the reason of a member that left since the last rebalance."""
        self.replacements: dict[str, dict[str, str | None]] = {}
        """By partition: the static member that was replaced by the line before."""
        self.replaced_members: dict[str, str] = {}
        """The group of a static member's id that was given up for a new one."""
        self.changed_groups: dict[str, bool] = {}
        """KIP-848 groups whose members changed since their epoch was increased."""
        self.metadata_hashes: dict[str, str] = {}
        self.other_groups: dict[str, str] = {}
        """Groups of other types than classic and consumer, with their type."""
        self._client_ids: dict[str, str] = {}

    def learn_client(self, member_id: str) -> str | None:
        """The client id in the id of a dynamic member, which the broker made of it; remembered, for lines that do not say "dynamic"."""
        made = MADE_BY_BROKER.fullmatch(member_id)
        if made is None:
            return None
        remember(self._client_ids, member_id, made[1])
        return made[1]

    def client_of(self, member_id: str) -> str | None:
        """The client id of a member that is known to be dynamic."""
        return self._client_ids.get(member_id)


Handler = Callable[[re.Match[str], Memory], Sequence[Facts]]


class Rule(NamedTuple):
    """One kind of line: the word that it begins with, its pattern, for the whole message, and what makes facts of it."""

    word: str
    pattern: re.Pattern[str]
    facts: Handler


def rule(word: str, rest: str, facts: Handler) -> Rule:
    """A rule for messages that begin with this text and go on in this form; a last full stop may be there or not."""
    return Rule(word, re.compile(rf"{re.escape(word)}{rest}\.?$"), facts)


def no_facts(_found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    """A line that is known and no evidence."""
    return ()


def option(text: str | None) -> str | None:
    """The value of what Java prints as `null` or `x`, and Scala as `None` or `Some(x)`."""
    if text in (None, "None", "null"):
        return None
    if text.startswith("Some(") and text.endswith(")"):
        return text[5:-1]
    return text


def member_ids(text: str) -> tuple[str, ...]:
    """The ids in a list as Java and Scala print it: `m1, m2`, `[m1, m2]`, `Set(m1, m2)`."""
    for start, end in (("[", "]"), ("Set(", ")"), ("HashSet(", ")")):
        if text.startswith(start) and text.endswith(end):
            text = text[len(start) : -len(end)]
            break
    if not text:
        return ()
    return tuple(MEMBER_SEPARATOR.split(text)) if re.search(rf"{UUID}$", text) else tuple(text.split(", "))


def remember(entries: dict[Key, Value], key: Key, value: Value) -> None:
    """Keep a value; without the oldest one where there are too many."""
    entries[key] = value
    if len(entries) > ENTRIES_MAX:
        del entries[next(iter(entries))]


STATIC_RETURN: Final = Meaning(None, (Cause.STATIC_REJOIN, Cause.STATIC_FENCED))


def trigger_facts(reason: str, *, group: str, memory: Memory) -> Facts | None:
    """What the reason says of the trigger; None for a reason that is not known."""
    for pattern, facts in REASONS:
        found = pattern.fullmatch(reason)
        if found is not None:
            return facts(found, group, memory)
    return None


def meaning_facts(meaning: Meaning) -> Facts:
    """The cause, or the candidates, as fields of evidence."""
    return {"trigger": meaning.trigger, "candidates": meaning.candidates}


def _joined(found: re.Match[str], _group: str, memory: Memory) -> Facts:
    instance_id, client_reason = option(found["instance"]), found["client_reason"]
    client_id = memory.learn_client(found["member"]) if instance_id is None else None
    member = {"member_id": found["member"], "instance_id": instance_id, "client_id": client_id, "client_reason": client_reason}
    return member | meaning_facts(first_join_meaning(client_reason or ""))


def _left(found: re.Match[str], group: str, memory: Memory) -> Facts:
    members = member_ids(found["members"])
    reasons = {memory.leave_reasons.pop((group, member), "") for member in members or ("",)}
    meanings = {leave_meaning(reason) for reason in reasons}
    if not members and reasons == {""}:
        meanings = {Meaning(Cause.ADMIN)}  # by the instance id alone: no client of its own does that
    facts = meaning_facts(meanings.pop()) if len(meanings) == 1 else _together(meanings)
    if len(members) == 1:
        facts |= {"member_id": members[0], "client_id": memory.client_of(members[0])}
    if len(reasons) == 1:
        facts["client_reason"] = next(iter(reasons)) or None
    return facts | {"evidence": {"members_left": max(1, len(members))}}


def _together(meanings: set[Meaning]) -> Facts:
    causes = {cause for meaning in meanings for cause in (meaning.candidates or (meaning.trigger,)) if cause is not None}
    return {"trigger": None, "candidates": tuple(sorted(causes))}


def _left_in_scala(found: re.Match[str], _group: str, memory: Memory) -> Facts:
    reason = found["client_reason"] or ""
    member = {"member_id": found["member"], "client_id": memory.client_of(found["member"]), "client_reason": reason or None}
    return member | meaning_facts(leave_meaning(reason))


def _rejoined(found: re.Match[str], _group: str, memory: Memory) -> Facts:
    reason = found["client_reason"]
    member = {"member_id": found["member"], "client_id": memory.client_of(found["member"]), "client_reason": reason}
    return member | meaning_facts(rejoin_meaning(reason or ""))


def _expired(found: re.Match[str], _group: str, memory: Memory) -> Facts:
    return {"member_id": found["member"], "client_id": memory.client_of(found["member"]), "trigger": Cause.EXPIRE_HEARTBEAT}


def _static_returned(found: re.Match[str], _group: str, _memory: Memory) -> Facts:
    member = {"member_id": found["member"], "instance_id": option(found["instance"]), "client_reason": found["client_reason"]}
    return member | meaning_facts(STATIC_RETURN)


def _assignor_changed(found: re.Match[str], _group: str, _memory: Memory) -> Facts:
    member = {"member_id": found["member"], "instance_id": option(found["instance"]), "client_reason": found["client_reason"]}
    return member | {"trigger": Cause.ASSIGNOR_CHANGE}


def _not_synced(found: re.Match[str], _group: str, memory: Memory) -> Facts:
    members = member_ids(found["members"])
    member = {"member_id": members[0], "client_id": memory.client_of(members[0])} if len(members) == 1 else {}
    return member | {"trigger": Cause.SYNC_TIMEOUT, "evidence": {"members_removed": len(members)}}


def _not_stored(found: re.Match[str], _group: str, memory: Memory) -> Facts:
    return {"trigger": Cause.STORE_ERROR, "member_id": found["member"], "client_id": memory.client_of(found["member"])}


def _too_large(found: re.Match[str], _group: str, _memory: Memory) -> Facts:
    evidence = {"group_max_size": int(found["limit"])} | ({"group_size": int(found["size"])} if found["size"] else {})
    return {"trigger": Cause.CAPACITY, "evidence": evidence}


def _downgraded(_found: re.Match[str], _group: str, _memory: Memory) -> Facts:
    return {"trigger": Cause.MIGRATION}


ReasonFacts = Callable[[re.Match[str], str, Memory], Facts]

REASONS: Final[tuple[tuple[re.Pattern[str], ReasonFacts], ...]] = tuple(
    (re.compile(pattern), facts)
    for pattern, facts in (
        (rf"[Aa]dding new member {MEMBER}(?: with group instance ?id {INSTANCE})?{CLIENT_REASON}", _joined),
        (r"explicit `LeaveGroup` request for \((?P<members>.*)\) members\.?", _left),
        (rf"[Rr]emoving member {MEMBER} on LeaveGroup{CLIENT_REASON}", _left_in_scala),
        (rf"[Rr]emoving member {MEMBER} on heartbeat expiration\.?", _expired),
        (rf"[Ll]eader {MEMBER} re-joining group(?: during {STATE})?{CLIENT_REASON}", _rejoined),
        (rf"[Uu]pdating metadata for static member {MEMBER} with instance ?id {INSTANCE}{CLIENT_REASON}", _static_returned),
        (rf"[Uu]pdating metadata for member {MEMBER}(?: during {STATE})?{CLIENT_REASON}", _rejoined),
        (
            rf"[Gg]roup's selectedProtocol will change because static member {MEMBER} with instance ?id {INSTANCE} "
            rf"joined with change of protocol{CLIENT_REASON}",
            _assignor_changed,
        ),
        (r"[Rr]emoving (?P<members>.*) on pending sync request expiration", _not_synced),
        (rf"[Ee]rror (?:.{{1,100}} )?when storing group assignment ?during SyncGroup \(member: {MEMBER}\)\.?", _not_stored),
        (r"Freshly-loaded group (?:.* \(size (?P<size>\d{1,9})\) )?is over capacity \(?(?P<limit>\d{1,9})\)?\. Rebal.*", _too_large),
        (r"Downgrade group .* from consumer to classic.*", _downgraded),
    )
)


CLASSIC: Final = "classic"

PREPARING: Final = rf"(?: in state {STATE})? with old generation (?P<generation>-?\d{{1,10}}){PARTITION}(?: \(reason: (?P<reason>.*)\))?"
LAST_PREPARING: Final = re.compile(rf"Preparing to rebalance group {GROUP}{PREPARING}\.?$")


def _prepares(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """Where both the group's id and the reason hold the text between them, the first division whose reason is known is taken."""
    facts = _trigger(found, memory)
    if facts is None:
        last = LAST_PREPARING.match(found.string)
        facts = None if last is None else _trigger(last, memory)
        found = found if facts is None or last is None else last
    start = {"kind": Kind.TRIGGER, "group": found["group"], "generation": int(found["generation"]), "reason": found["reason"]}
    return (start | (facts or {}),)


def _trigger(found: re.Match[str], memory: Memory) -> Facts | None:
    return trigger_facts(found["reason"], group=found["group"], memory=memory) if found["reason"] else None


def _stabilized(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    count = int(found["count"]) if found["count"] else None
    return ({"kind": Kind.JOIN_COMPLETED, "group": found["group"], "generation": int(found["generation"]), "member_count": count},)


def _assigned(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    counts = {"member_count": int(found["count"]), "evidence": {"static_members": int(found["static"])}}
    return [facts | counts | {"leader": found["member"]} for facts in _assigned_without_leader(found, _memory)]


def _assigned_without_leader(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.SYNC_COMPLETED, "group": found["group"], "generation": int(found["generation"])},)


def _emptied(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.EMPTIED, "group": found["group"], "generation": int(found["generation"]), "member_count": 0},)


def _classic_left(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    member_id, reason = found["member"] or "", found["client_reason"] or ""
    remember(memory.leave_reasons, (found["group"], member_id), reason)
    member = {"member_id": member_id or None, "client_id": memory.client_of(member_id), "client_reason": reason}
    return ({"kind": Kind.MEMBER_LEFT, "group": found["group"]} | member | meaning_facts(leave_meaning(reason)),)


def _classic_left_in_scala(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """`MemberMetadata(memberId=.., groupInstanceId=.., clientId=.., clientHost=.., ...)`, or the id alone in older releases."""
    reason = found["client_reason"] or ""
    member = {"instance_id": option(found["instance"]), "client_id": found["client"], "client_host": found["host"]}
    remember(memory.leave_reasons, (found["group"], found["member"]), reason)
    facts = {"kind": Kind.MEMBER_LEFT, "group": found["group"], "member_id": found["member"], "client_reason": reason or None}
    return (facts | member | meaning_facts(leave_meaning(reason)),)


def _left_in_2(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    facts = {
        "kind": Kind.MEMBER_LEFT,
        "group": found["group"],
        "member_id": found["member"],
        "client_id": memory.client_of(found["member"]),
    }
    return (facts | meaning_facts(leave_meaning("")),)


def _removed(group: str, members: Sequence[str], cause: Cause, memory: Memory) -> Sequence[Facts]:
    removed = {"kind": Kind.MEMBER_REMOVED, "group": group, "trigger": cause}
    return [removed | {"member_id": member, "client_id": memory.client_of(member)} for member in members]


def _failed(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    return _removed(found["group"], [found["member"]], Cause.EXPIRE_HEARTBEAT, memory)


def _removed_late(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    return _removed(found["group"], member_ids(found["members"]), Cause.JOIN_TIMEOUT, memory)


def _removed_unsynced(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    return _removed(found["group"], member_ids(found["members"]), Cause.SYNC_TIMEOUT, memory)


def _classic_joined(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    facts = {"kind": Kind.MEMBER_JOINED, "group": found["group"], "member_id": found["member"]}
    return (facts | {"client_id": memory.learn_client(found["member"])},)


def _joined_static(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.MEMBER_JOINED, "group": found["group"], "member_id": found["member"], "instance_id": found["instance"]},)


def _replaced(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """Says not who the new member is. In a stable group the next line of this coordinator says whether the group has to rebalance."""
    replaced = {"group": found["group"], "instance_id": found["instance"]}
    remember(memory.replaced_members, found["replaced"], found["group"])
    if found["state"] == "Stable":
        remember(memory.replacements, memory.partition, replaced)
        return ()
    return ({"kind": Kind.STATIC_REPLACED, "coalesced": True} | replaced | meaning_facts(STATIC_RETURN),)


def _replaced_in_scala(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """Of 2.x; it names no state, so only the line after it says whether the group rebalances."""
    remember(memory.replaced_members, found["replaced"], found["group"])
    replaced = {"group": found["group"], "instance_id": option(found["instance"]), "member_id": found["member"]}
    remember(memory.replacements, memory.partition, replaced)
    return ()


def _replaced_without_rebalance(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    replaced = memory.replacements.pop(memory.partition, None)
    if replaced is None:
        return ()
    return ({"kind": Kind.STATIC_REPLACED, "reason": found[0]} | replaced | meaning_facts(STATIC_RETURN),)


def _fenced(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """The replaced process is alive and went on: it was no restart. The group is that of the line about the replacement."""
    facts = {"kind": Kind.STATIC_FENCED, "member_id": found["member"], "instance_id": found["instance"], "reason": found[0]}
    return (facts | {"group": memory.replaced_members.get(found["member"]), "trigger": Cause.STATIC_FENCED},)


def _loaded(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    facts = {"kind": Kind.LOADED, "group": found["group"], "group_type": CLASSIC}
    return (facts | {"member_count": int(found["count"])},)


def _scala_loaded(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.LOADED, "group": found["group"], "generation": int(found["generation"]), "group_type": CLASSIC},)


def _unloaded(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.UNLOADED, "group": found["group"], "generation": int(found["generation"]), "group_type": CLASSIC},)


def _deleted(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return [{"kind": Kind.DELETED, "group": group} for group in found["groups"].split(", ") if group]


def _died(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.DELETED, "group": found["group"], "generation": int(found["generation"])},)


GENERATION: Final = r"(?P<generation>-?\d{1,10})"
COUNT: Final = r"(?P<count>\d{1,9})"
LEFT: Final = r"has left group through explicit `LeaveGroup` request(?:; client reason: (?P<client_reason>.*))?"
METADATA: Final = (
    rf"MemberMetadata\(memberId={MEMBER}, groupInstanceId={INSTANCE}, clientId=(?P<client>.{{0,1000}}?), "
    r"clientHost=(?P<host>.{0,300}?), sessionTimeoutMs=.{0,2000}?\)"
)
STATIC_JOIN: Final = rf"member with groupInstanceId={INSTANCE} and unknown member id joins group {GROUP} in (?P<state>{STATE}) state\."
FENCED: Final = (
    rf" memberId={MEMBER} for static member with groupInstanceId={INSTANCE} is fenced by existing memberId={REPLACED}"
    r"(?: during operation .*)?"
)

CLASSIC_RULES: Final = (
    rule("Preparing", rf" to rebalance group {FIRST_GROUP}{PREPARING}", _prepares),
    rule("Stabilized", rf" group {GROUP} generation {GENERATION}{PARTITION}(?: with {COUNT} members)?", _stabilized),
    rule(
        "Assignment",
        rf" received from leader {MEMBER} for group {GROUP} for generation {GENERATION}\. "
        rf"The group has {COUNT} members, (?P<static>\d{{1,9}}) of which are static",
        _assigned,
    ),
    rule("Assignment", rf" received from leader for group {GROUP} for generation {GENERATION}", _assigned_without_leader),
    rule("Group", rf" {GROUP} with generation {GENERATION} is now empty{PARTITION}", _emptied),
    rule("[Group", rf" {FIRST_GROUP}\] Member (?P<member>.{{0,1000}}?) {LEFT}", _classic_left),
    rule("[Group", rf" {FIRST_GROUP}\] Pending member .* {LEFT}", no_facts),
    rule("Member", rf" {MEMBER} in group {GROUP} has failed, removing it from the group", _failed),
    rule(
        "Member", rf" {METADATA} has left group {FIRST_GROUP} through explicit `LeaveGroup` request{CLIENT_REASON}", _classic_left_in_scala
    ),
    rule(
        "Member",
        rf"\[group\.instance\.id {INSTANCE}, member\.id {MEMBER}\] in group {GROUP} has left, removing it from the group",
        _left_in_2,
    ),
    rule("Member", rf" {MEMBER} in group {GROUP} has left, removing it from the group", _left_in_2),
    rule("Group", rf" {GROUP} removed? dynamic members who haven't joined: (?P<members>.*)", _removed_late),
    rule("Group", rf" {GROUP} removed members who haven't sent their sync requests: (?P<members>.*)", _removed_unsynced),
    rule("Pending", rf" dynamic member with id {MEMBER} joins group {GROUP} in {STATE} state\. Adding to the group now", _classic_joined),
    rule("Dynamic", r" member with unknown member id joins group .* and request(?:ing)? the member to rejoin with this id", no_facts),
    rule(
        "Dynamic",
        rf" [Mm]ember with unknown member id joins group {GROUP} in (?:state {STATE}|{STATE} state)\. "
        rf"Created a new member id {MEMBER} (?:and added the member to the group|for this member and add to the group)",
        _classic_joined,
    ),
    rule("Static", rf" {STATIC_JOIN} Replacing previously mapped member {REPLACED} with this groupInstanceId", _replaced),
    rule("Static", rf" {STATIC_JOIN} Created a new member id {MEMBER} for this member and add(?:ed)? to the group", _joined_static),
    rule(
        "Static",
        r" member which joins during Stable stage and doesn't affect .* will not trigger a? ?rebalance",
        _replaced_without_rebalance,
    ),
    rule("Request", FENCED, _fenced),
    rule("Loaded", rf" classic group {GROUP} with {COUNT} members", _loaded),
    rule("Loading", rf" group metadata for {GROUP} with generation {GENERATION}", _scala_loaded),
    rule("Unloading", rf" group metadata for {GROUP} with generation {GENERATION}", _unloaded),
    rule("[GroupId=", rf"{GROUP}\] Unloading group metadata for generation {GENERATION}", _unloaded),
    rule("The", r" following groups were deleted: (?P<groups>.*)\. A total of \d+ offsets were removed", _deleted),
    rule("Group", rf" {GROUP} transitioned to Dead in generation {GENERATION}", _died),
    rule("Group", r" .* could not complete rebalance because no members rejoined", no_facts),
    rule("Group", r" .* is dead, skipping rebalance stage", no_facts),
    rule("Group", r" leader \[?.* failed to join before the? ?rebalance timeout.*", no_facts),
    rule("Pending", r" member .* in group .* has been removed after session timeout expiration", no_facts),
    rule("Member", r" .* has already been removed from the group", no_facts),
    rule("Setting", r" empty assignments for members .* of .* for generation \d+", no_facts),
    rule("Sending", r" empty assignment to member .* of .* for generation \d+ with no errors", no_facts),
    rule(
        "Static",
        rf" member {INSTANCE} of group {FIRST_GROUP} with unknown member id rejoins, assigning new member id {MEMBER}, "
        rf"while old member(?: id)? {REPLACED} will be removed",
        _replaced_in_scala,
    ),
    rule("Failed", r" to (?:persist metadata|write empty metadata) for group .*", no_facts),
    rule("Failed", r" to parse Consumer Protocol .*", no_facts),
    rule("Attempt", r" to add rejoining member .* of group .* in unexpected group state .*", no_facts),
    rule("Received", r" (?:unexpected )?notification of (?:heartbeat|sync) expiration .*", no_facts),
    rule("Elected", r" as the group coordinator for partition .*", no_facts),
    rule("Resigned", r" as the group coordinator for partition .*", no_facts),
    *(
        rule(word, r" .*", no_facts)
        for word in ("Generated", "Removed", "Starting", "Startup", "Shutting", "Shutdown", "Finished", "Loading")
    ),
)
"""For each first word, the frequent ones first. The last ones are known and no evidence: other lines say it, or no group changes."""


CONSUMER: Final = "consumer"

FENCED_BECAUSE: Final = (
    # librdkafka's members leave after a poll timeout by sending nothing more.
    ("the member session expired", Meaning(None, (Cause.EXPIRE_HEARTBEAT, Cause.POLL_TIMEOUT))),
    ("the classic member failed to join within the rebalance timeout", Meaning(Cause.JOIN_TIMEOUT)),
    ("it failed to transition from epoch", Meaning(Cause.JOIN_TIMEOUT)),
    ("the member failed to sync within timeout", Meaning(Cause.SYNC_TIMEOUT)),
)
TRANSITION: Final = re.compile(r"from epoch (-?\d{1,10}) within (\d{1,10})ms")


def _member(kind: Kind, found: re.Match[str], memory: Memory) -> Facts:
    remember(memory.changed_groups, found["group"], True)
    return {"kind": kind, "group": found["group"], "group_type": CONSUMER, "member_id": found["member"]}


def _consumer_joined(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    memory.other_groups.pop(found["group"], None)
    return (_member(Kind.MEMBER_JOINED, found, memory) | {"protocol": found["protocol"]},)


def _consumer_joined_static(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    return (_member(Kind.MEMBER_JOINED, found, memory) | {"instance_id": found["instance"], "protocol": found["protocol"]},)


def _returned(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    facts = _member(Kind.STATIC_REPLACED, found, memory) | {"instance_id": found["instance"], "protocol": found["protocol"]}
    return (facts | meaning_facts(STATIC_RETURN),)


def _consumer_left(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    return (_member(Kind.MEMBER_LEFT, found, memory) | meaning_facts(ANY_LEAVE),)


def _left_static(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    return (_member(Kind.MEMBER_LEFT, found, memory) | {"instance_id": found["instance"]} | meaning_facts(ANY_LEAVE),)


def _left_for_now(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """A static member that closed: its partitions wait for it until its session ends."""
    return (_member(Kind.MEMBER_LEFT, found, memory) | {"instance_id": found["instance"], "trigger": Cause.STATIC_REJOIN},)


def _left_by_request(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """LeaveGroup: of a member of the classic protocol, or by an administrator."""
    reason = found["client_reason"] or ""
    facts = _member(Kind.MEMBER_LEFT, found, memory) | {"instance_id": found["instance"], "client_reason": reason or None}
    return (facts | meaning_facts(leave_meaning(reason)),)


def _consumer_fenced(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    because = found["because"]
    meaning = next((meaning for text, meaning in FENCED_BECAUSE if because.startswith(text)), Meaning())
    facts = _member(Kind.MEMBER_REMOVED, found, memory) | {"reason": because} | meaning_facts(meaning)
    transition = TRANSITION.search(because)
    if transition is not None:
        facts |= {"evidence": {"member_epoch": int(transition[1]), "rebalance_timeout_ms": int(transition[2])}}
    return (facts,)


def _refused(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """UNRELEASED_INSTANCE_ID: until the owner leaves or its session expires."""
    facts = _member(Kind.JOIN_REFUSED, found, memory) | {"instance_id": found["instance"]}
    return (facts | {"reason": f"UNRELEASED_INSTANCE_ID: {found[0]}", "candidates": (Cause.STATIC_FENCED, Cause.FAILED_JOIN)},)


def _shares_no_assignor(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    """Only Ottla says so: it has no member id."""
    facts = {"kind": Kind.JOIN_REFUSED, "group": found["group"], "client_id": found["client"], "trigger": Cause.FAILED_JOIN}
    return (facts | {"reason": f"INCONSISTENT_GROUP_PROTOCOL: {found[0]}"},)


def _static_fenced(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    facts = _member(Kind.STATIC_FENCED, found, memory) | {"instance_id": found["instance"], "reason": found[0]}
    return (facts | {"trigger": Cause.STATIC_FENCED},)


def _bumped(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    """The metadata hash changes with the topics that the members subscribe to, so also with the members, and with their partitions."""
    group, epoch, metadata_hash = found["group"], int(found["epoch"]), found["hash"]
    if group in memory.other_groups:
        return ()
    facts = {"group": group, "group_type": CONSUMER, "generation": epoch}
    bump = facts | {"kind": Kind.JOIN_COMPLETED}
    if metadata_hash is None:
        return (bump,)
    before = memory.metadata_hashes.get(group, metadata_hash)
    remember(memory.metadata_hashes, group, metadata_hash)
    is_by_members = memory.changed_groups.pop(group, False)
    if is_by_members or before == metadata_hash:
        return (bump,)
    return (facts | {"kind": Kind.TOPICS_CHANGED, "candidates": (Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION)}, bump)


def _consumer_assigned(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    if found["group"] in memory.other_groups:
        return ()
    facts = {"kind": Kind.SYNC_COMPLETED, "group": found["group"], "group_type": CONSUMER, "generation": int(found["epoch"])}
    evidence = {} if found["took"] is None else {"assignor_ms": int(found["took"])}
    return (facts | {"protocol": found["assignor"], "evidence": evidence},)


def _converted(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    facts = {"kind": Kind.CONVERTED, "group": found["group"], "group_type": found["type"], "reason": found[0]}
    return (facts | {"trigger": Cause.MIGRATION},)


def _joined_other(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    remember(memory.other_groups, found["group"], found["type"])
    return ()


def _consumer_loaded(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.LOADED, "group": found["group"], "group_type": CONSUMER, "member_count": int(found["count"])},)


def _consumer_unloaded(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.UNLOADED, "group": found["group"], "group_type": CONSUMER, "generation": int(found["epoch"])},)


IN_GROUP: Final = rf"{FIRST_GROUP}\] "
EPOCH: Final = r"(?P<epoch>-?\d{1,10})"
PROTOCOL: Final = r"using the (?P<protocol>consumer|classic) protocol"

CONSUMER_RULES: Final = (
    rule("[GroupId", rf" {IN_GROUP}Bumped group epoch to {EPOCH}(?: with metadata hash (?P<hash>-?\d{{1,20}}))?", _bumped),
    rule(
        "[GroupId",
        rf" {IN_GROUP}Computed a new target assignment for epoch {EPOCH} with '(?P<assignor>.{{1,200}})' assignor"
        r"(?: in (?P<took>\d{1,10})ms)?(?:: .*)?",
        _consumer_assigned,
    ),
    rule("[GroupId", rf" {IN_GROUP}Member {MEMBER} joins the consumer group {PROTOCOL}", _consumer_joined),
    rule("[GroupId", rf" {IN_GROUP}Member {MEMBER} left the consumer group", _consumer_left),
    rule("[GroupId", rf" {IN_GROUP}Member {MEMBER} fenced from the group because (?P<because>.*?)", _consumer_fenced),
    rule(
        "[GroupId",
        rf" {IN_GROUP}Static [Mm]ember {MEMBER} with instance id {INSTANCE} joins the consumer group {PROTOCOL}",
        _consumer_joined_static,
    ),
    rule(
        "[GroupId",
        rf" {IN_GROUP}Static [Mm]ember with instance id {INSTANCE} re-joins the consumer group {PROTOCOL}\. "
        rf"Created a new member {MEMBER} to replace the existing member {REPLACED}",
        _returned,
    ),
    rule(
        "[GroupId", rf" {IN_GROUP}Static [Mm]ember {MEMBER} with instance id {INSTANCE} temporarily left the consumer group", _left_for_now
    ),
    rule("[GroupId", rf" {IN_GROUP}Static [Mm]ember {MEMBER} with instance id {INSTANCE} left the consumer group", _left_static),
    rule(
        "[GroupId",
        rf" {IN_GROUP}(?:Dynamic|Static) member {MEMBER}(?: with instance id {INSTANCE})? "
        rf"has left group through explicit `LeaveGroup` request{CLIENT_REASON}",
        _left_by_request,
    ),
    rule(
        "[GroupId",
        rf" {IN_GROUP}Static member {MEMBER} with instance id {INSTANCE} cannot join the group "
        r"because the instance id is owned by member .*",
        _refused,
    ),
    rule("[GroupId", rf" {IN_GROUP}Static member {MEMBER} with instance id {INSTANCE} is fenced by existing member .*", _static_fenced),
    rule("[GroupId", rf" {IN_GROUP}Converted the (?:empty )?(?:classic|consumer) group to a (?P<type>classic|consumer) group", _converted),
    rule("[GroupId", rf" {IN_GROUP}Member .* joins the (?P<type>share) group using the share protocol", _joined_other),
    rule("Loaded", rf" consumer group {GROUP} with (?P<count>\d{{1,9}}) members", _consumer_loaded),
    rule("[GroupId=", rf"{GROUP}\] Unloaded group metadata for group epoch {EPOCH}", _consumer_unloaded),
    rule(
        "[GroupId",
        r" .*\] (?:Scanned|Dynamic member|Creating a simple consumer group|Member|Computed|Received|Assignment delayed|Failed) ?.*",
        no_facts,
    ),
    rule("[GroupId", r" .*\]\[MemberId .*\] .*", no_facts),
    rule(
        "[GroupId",
        r" .*\] (?:Could not fence|Ignoring rebalance timeout|Expired offset|Removing "
        r"expired|Converted|Couldn't|Skipping|Cannot|Committing offsets|Group not found"
        r"|Streams) ?.*",
        no_facts,
    ),
    rule("Refused", rf" to let (?P<client>.{{1,1000}}?) join group {GROUP}: .*", _shares_no_assignor),
    rule("Cannot", r" (?:up|down)grade .*", no_facts),
    rule("Cannot", r" complete join phase of group .*", no_facts),
    rule("Skip", r" downgrading .*", no_facts),
    rule("Loaded", r" .*", no_facts),
)
"""The last ones are known and no evidence: of share and streams groups, and what other lines say too."""


MARKER: Final = re.compile(r"\[Group(?:Coordinator|MetadataManager| Metadata Manager on Broker) ")
PREFIX: Final = re.compile(
    r"\[GroupCoordinator id=\d+ topic=\S{1,250} partition=(?P<partition>\d+)\] "
    r"|\[GroupCoordinator (?P<broker>\d+)\]:? "
    r"|\[GroupMetadataManager brokerId=\d+\]:? "
    r"|\[Group Metadata Manager on Broker \d+\]:? "
)
OF_NO_PARTITION: Final = re.compile(r"\[GroupCoordinator id=\d+\] ")
"""What Apache Kafka 4.x writes of partitions that it loads and stores: of no group."""
ALL_RULES: Final = (*CLASSIC_RULES, *CONSUMER_RULES)


def broker_log_reader(*, clock: str, zone: tzinfo) -> LogReader:
    """A reader of one broker's log; `clock` names the log, `zone` is for times that name none."""
    return LogReader(parser=BrokerLogParser(), clock=clock, zone=zone)


class BrokerLogParser:
    """The messages of group coordinators, and what must be remembered of earlier ones."""

    source = Source.BROKER_LOG
    needles: Sequence[bytes] = (b"[Group",)

    def __init__(self) -> None:
        self._memory = Memory()

    def find(self, text: str) -> int:
        """Where a coordinator's prefix begins."""
        found = MARKER.search(text)
        return -1 if found is None else found.start()

    def parse(self, message: str) -> Sequence[Facts] | None:
        """What the message says."""
        prefix = PREFIX.match(message)
        if prefix is None:
            return () if OF_NO_PARTITION.match(message) else None
        text = without_logger(message[prefix.end() :])
        self._memory.partition = prefix["partition"] or prefix["broker"] or ""
        for rule in RULES.get(first_word(text), ()):
            found = rule.pattern.match(text)
            if found is not None:
                return rule.facts(found, self._memory)
        return None


def first_word(text: str) -> str:
    """The word that a message is looked up by."""
    word = text.split(" ", maxsplit=1)[0]
    return "[GroupId=" if word.startswith("[GroupId=") else "Member" if word.startswith("Member[") else word


RULES: Final[Mapping[str, Sequence[Rule]]] = {
    word: [rule for rule in ALL_RULES if rule.word == word] for word in {rule.word for rule in ALL_RULES}
}
