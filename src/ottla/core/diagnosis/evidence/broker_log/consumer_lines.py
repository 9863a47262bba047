"""The lines of the KIP-848 coordinator: `[GroupId G] ...`. Heartbeats bring no reason, so a leave is a close or a poll timeout."""

import re
from collections.abc import Sequence
from typing import Final

from ottla.core.diagnosis.evidence.broker_log.line_patterns import (
    CLIENT_REASON,
    FIRST_GROUP,
    GROUP,
    INSTANCE,
    MEMBER,
    REPLACED,
    no_facts,
    rule,
)
from ottla.core.diagnosis.evidence.broker_log.memory import Memory, remember
from ottla.core.diagnosis.evidence.broker_log.trigger_reasons import STATIC_RETURN, meaning_facts
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_reasons import ANY_LEAVE, Meaning, leave_meaning
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

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


def _joined(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    memory.other_groups.pop(found["group"], None)
    return (_member(Kind.MEMBER_JOINED, found, memory) | {"protocol": found["protocol"]},)


def _joined_static(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    return (_member(Kind.MEMBER_JOINED, found, memory) | {"instance_id": found["instance"], "protocol": found["protocol"]},)


def _returned(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    facts = _member(Kind.STATIC_REPLACED, found, memory) | {"instance_id": found["instance"], "protocol": found["protocol"]}
    return (facts | meaning_facts(STATIC_RETURN),)


def _left(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
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


def _fenced(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    because = found["because"]
    meaning = next((meaning for text, meaning in FENCED_BECAUSE if because.startswith(text)), Meaning())
    facts = _member(Kind.MEMBER_REMOVED, found, memory) | {"reason": because} | meaning_facts(meaning)
    transition = TRANSITION.search(because)
    if transition is not None:
        facts |= {"evidence": {"member_epoch": int(transition[1]), "rebalance_timeout_ms": int(transition[2])}}
    return (facts,)


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


def _assigned(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    if found["group"] in memory.other_groups:
        return ()
    facts = {"kind": Kind.SYNC_COMPLETED, "group": found["group"], "group_type": CONSUMER, "generation": int(found["epoch"])}
    return (facts | {"protocol": found["assignor"], "evidence": {"assignor_ms": int(found["took"])}},)


def _converted(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    facts = {"kind": Kind.CONVERTED, "group": found["group"], "group_type": found["type"], "reason": found[0]}
    return (facts | {"trigger": Cause.MIGRATION},)


def _joined_other(found: re.Match[str], memory: Memory) -> Sequence[Facts]:
    remember(memory.other_groups, found["group"], found["type"])
    return ()


def _loaded(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.LOADED, "group": found["group"], "group_type": CONSUMER, "member_count": int(found["count"])},)


def _unloaded(found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    return ({"kind": Kind.UNLOADED, "group": found["group"], "group_type": CONSUMER, "generation": int(found["epoch"])},)


IN_GROUP: Final = rf"{FIRST_GROUP}\] "
EPOCH: Final = r"(?P<epoch>-?\d{1,10})"
PROTOCOL: Final = r"using the (?P<protocol>consumer|classic) protocol"

CONSUMER_RULES: Final = (
    rule("[GroupId", rf" {IN_GROUP}Bumped group epoch to {EPOCH}(?: with metadata hash (?P<hash>-?\d{{1,20}}))?", _bumped),
    rule(
        "[GroupId",
        rf" {IN_GROUP}Computed a new target assignment for epoch {EPOCH} with '(?P<assignor>.{{1,200}})' assignor in (?P<took>\d{{1,10}})ms"
        r"(?:: .*)?",
        _assigned,
    ),
    rule("[GroupId", rf" {IN_GROUP}Member {MEMBER} joins the consumer group {PROTOCOL}", _joined),
    rule("[GroupId", rf" {IN_GROUP}Member {MEMBER} left the consumer group", _left),
    rule("[GroupId", rf" {IN_GROUP}Member {MEMBER} fenced from the group because (?P<because>.*?)", _fenced),
    rule(
        "[GroupId", rf" {IN_GROUP}Static [Mm]ember {MEMBER} with instance id {INSTANCE} joins the consumer group {PROTOCOL}", _joined_static
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
        rf" {IN_GROUP}Static member {MEMBER} with instance id {INSTANCE} "
        r"(?:cannot join the group because the instance id is owned by member|is fenced by existing member) .*",
        _static_fenced,
    ),
    rule("[GroupId", rf" {IN_GROUP}Converted the (?:empty )?(?:classic|consumer) group to a (?P<type>classic|consumer) group", _converted),
    rule("[GroupId", rf" {IN_GROUP}Member .* joins the (?P<type>share) group using the share protocol", _joined_other),
    rule("Loaded", rf" consumer group {GROUP} with (?P<count>\d{{1,9}}) members", _loaded),
    rule("[GroupId=", rf"{GROUP}\] Unloaded group metadata for group epoch {EPOCH}", _unloaded),
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
    rule("Cannot", r" (?:up|down)grade .*", no_facts),
    rule("Cannot", r" complete join phase of group .*", no_facts),
    rule("Skip", r" downgrading .*", no_facts),
    rule("Loaded", r" .*", no_facts),
)
"""The last ones are known and no evidence: of share and streams groups, and what other lines say too."""
