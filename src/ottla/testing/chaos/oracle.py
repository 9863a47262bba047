"""What must hold after the chaos: no record is lost, no partition has two owners, every rebalance has a cause."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.core.diagnosis.rebalances import SYNCED, rebalances
from ottla.core.model import GroupEvent

Place = tuple[int, int]
"""Partition and offset."""


class JournalRead(NamedTuple):
    """What one consumer did: the records that it processed in order, with their values, and its errors.

    `misplaced`: records that came at another offset than after the last one, or than the committed one after an assignment.
    """

    processed: list[tuple[Place, str]]
    trouble: list[str]
    misplaced: tuple[str, ...] = ()


def read_journal(path: Path) -> JournalRead:
    """A worker's journal. A torn last line, from a worker that was killed, does not count."""
    processed, trouble, misplaced = [], [], []
    text = path.read_text() if path.exists() else ""
    for line in text[: text.rfind("\n") + 1].splitlines():
        if line.startswith("!"):
            trouble.append(line[2:])
        elif line.startswith("?"):
            misplaced.append(line[2:])
        else:
            partition, offset, value = line.split(" ", 2)
            processed.append(((int(partition), int(offset)), value))
    return JournalRead(processed, trouble, tuple(misplaced))


def lost(produced: dict[Place, str], journals: Iterable[JournalRead]) -> list[Place]:
    """Records that were acknowledged to the producer and processed by no consumer, or with another value."""
    seen = {record for journal in journals for record in journal.processed}
    return sorted(place for place, value in produced.items() if (place, value) not in seen)


def owned_twice(events: Sequence[GroupEvent]) -> list[str]:
    """Partitions that two members own in one generation, also where two coordinators speak of the same one."""
    owners: dict[tuple[str, int, str, int], set[str]] = {}
    for event in events:
        if event.kind == SYNCED:
            for member in event.members:
                for topic, numbers in member.assignment.items():
                    for number in numbers:
                        owners.setdefault((event.group, event.generation, topic, number), set()).add(member.member_id)
    return [
        f"{topic}-{number} in generation {generation} of {group}: {', '.join(sorted(found))}"
        for (group, generation, topic, number), found in owners.items()
        if len(found) > 1
    ]


def without_cause(events: Sequence[GroupEvent]) -> list[str]:
    """Rebalances for which no event gives a cause."""
    return [f"generation {each.generation} of {each.group} ({each.outcome})" for each in rebalances(events) if not each.trigger]
