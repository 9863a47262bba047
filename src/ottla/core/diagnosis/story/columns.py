"""The rebalances of a story as columns, and which assignment each of them stored."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ottla.core.diagnosis.story.assignments import OwnerArrays
from ottla.core.diagnosis.story.rebalance import StoryRebalance
from ottla.core.diagnosis.story.sentences import advice_text

_PLAIN: Final = (
    *("started_ms", "join_ms", "sync_ms", "outcome", "generation", "cause", "confidence", "planned", "avoidable", "is_avoided"),
    *("silent_ms", "is_eager", "members_before", "members_after", "stopped", "stopped_ms", "moved", "new", "messages_in"),
    *("sentence", "sharper"),
)
_LISTS: Final = ("candidates", "coalesced", "evidence", "generations")
_MADE: Final[Mapping[str, Callable[[StoryRebalance], Any]]] = {
    "glyph": lambda each: each.glyph,
    "advice": lambda each: [advice_text(advice) for advice in each.advice],
    "member_name": lambda each: None if each.member is None else each.member.text,
    "stopped_seconds": lambda each: round(each.stopped_seconds, 3),
}


def rebalance_columns(rebalances: Sequence[StoryRebalance], rows: Sequence[int | None], owners: OwnerArrays) -> dict[str, list[Any]]:
    """A list a column, all as long as `rebalances`. `rows`: the row of the member that set each off.

    `assignments`: the indexes of the assignments that it stored, one a generation.
    """
    columns: dict[str, list[Any]] = {name: [getattr(each, name) for each in rebalances] for name in _PLAIN}
    columns |= {name: [list(getattr(each, name)) for each in rebalances] for name in _LISTS}
    columns |= {name: [made(each) for each in rebalances] for name, made in _MADE.items()}
    columns["row"] = list(rows)
    columns["assignments"] = stored_assignments(rebalances, owners)
    return columns


def stored_assignments(rebalances: Sequence[StoryRebalance], owners: OwnerArrays) -> list[list[int]]:
    """For each rebalance the first assignment of each of its generations that was stored after it began."""
    by_generation: dict[int, list[int]] = {}
    for index, generation in enumerate(owners.generation):
        if generation is not None:
            by_generation.setdefault(generation, []).append(index)
    found: list[list[int]] = []
    for each in rebalances:
        generations = () if each.is_avoided else each.generations or (() if each.generation is None else (each.generation,))
        after = [[index for index in by_generation.get(it, ()) if owners.at_ms[index] >= each.started_ms] for it in generations]
        found.append([indexes[0] for indexes in after if indexes])
    return found
