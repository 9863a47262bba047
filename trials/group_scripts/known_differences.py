"""The known differences between Ottla and Apache Kafka in group scripts, each matched as narrowly as possible.

The list is complete: any other difference is a failure. Two of them end a script, since the brokers are then in different states.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trials.group_scripts.script_state import (
    JOIN_GROUP,
    LEAVE_GROUP,
    NONE,
    REBALANCE_IN_PROGRESS,
    SYNC_GROUP,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
    UNREADABLE_SUBSCRIPTION,
    Step,
)

SUPERSEDED = "a parked request is superseded by the same member's next one"
LEFT_WHILE_SYNCING = "a member is removed while its SyncGroup is parked"
ARBITRARY_LEADER = "the leader left and several members remain"
UNREADABLE = "a member's subscription has a topic count that exceeds its bytes"
KNOWN_DIFFERENCES: Mapping[str, str] = {
    SUPERSEDED: "Kafka forgets the earlier request and never answers it; Ottla answers REBALANCE_IN_PROGRESS",
    LEFT_WHILE_SYNCING: "Kafka forgets the request with the member and never answers it; Ottla answers UNKNOWN_MEMBER_ID",
    ARBITRARY_LEADER: "Kafka takes the first member in a hash map of random ids; Ottla the one that joined first",
    UNREADABLE: "Kafka fails with UNKNOWN_SERVER_ERROR during the rebalance, which then hangs; Ottla treats the topics as unknown",
}


def reason_for_missing(sent: Mapping[int, Step], number: int, ours: Any, theirs: Any) -> str | None:
    """The reason why only one broker answered a step; None if there is none."""
    step = sent[number]
    if theirs is not None:
        return None
    later = [other for at, other in sent.items() if at > number]
    if step.api == SYNC_GROUP and ours["error_code"] == UNKNOWN_MEMBER_ID:
        leavers = [each for other in later if other.api == LEAVE_GROUP for each in other.values["members"]]
        return LEFT_WHILE_SYNCING if any(_is(each, step.values["member_id"]) for each in leavers) else None
    if step.api in (JOIN_GROUP, SYNC_GROUP) and ours["error_code"] == REBALANCE_IN_PROGRESS:
        is_superseded = any(other.api == step.api and other.values["member_id"] == step.values["member_id"] for other in later)
        return SUPERSEDED if is_superseded else None
    return None


@dataclass(slots=True)
class LastLeader:
    """The last generation on Apache Kafka, and its leader."""

    generation: int = -1
    leader: str = ""

    def learn(self, answers: Mapping[int, Any]) -> None:
        """Update it from JoinGroup responses of a newer generation."""
        for answer in answers.values():
            if answer.get("error_code") == NONE and answer.get("generation_id", -1) > self.generation:
                self.generation, self.leader = answer["generation_id"], answer["leader"]


def reason_to_end(
    sent: Mapping[int, Step], theirs: Mapping[int, Any], ours: Mapping[int, Any], last_leader: LastLeader, members: Mapping[str, str | None]
) -> str | None:
    """The reason why a script cannot be compared any further; None if it can. `members`: instance ids by member id, after the step."""
    joins = [number for number in theirs.keys() | ours.keys() if sent[number].api == JOIN_GROUP]
    for number in joins:
        one, other = theirs.get(number), ours.get(number)
        # In the first rebalance a timer fails, so that no request is answered.
        has_failed = other is not None and other["error_code"] == NONE if one is None else one["error_code"] == UNKNOWN_SERVER_ERROR
        if has_failed and _has_unreadable_subscription(sent):
            return UNREADABLE
        if one is not None and other is not None and _have_different_leaders(one, other, last_leader, members):
            return ARBITRARY_LEADER
    return None


def _have_different_leaders(one: Any, other: Any, last_leader: LastLeader, members: Mapping[str, str | None]) -> bool:
    """Whether the brokers elected different members as leader, since the old one left, or is static and late."""
    if not one["error_code"] == other["error_code"] == NONE or one["generation_id"] <= last_leader.generation:
        return False
    leaders = {one["leader"], other["leader"]}
    old_leader_stays = last_leader.leader in leaders or members.get(last_leader.leader, "gone") is None
    return len(leaders) == 2 and leaders <= members.keys() and bool(last_leader.leader) and not old_leader_stays


def _is(leaver: Mapping[str, Any], member_id: str) -> bool:
    """Whether a LeaveGroup entry is this member: by its id, or by its instance id alone."""
    instance_id = leaver.get("group_instance_id")
    return leaver["member_id"] == member_id or (not leaver["member_id"] and member_id.startswith(f"{instance_id}-<"))


def _has_unreadable_subscription(sent: Mapping[int, Step]) -> bool:
    joins = [step for step in sent.values() if step.api == JOIN_GROUP and step.values["protocol_type"] == "consumer"]
    return any(each["metadata"] == UNREADABLE_SUBSCRIPTION for step in joins for each in step.values["protocols"])
