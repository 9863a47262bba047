"""The reasons of `Preparing to rebalance group ...`: the cause of each, or those that it cannot tell apart.

Texts of Apache Kafka 4.3 (GroupMetadataManager), and those of 2.x and 3.x (kafka.coordinator.group.GroupCoordinator), which begin with
small letters in older releases, have no client's reason before 3.2 and print options as Scala does.
"""

import re
from collections.abc import Callable
from typing import Final

from ottla.core.diagnosis.evidence.broker_log.line_patterns import CLIENT_REASON, INSTANCE, MEMBER, STATE, member_ids, option
from ottla.core.diagnosis.evidence.broker_log.memory import Memory
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_reasons import Meaning, first_join_meaning, leave_meaning, rejoin_meaning
from ottla.core.diagnosis.evidence.log_reading import Facts

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
