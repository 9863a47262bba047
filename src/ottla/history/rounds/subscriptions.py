"""What the evidence of a round says about the topics that members subscribe to."""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.history.rounds.round import Round

PATTERN_WITHIN_MS: Final = 60_000
"""Members that subscribe to a pattern see that a topic matches it at different times, each when it asks for metadata again."""


def topics_resubscribed(each: Round) -> bool:
    """Whether a member subscribes to other topics than in the generation before."""
    figures = [item.evidence for item in each.items if item.evidence]
    if any(found.get("topics_added") or found.get("topics_removed") for found in figures):
        return True
    counts = [found["members_resubscribed"] for found in figures if "members_resubscribed" in found]
    if counts:
        return any(counts)  # topics that only match a pattern of old are not subscribed
    before, after = each.before, each.after
    return (
        before is not None
        and after is not None
        and before.topics is not None
        and after.topics is not None
        and before.topics != after.topics
    )


def note_resubscribed(rounds: Iterable[Round]) -> None:
    """Give each of several rebalances in a row in which members subscribe to other topics the ids of all these members."""
    in_a_row: list[Round] = []
    for each in rounds:
        if each.is_avoided:
            continue
        each.resubscribed = resubscribed_members(each)
        is_alone = not each.departures and not each.arrivals
        if not each.resubscribed or not is_alone or (in_a_row and not _is_soon_after(in_a_row[-1], each)):
            _share(in_a_row)
            in_a_row = []
        if each.resubscribed and is_alone:
            in_a_row.append(each)
    _share(in_a_row)


def resubscribed_members(each: Round) -> frozenset[str]:
    """The ids of members that say so themselves."""
    named = (item for item in each.items if item.member_id is not None and item.evidence)
    return frozenset(item.member_id or "" for item in named if item.evidence.get("topics_added") or item.evidence.get("topics_removed"))


def _is_soon_after(earlier: Round, later: Round) -> bool:
    return earlier.clock == later.clock and later.started_ms - earlier.started_ms <= PATTERN_WITHIN_MS


def _share(in_a_row: Sequence[Round]) -> None:
    everyone = frozenset[str]().union(*(each.resubscribed for each in in_a_row))
    for each in in_a_row:
        each.resubscribed = everyone
