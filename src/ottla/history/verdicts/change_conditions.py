"""What can be true of a rebalance in which no member came or went: the conditions of the rules."""

import re
from collections.abc import Iterator
from typing import Final

from ottla.history.rounds.round import Membership, Round, same_members
from ottla.history.rounds.subscriptions import resubscribed_members, topics_resubscribed
from ottla.history.sources.model import Evidence, Kind

MOVED_WITHIN_MS: Final = 30_000
"""A rebalance this soon after another coordinator has loaded the group may be due to the move."""


RIGHT_AFTER_MS: Final = 1_000
"""A rebalance this soon after another one may be its second half."""

LEARNS_TOPIC_MS: Final = 10_000
"""A leader that assigns for a member with another topic knows its partitions this soon, and assigns again."""

EAGER_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky"})


def rejoins(each: Round) -> Iterator[Evidence]:
    return (item for item in each.items if item.kind is Kind.TRIGGER)


def says(each: Round, *texts: str) -> bool:
    return any(text in (item.client_reason or "") for item in rejoins(each) for text in texts)


def is_silent_rejoin(each: Round) -> bool:
    return any(item.client_reason in (None, "", "not provided") for item in rejoins(each))


def is_epoch_alone(each: Round) -> bool:
    is_known = each.before is not None or each.previous is not None or any(item.kind is Kind.TOPICS_CHANGED for item in each.items)
    return is_known and each.is_consumer_type and not any(True for _ in rejoins(each))


def is_list_alone(each: Round) -> bool:
    return each.before is not None and not each.is_consumer_type and not any(True for _ in rejoins(each))


def metadata_changed_reason(each: Round) -> bool:
    return says(each, "cached metadata has changed")


def subscription_reason(each: Round) -> bool:
    return says(each, "subscription has changed", "does not match the current subscription")


def revoke_reason(each: Round) -> bool:
    return says(each, "need to revoke partitions", "followup rebalance")


def enforced_reason(each: Round) -> bool:
    return says(each, "rebalance enforced by user", "requested rejoin")


REJOIN_REASONS: Final = re.compile(
    r"not provided|cached metadata|subscription has changed|received assignment|current subscription|need to re|already rebalancing"
    r"|encountered [A-Z_]+|rebalance failed due to|pro-actively leaving|followup rebalance|enforced by user|requested rejoin"
)
"""The reasons that Java's clients give when they join again (KIP-800)."""


def own_reason(each: Round) -> bool:
    return any(item.client_reason and REJOIN_REASONS.search(item.client_reason) is None for item in rejoins(each))


def coordinator_reason(each: Round) -> bool:
    return says(each, "CoordinatorLoadInProgress", "NotCoordinator", "CoordinatorNotAvailable", "DisconnectException")


def is_coordinator_moved(each: Round) -> bool:
    """Whether another coordinator loaded the group just before."""
    return each.since_move_ms is not None and each.since_move_ms <= MOVED_WITHIN_MS


def all_resubscribed(each: Round) -> bool:
    counts = [item.evidence["members_resubscribed"] for item in each.items if "members_resubscribed" in item.evidence]
    return each.count_after is not None and max([len(each.resubscribed | resubscribed_members(each)), *counts]) >= each.count_after > 1


def dropped_topic_without_partitions(each: Round) -> bool:
    """Whether a member subscribes to fewer topics than before, and the assignment has the same partitions."""
    if not has_diff(each) or each.diff is None or each.diff.new or each.diff.gone:
        return False
    figures = [item.evidence for item in each.items if item.evidence]
    return any(found.get("topics_removed") for found in figures) and not any(found.get("topics_added") for found in figures)


def has_diff(each: Round) -> bool:
    return each.diff is not None and each.before is not None and each.after is not None


def partitions_changed(each: Round) -> bool:
    """Whether the assignment has other partitions than before, which no other subscription explains."""
    if not has_diff(each) or each.diff is None or each.follow_ups or topics_resubscribed(each):
        return False
    return (each.diff.new > 0 or each.diff.gone > each.diff.moved) and not assigns_topic_subscribed_before(each)


def assigns_topic_subscribed_before(each: Round) -> bool:
    """Whether, soon after members subscribed to other topics, the new partitions are all of topics that had none assigned."""
    previous, before, after, diff = each.previous, each.before, each.after, each.diff
    if previous is None or not previous.is_resubscribed or before is None or after is None or diff is None:
        return False
    is_soon = previous.clock == each.clock and each.started_ms - previous.ended_ms <= LEARNS_TOPIC_MS
    return is_soon and not topics_resubscribed(each) and diff.gone == 0 < diff.new == _in_new_topics(before, after)


def _in_new_topics(before: Membership, after: Membership) -> int:
    """How many partitions are assigned of topics of which none was assigned before."""
    known = {topic for member in before.members.values() for topic in member.assignment}
    assigned = (each for member in after.members.values() for each in member.assignment.items())
    return sum(len(numbers) for topic, numbers in assigned if topic not in known)


def subscribed_topic_is_gone(each: Round) -> bool:
    before, after = each.before, each.settled
    if before is None or after is None or after.topics is None or each.diff is None or not each.diff.gone:
        return False
    assigned = {topic for member in after.members.values() for topic in member.assignment}
    was_assigned = {topic for member in before.members.values() for topic in member.assignment}
    return bool((was_assigned - assigned) & after.topics)


def nothing_changed(each: Round) -> bool:
    diff, before, after = each.diff, each.before, each.after
    if diff is None or before is None or after is None or topics_resubscribed(each) or before.protocol != after.protocol:
        return False
    return diff.new == diff.gone == diff.regained == 0 and same_members(before, after)


def gave_back(each: Round) -> bool:
    return each.diff is not None and each.diff.regained > 0 and each.diff.new == each.diff.gone == 0


def is_protocol_changed(each: Round) -> bool:
    """Whether the group has another assignor than before, and had members."""
    before, after = each.protocol_before, each.protocol_after
    return before is not None and after is not None and before != after and each.count_before != 0


def follows(each: Round) -> bool:
    previous = each.previous
    return (
        previous is not None
        and previous.clock == each.clock
        and each.started_ms - previous.ended_ms <= RIGHT_AFTER_MS
        and previous.is_membership_change
    )


def follows_first_assignment(each: Round) -> bool:
    return follows(each) and each.previous is not None and each.previous.is_cold_start and (each.previous.members or 0) <= 1


def is_eager(each: Round) -> bool:
    return bool(each.parts) and each.protocol_after in EAGER_ASSIGNORS


def topics_scanned(each: Round) -> bool:
    return any(item.kind is Kind.TOPICS_CHANGED for item in (*each.items, *each.context))
