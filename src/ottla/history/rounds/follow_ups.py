"""Joins the second half of a cooperative rebalance to the first: one rebalance for its users, who lose and get partitions once.

It is one if the members say so ("need to revoke partitions and re-join"), or if it only assigns what the assignment before had revoked.
"""

from typing import Final

from ottla.history.rounds.changes import Role, first_code, role_of
from ottla.history.rounds.round import Round
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Kind

FOLLOWS_WITHIN_MS: Final = 10_000
REVOKE_REASON: Final = "need to revoke partitions"


def join_follow_ups(rounds: list[Round]) -> list[Round]:
    """The rounds without follow-ups, which are in `follow_ups` of the round that they belong to."""
    found: list[Round] = []
    parent: Round | None = None
    for each in rounds:
        if each.is_avoided:
            found.append(each)
            continue
        if parent is not None and is_follow_up(each):
            parent.follow_ups.append(each)
            parent.count_after = each.count_after
            continue
        found.append(each)
        parent = each
    return found


def is_follow_up(each: Round) -> bool:
    """Whether the round is the second half of the one before it."""
    if each.departures or each.arrivals or each.previous is None:
        return False
    if each.previous.clock == each.clock and each.started_ms - each.previous.ended_ms > FOLLOWS_WITHIN_MS:
        return False
    return says_follow_up(each) or moves_only_revoked(each)


def says_follow_up(each: Round) -> bool:
    """Whether members gave it as their reason, and no member gave another cause."""
    items = [item for item in each.items if item.kind is Kind.TRIGGER and role_of(item) in (Role.REJOINED, Role.OTHER)]
    items += [item for item in each.client_items if item.kind is Kind.CLIENT_REJOINS]
    said = [
        first_code(item) == Cause.COOP_FOLLOWUP or REVOKE_REASON in (item.client_reason or "")
        for item in items
        if _is_clear(item.trigger, item.client_reason)
    ]
    return bool(said) and all(said)


def moves_only_revoked(each: Round) -> bool:
    """Whether the assignment gives out only what the one before had taken away, and takes nothing."""
    diff = each.diff
    return diff is not None and diff.regained > 0 and diff.moved == diff.new == diff.gone == 0


def _is_clear(trigger: str | None, client_reason: str | None) -> bool:
    return trigger is not None or REVOKE_REASON in (client_reason or "")
