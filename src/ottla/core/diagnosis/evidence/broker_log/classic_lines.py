"""The lines of the classic coordinator: of 4.x (Java) and of 2.x and 3.x (Scala), which name the partition in some."""

import re
from collections.abc import Sequence
from typing import Final

from ottla.core.diagnosis.evidence.broker_log.line_patterns import (
    CLIENT_REASON,
    FIRST_GROUP,
    GROUP,
    INSTANCE,
    MEMBER,
    PARTITION,
    REPLACED,
    STATE,
    member_ids,
    no_facts,
    option,
    rule,
)
from ottla.core.diagnosis.evidence.broker_log.memory import Memory, remember
from ottla.core.diagnosis.evidence.broker_log.trigger_reasons import STATIC_RETURN, meaning_facts, trigger_facts
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_reasons import leave_meaning
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

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


def _left(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    member_id, reason = found["member"] or "", found["client_reason"] or ""
    remember(memory.leave_reasons, (found["group"], member_id), reason)
    member = {"member_id": member_id or None, "client_id": memory.client_of(member_id), "client_reason": reason}
    return ({"kind": Kind.MEMBER_LEFT, "group": found["group"]} | member | meaning_facts(leave_meaning(reason)),)


def _left_in_scala(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
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


def _joined(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
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
    rule("[Group", rf" {FIRST_GROUP}\] Member (?P<member>.{{0,1000}}?) {LEFT}", _left),
    rule("[Group", rf" {FIRST_GROUP}\] Pending member .* {LEFT}", no_facts),
    rule("Member", rf" {MEMBER} in group {GROUP} has failed, removing it from the group", _failed),
    rule("Member", rf" {METADATA} has left group {FIRST_GROUP} through explicit `LeaveGroup` request{CLIENT_REASON}", _left_in_scala),
    rule(
        "Member",
        rf"\[group\.instance\.id {INSTANCE}, member\.id {MEMBER}\] in group {GROUP} has left, removing it from the group",
        _left_in_2,
    ),
    rule("Member", rf" {MEMBER} in group {GROUP} has left, removing it from the group", _left_in_2),
    rule("Group", rf" {GROUP} removed? dynamic members who haven't joined: (?P<members>.*)", _removed_late),
    rule("Group", rf" {GROUP} removed members who haven't sent their sync requests: (?P<members>.*)", _removed_unsynced),
    rule("Pending", rf" dynamic member with id {MEMBER} joins group {GROUP} in {STATE} state\. Adding to the group now", _joined),
    rule("Dynamic", r" member with unknown member id joins group .* and request(?:ing)? the member to rejoin with this id", no_facts),
    rule(
        "Dynamic",
        rf" [Mm]ember with unknown member id joins group {GROUP} in (?:state {STATE}|{STATE} state)\. "
        rf"Created a new member id {MEMBER} (?:and added the member to the group|for this member and add to the group)",
        _joined,
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
