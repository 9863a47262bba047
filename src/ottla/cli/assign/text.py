"""Outcomes as text, at most 80 columns wide."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ottla.cli.assign.outcome import Outcome
from ottla.cli.assign.state import State
from ottla.core.text import printable

WIDTH: Final = 80
NAME_WIDTH_MAX: Final = 32
MOVES_MAX: Final = 20
"""Moves that are listed for each assignor; more are counted."""


def text(state: State, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of a report."""
    count = sum(state.partitions.values())
    yield f"{_count(len(state.members), 'member')}, {_count(len(state.partitions), 'topic')}, {_count(count, 'partition')}."
    names = {each.member_id: _short(each.instance_id or each.member_id) for each in state.members}
    width = max([len("MEMBER"), *map(len, names.values())])
    for outcome in outcomes:
        yield ""
        yield from textwrap.wrap(f"{outcome.assignor.name}: {_summary(outcome)}", WIDTH)
        yield f"  {'MEMBER':{width}}  PARTITIONS  ASSIGNED"
        for member_id, owned in outcome.assignment.items():
            yield from _member(names.get(member_id) or _short(member_id), owned, width)
        for move in outcome.moves[:MOVES_MAX]:
            giver, taker = (names.get(each) or _short(each) for each in (move.giver, move.taker))
            change = f"{printable(move.topic)}-{move.partition}: {giver} -> {taker}"
            yield from textwrap.wrap(change, WIDTH, initial_indent="  ", subsequent_indent="    ")
        if len(outcome.moves) > MOVES_MAX:
            yield f"  and {len(outcome.moves) - MOVES_MAX} more moves"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: 0-3,5."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _summary(outcome: Outcome) -> str:
    loads = outcome.loads
    most, least = max(loads, default=0), min(loads, default=0)
    parts = [f"{most} partitions each" if most == least else f"{least} to {most} partitions each"]
    if outcome.owned:
        parts.append(f"{len(outcome.moves)} of {outcome.owned} move")
        parts.append(f"{outcome.stopped} stop meanwhile")
    if outcome.rebalances > 1:
        parts.append(f"{outcome.rebalances} rebalances")
    return ", ".join(parts)


def _member(name: str, owned: Mapping[str, Sequence[int]], width: int) -> Iterator[str]:
    shares = ", ".join(f"{printable(topic)} {ranges(numbers)}" for topic, numbers in owned.items()) or "-"
    head = f"  {name:{width}}  {sum(map(len, owned.values())):10}  "
    # A range of numbers is broken only where it is longer than a line.
    lines = textwrap.wrap(shares, WIDTH - len(head), break_on_hyphens=False)
    yield from (f"{head if not at else ' ' * len(head)}{line}" for at, line in enumerate(lines))


def _short(name: str) -> str:
    """A name as it fits into its column: client ids stand at the beginning, what differs at the end."""
    shown = printable(name)
    half = NAME_WIDTH_MAX // 2 - 1
    return shown if len(shown) <= NAME_WIDTH_MAX else f"{shown[:half]}..{shown[-half:]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
