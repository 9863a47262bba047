"""Signatures of rebalances in which no member came or went: topics, subscriptions, assignors, a coordinator that moved, or nothing."""

import re
from collections.abc import Iterator
from typing import Final

from ottla.groups.events import NO_REASON
from ottla.history.rounds.membership import resubscribed_members, topics_resubscribed
from ottla.history.rounds.round import Membership, Round, same_members
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source
from ottla.history.verdicts.verdict import Confidence, Rule

MOVED_WITHIN_MS: Final = 12_000
"""A rebalance this soon after another coordinator has loaded the group may be due to the move."""

RIGHT_AFTER_MS: Final = 1_000
"""A rebalance this soon after another one may be its second half."""

LEARNS_TOPIC_MS: Final = 10_000
"""A leader that assigns for a member with another topic knows its partitions this soon, and assigns again."""

EAGER_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky"})

_C = Cause
_LOG, _TOPIC, _HIGH, _MEDIUM, _LOW = Source.BROKER_LOG, Source.OFFSETS_TOPIC, Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


def rejoins(rebalance: Round) -> Iterator[Evidence]:
    return (item for item in rebalance.items if item.kind is Kind.TRIGGER)


def says(rebalance: Round, *texts: str) -> bool:
    return any(text in (item.client_reason or "") for item in rejoins(rebalance) for text in texts)


def is_silent_rejoin(rebalance: Round) -> bool:
    return any(item.client_reason in (None, "", NO_REASON) for item in rejoins(rebalance))


def is_epoch_alone(rebalance: Round) -> bool:
    is_known = (
        rebalance.before is not None or rebalance.previous is not None or any(item.kind is Kind.TOPICS_CHANGED for item in rebalance.items)
    )
    return is_known and rebalance.is_consumer_type and not any(True for _ in rejoins(rebalance))


def is_list_alone(rebalance: Round) -> bool:
    return rebalance.before is not None and not rebalance.is_consumer_type and not any(True for _ in rejoins(rebalance))


def metadata_changed_reason(rebalance: Round) -> bool:
    return says(rebalance, "cached metadata has changed")


def subscription_reason(rebalance: Round) -> bool:
    return says(rebalance, "subscription has changed", "does not match the current subscription")


def revoke_reason(rebalance: Round) -> bool:
    return says(rebalance, "need to revoke partitions", "followup rebalance")


def enforced_reason(rebalance: Round) -> bool:
    return says(rebalance, "rebalance enforced by user", "requested rejoin")


REJOIN_REASONS: Final = re.compile(
    r"not provided|cached metadata|subscription has changed|received assignment|current subscription|need to re|already rebalancing"
    r"|encountered [A-Z_]+|rebalance failed due to|pro-actively leaving|followup rebalance|enforced by user|requested rejoin"
)
"""The reasons that Java's clients give when they join again (KIP-800)."""


def own_reason(rebalance: Round) -> bool:
    return any(item.client_reason and REJOIN_REASONS.search(item.client_reason) is None for item in rejoins(rebalance))


def coordinator_reason(rebalance: Round) -> bool:
    return says(rebalance, "CoordinatorLoadInProgress", "NotCoordinator", "CoordinatorNotAvailable", "DisconnectException")


def is_coordinator_moved(rebalance: Round) -> bool:
    """Whether another coordinator loaded the group just before."""
    return rebalance.since_move_ms is not None and rebalance.since_move_ms <= MOVED_WITHIN_MS


def all_resubscribed(rebalance: Round) -> bool:
    counts = [item.evidence["members_resubscribed"] for item in rebalance.items if "members_resubscribed" in item.evidence]
    return (
        rebalance.count_after is not None
        and max([len(rebalance.resubscribed | resubscribed_members(rebalance)), *counts]) >= rebalance.count_after > 1
    )


def dropped_topic_without_partitions(rebalance: Round) -> bool:
    """Whether a member subscribes to fewer topics than before, and the assignment has the same partitions."""
    if not has_diff(rebalance) or rebalance.diff is None or rebalance.diff.new or rebalance.diff.gone:
        return False
    figures = [item.evidence for item in rebalance.items if item.evidence]
    return any(found.get("topics_removed") for found in figures) and not any(found.get("topics_added") for found in figures)


def has_diff(rebalance: Round) -> bool:
    return rebalance.diff is not None and rebalance.before is not None and rebalance.after is not None


def partitions_changed(rebalance: Round) -> bool:
    """Whether the assignment has other partitions than before, which no other subscription explains."""
    if not has_diff(rebalance) or rebalance.diff is None or rebalance.follow_ups or topics_resubscribed(rebalance):
        return False
    return (rebalance.diff.new > 0 or rebalance.diff.gone > rebalance.diff.moved) and not assigns_topic_subscribed_before(rebalance)


def assigns_topic_subscribed_before(rebalance: Round) -> bool:
    """Whether, soon after members subscribed to other topics, the new partitions are all of topics that had none assigned."""
    previous, before, after, diff = rebalance.previous, rebalance.before, rebalance.after, rebalance.diff
    if previous is None or not previous.is_resubscribed or before is None or after is None or diff is None:
        return False
    is_soon = previous.clock == rebalance.clock and rebalance.started_ms - previous.ended_ms <= LEARNS_TOPIC_MS
    return is_soon and not topics_resubscribed(rebalance) and diff.gone == 0 < diff.new == _in_new_topics(before, after)


def _in_new_topics(before: Membership, after: Membership) -> int:
    """How many partitions are assigned of topics of which none was assigned before."""
    known = {topic for member in before.members.values() for topic in member.assignment}
    assigned = (each for member in after.members.values() for each in member.assignment.items())
    return sum(len(numbers) for topic, numbers in assigned if topic not in known)


def subscribed_topic_is_gone(rebalance: Round) -> bool:
    before, after = rebalance.before, rebalance.settled
    if before is None or after is None or after.topics is None or rebalance.diff is None or not rebalance.diff.gone:
        return False
    assigned = {topic for member in after.members.values() for topic in member.assignment}
    was_assigned = {topic for member in before.members.values() for topic in member.assignment}
    return bool((was_assigned - assigned) & after.topics)


def nothing_changed(rebalance: Round) -> bool:
    diff, before, after = rebalance.diff, rebalance.before, rebalance.after
    if diff is None or before is None or after is None or topics_resubscribed(rebalance) or before.protocol != after.protocol:
        return False
    return diff.new == diff.gone == diff.regained == 0 and same_members(before, after)


def gave_back(rebalance: Round) -> bool:
    return rebalance.diff is not None and rebalance.diff.regained > 0 and rebalance.diff.new == rebalance.diff.gone == 0


def is_protocol_changed(rebalance: Round) -> bool:
    """Whether the group has another assignor than before, and had members."""
    before, after = rebalance.protocol_before, rebalance.protocol_after
    return before is not None and after is not None and before != after and rebalance.count_before != 0


def follows(rebalance: Round) -> bool:
    previous = rebalance.previous
    return (
        previous is not None
        and previous.clock == rebalance.clock
        and rebalance.started_ms - previous.ended_ms <= RIGHT_AFTER_MS
        and previous.is_membership_change
    )


def follows_first_assignment(rebalance: Round) -> bool:
    return (
        follows(rebalance)
        and rebalance.previous is not None
        and rebalance.previous.is_cold_start
        and (rebalance.previous.members or 0) <= 1
    )


def is_eager(rebalance: Round) -> bool:
    return bool(rebalance.parts) and rebalance.protocol_after in EAGER_ASSIGNORS


def topics_scanned(rebalance: Round) -> bool:
    return any(item.kind is Kind.TOPICS_CHANGED for item in (*rebalance.items, *rebalance.context))


def several_subscribe_to_other_topics(rebalance: Round) -> bool:
    """Whether others give the same reason in the rebalances next to it: a pattern is read by each member at its own time."""
    return len(rebalance.say_resubscribed) > 1


_ANY: Final = {
    _C.TOPIC_CHANGE: 3.0,
    _C.SUBSCRIPTION: 3.0,
    _C.COOP_FOLLOWUP: 2.0,
    _C.LEADER_REJOIN_SPURIOUS: 2.0,
    _C.ENFORCED: 0.5,
    _C.COORDINATOR_MOVE: 0.5,
    _C.ASSIGNOR_CHANGE: 0.2,
}

CHANGE_RULES: Final[tuple[Rule[Round], ...]] = (
    Rule(
        name="rejoined without a reason",
        source=_LOG,
        condition="Leader re-joining, or Updating metadata for a member, and no reason: every client but Java's",
        weights=_ANY,
        confidence=_MEDIUM,
        holds=is_silent_rejoin,
    ),
    Rule(
        name="an epoch alone",
        source=_LOG,
        condition="KIP-848: the group epoch was increased and no member came or went",
        weights={_C.TOPIC_CHANGE: 3, _C.SUBSCRIPTION: 3, _C.ASSIGNOR_CHANGE: 0.2, _C.MIGRATION: 0.2},
        confidence=_MEDIUM,
        holds=is_epoch_alone,
    ),
    Rule(
        name="a generation alone",
        source=_TOPIC,
        condition="a new generation of the same members",
        weights=_ANY,
        confidence=_MEDIUM,
        holds=is_list_alone,
    ),
    Rule(
        name="metadata changed",
        source=_LOG,
        condition="the client's reason: cached metadata has changed",
        weights={_C.TOPIC_CHANGE: 10, _C.COORDINATOR_MOVE: 0.3, _C.LEADER_REJOIN_SPURIOUS: 0.2, _C.SUBSCRIPTION: 0.2},
        confidence=_HIGH,
        holds=metadata_changed_reason,
    ),
    Rule(
        name="subscription changed",
        source=_LOG,
        condition="the client's reason: (the) subscription has changed, or the assignment does not match it; with a pattern, since a topic "
        "was created or deleted",
        weights={_C.SUBSCRIPTION: 4, _C.TOPIC_CHANGE: 1},
        confidence=_HIGH,
        holds=subscription_reason,
    ),
    Rule(
        name="several members' subscriptions changed",
        source=_LOG,
        condition="two members or more say so, in rebalances one after the other: a pattern does so when a topic is created or deleted",
        weights={_C.SUBSCRIPTION: 1, _C.TOPIC_CHANGE: 12},
        confidence=_MEDIUM,
        holds=several_subscribe_to_other_topics,
    ),
    Rule(
        name="has to revoke",
        source=_LOG,
        condition="the client's reason: need to revoke partitions and re-join; Streams: followup rebalance",
        weights={_C.COOP_FOLLOWUP: 1},
        confidence=_HIGH,
        holds=revoke_reason,
    ),
    Rule(
        name="enforced",
        source=_LOG,
        condition="the client's reason: rebalance enforced by user; Connect: requested rejoin",
        weights={_C.ENFORCED: 1},
        confidence=_HIGH,
        holds=enforced_reason,
    ),
    Rule(
        name="a reason of the application's own",
        source=_LOG,
        condition="a reason that no client sends by itself: enforceRebalance takes any text",
        weights={_C.ENFORCED: 20, _C.TOPIC_CHANGE: 0.3, _C.SUBSCRIPTION: 0.3, _C.LEADER_REJOIN_SPURIOUS: 0.3},
        confidence=_HIGH,
        holds=own_reason,
    ),
    Rule(
        name="coordinator not available",
        source=_LOG,
        condition="the client's reason names CoordinatorLoadInProgress, NotCoordinator or CoordinatorNotAvailable",
        weights={_C.COORDINATOR_MOVE: 1},
        confidence=_HIGH,
        holds=coordinator_reason,
    ),
    Rule(
        name="the coordinator had moved",
        source=_LOG,
        condition=f"the group was loaded or unloaded in the last {MOVED_WITHIN_MS // 1000} s, on the same clock",
        weights=dict.fromkeys(_ANY, 1.0) | {_C.COORDINATOR_MOVE: 40.0},
        confidence=_MEDIUM,
        holds=is_coordinator_moved,
    ),
    Rule(
        name="all subscribe to other topics",
        source=_TOPIC,
        condition="each of several members subscribes to other topics than before, at once or one after the other: a pattern does so when "
        "a topic is created or deleted",
        weights={_C.TOPIC_CHANGE: 12, _C.SUBSCRIPTION: 1},
        confidence=_MEDIUM,
        holds=all_resubscribed,
    ),
    Rule(
        name="a topic that had no partitions is not subscribed any more",
        source=Source.GROUP_EVENTS,
        condition="a member subscribes to fewer topics, and nothing was assigned from those: a client notices late that a topic is deleted",
        weights={_C.TOPIC_CHANGE: 20, _C.SUBSCRIPTION: 1},
        confidence=_MEDIUM,
        holds=dropped_topic_without_partitions,
    ),
    Rule(
        name="other topics subscribed",
        source=_TOPIC,
        condition="members subscribe to other topics than before",
        weights={_C.SUBSCRIPTION: 8, _C.TOPIC_CHANGE: 2, _C.COORDINATOR_MOVE: 0.1},
        confidence=_HIGH,
        holds=topics_resubscribed,
    ),
    Rule(
        name="a topic subscribed just before is assigned",
        source=_TOPIC,
        condition="members subscribed to other topics in the rebalance before, and the leader knew no partitions of these yet",
        weights={_C.SUBSCRIPTION: 8, _C.TOPIC_CHANGE: 1, _C.COORDINATOR_MOVE: 0.1},
        confidence=_MEDIUM,
        holds=assigns_topic_subscribed_before,
    ),
    Rule(
        name="other partitions assigned",
        source=_TOPIC,
        condition="partitions are assigned that were in no assignment before, or are gone from it, and the subscriptions are the same",
        weights={_C.TOPIC_CHANGE: 10, _C.SUBSCRIPTION: 3, _C.COOP_FOLLOWUP: 0.5, _C.COORDINATOR_MOVE: 0.1},
        confidence=_HIGH,
        holds=partitions_changed,
    ),
    Rule(
        name="a subscribed topic is gone",
        source=_TOPIC,
        condition="a topic is in no assignment any more, and members still subscribe to it",
        weights={_C.TOPIC_CHANGE: 30, _C.SUBSCRIPTION: 1, _C.COORDINATOR_MOVE: 1},
        confidence=_HIGH,
        holds=subscribed_topic_is_gone,
    ),
    Rule(
        name="nothing changed",
        source=_TOPIC,
        condition="members, subscriptions, assigned partitions and assignor are those of the generation before",
        weights={_C.LEADER_REJOIN_SPURIOUS: 10, _C.ENFORCED: 3, _C.COORDINATOR_MOVE: 1, _C.SUBSCRIPTION: 0.2, _C.TOPIC_CHANGE: 0.2},
        confidence=_MEDIUM,
        holds=nothing_changed,
    ),
    Rule(
        name="revoked partitions assigned",
        source=_TOPIC,
        condition="partitions that the assignment before had taken away are assigned again",
        weights={_C.COOP_FOLLOWUP: 20, _C.LEADER_REJOIN_SPURIOUS: 0.5, _C.TOPIC_CHANGE: 0.5, _C.SUBSCRIPTION: 0.5},
        confidence=_HIGH,
        holds=gave_back,
    ),
    Rule(
        name="another assignor",
        source=_TOPIC,
        condition="the assignment before and after are of different assignors",
        weights={_C.ASSIGNOR_CHANGE: 1},
        confidence=_HIGH,
        holds=is_protocol_changed,
    ),
    Rule(
        name="right after a change of members",
        source=_LOG,
        condition=f"within {RIGHT_AFTER_MS} ms of a rebalance in which members came or went",
        weights=dict.fromkeys(_ANY, 1.0) | {_C.COOP_FOLLOWUP: 4.0, _C.LEADER_REJOIN_SPURIOUS: 5.0},
        confidence=_LOW,
        holds=follows,
    ),
    Rule(
        name="right after a first assignment",
        source=_LOG,
        condition="the same, of a group with one member, which has nothing to revoke",
        weights=dict.fromkeys(_ANY, 1.0) | {_C.COOP_FOLLOWUP: 0.1, _C.LEADER_REJOIN_SPURIOUS: 8.0},
        confidence=_LOW,
        holds=follows_first_assignment,
    ),
    Rule(
        name="an eager assignor",
        source=_TOPIC,
        condition="range, roundrobin and sticky revoke everything at once: there is no second half",
        weights=dict.fromkeys(_ANY, 1.0) | {_C.COOP_FOLLOWUP: 0.01},
        confidence=_LOW,
        holds=is_eager,
    ),
    Rule(
        name="the metadata hash changed",
        source=_LOG,
        condition="KIP-848: the hash of the subscribed topics differs, or topics were scanned for a pattern",
        weights={_C.TOPIC_CHANGE: 4, _C.SUBSCRIPTION: 3},
        confidence=_MEDIUM,
        holds=topics_scanned,
    ),
)
