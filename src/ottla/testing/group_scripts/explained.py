"""The differences between Ottla and Apache Kafka in group scripts that have a reason, each matched as narrowly as it can be.

This is the whole list; everything else is a failure. Two of the reasons end a script, since the brokers are then in two states.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.testing.group_scripts.view import (
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
LEFT_WHILE_SYNCING = "a member is made to leave while its SyncGroup is parked"
ARBITRARY_LEADER = "the leader is gone and several members are left"
UNREADABLE = "a member's subscription promises more topics than it has bytes"
EXPLAINED: Mapping[str, str] = {
    SUPERSEDED: "Kafka forgets the earlier request and never answers it; Ottla answers REBALANCE_IN_PROGRESS",
    LEFT_WHILE_SYNCING: "Kafka forgets the request with the member and never answers it; Ottla answers UNKNOWN_MEMBER_ID",
    ARBITRARY_LEADER: "Kafka takes the first member in a hash map of random ids; Ottla the one that joined first",
    UNREADABLE: "Kafka fails with UNKNOWN_SERVER_ERROR in the middle of the round, which then hangs; Ottla takes the topics as unknown",
}


def explain_missing(sent: Mapping[int, Step], number: int, ours: Any, theirs: Any) -> str | None:
    """The reason why only one broker has answered a step; None if there is none."""
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
class Led:
    """The last generation that Apache Kafka formed, and who led it."""

    generation: int = -1
    leader: str = ""

    def learn(self, answers: Mapping[int, Any]) -> None:
        """Take over what answers to JoinGroup say of a newer generation."""
        for answer in answers.values():
            if answer.get("error_code") == NONE and answer.get("generation_id", -1) > self.generation:
                self.generation, self.leader = answer["generation_id"], answer["leader"]


def why_it_ends(
    sent: Mapping[int, Step], theirs: Mapping[int, Any], ours: Mapping[int, Any], led: Led, members: Mapping[str, str | None]
) -> str | None:
    """The reason why a script says nothing from here on; None if it goes on. `members`: instance ids by member id, after the step."""
    joins = [number for number in theirs.keys() | ours.keys() if sent[number].api == JOIN_GROUP]
    for number in joins:
        one, other = theirs.get(number), ours.get(number)
        # In the first round of a group it is a timer that fails, so that nobody is told anything.
        has_failed = other is not None and other["error_code"] == NONE if one is None else one["error_code"] == UNKNOWN_SERVER_ERROR
        if has_failed and _says_the_unreadable(sent):
            return UNREADABLE
        if one is not None and other is not None and _elect_differently(one, other, led, members):
            return ARBITRARY_LEADER
    return None


def _elect_differently(one: Any, other: Any, led: Led, members: Mapping[str, str | None]) -> bool:
    """Whether a new generation has two leaders, both of them members, since the old leader is gone, or static and late."""
    if not one["error_code"] == other["error_code"] == NONE or one["generation_id"] <= led.generation:
        return False
    leaders = {one["leader"], other["leader"]}
    old_leader_stays = led.leader in leaders or members.get(led.leader, "gone") is None
    return len(leaders) == 2 and leaders <= members.keys() and bool(led.leader) and not old_leader_stays


def _is(leaver: Mapping[str, Any], member_id: str) -> bool:
    """Whether a line of LeaveGroup means this member: by its id, or by its instance id alone."""
    instance_id = leaver.get("group_instance_id")
    return leaver["member_id"] == member_id or (not leaver["member_id"] and member_id.startswith(f"{instance_id}-<"))


def _says_the_unreadable(sent: Mapping[int, Step]) -> bool:
    joins = [step for step in sent.values() if step.api == JOIN_GROUP and step.values["protocol_type"] == "consumer"]
    return any(each["metadata"] == UNREADABLE_SUBSCRIPTION for step in joins for each in step.values["protocols"])
