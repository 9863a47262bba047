"""What changed with time in a recorded group besides its members: partitions, how fast rebalances were, the initial delay."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ottla.core.diagnosis.evidence.model import Kind
from ottla.core.diagnosis.rounds.part import Part
from ottla.core.diagnosis.rounds.round import Round
from ottla.core.whatif.behaviour import Reaction

SYNC_MS_MAX: Final = 5_000
"""A leader that took longer did not assign all that time: it was slow or gone."""
USUAL_DELAYS_MS: Final = (0, 3_000)
"""Values of group.initial.rebalance.delay.ms to try first: Ottla's default, and Kafka's."""
TOLERANCE_MS: Final = 250

PartitionCounts = tuple[int, Mapping[str, int]]


def partition_timeline(rounds: Sequence[Round]) -> tuple[PartitionCounts, ...]:
    """The partitions of each topic, from the start of each rebalance on whose assignment shows others than before.

    Partitions are never taken away while a topic exists, and a cooperative assignment leaves out those that are being revoked.
    """
    found: list[PartitionCounts] = []
    known: dict[str, int] = {}
    for each in rounds:
        if each.is_avoided or each.after is None or not each.after.has_assignments or not each.after.members:
            continue
        assigned: dict[str, set[int]] = {}
        for member in each.after.members.values():
            for topic, numbers in member.assignment.items():
                assigned.setdefault(topic, set()).update(numbers)
        # Counted, not read off the largest number: a damaged record may hold any.
        counts = {topic: max(len(numbers), known.get(topic, 0)) for topic, numbers in assigned.items()}
        if counts and counts != known:
            found.append((each.started_ms, counts))
            known = counts
    return tuple(found)


def reactions(rounds: Sequence[Round], heartbeat_ms: int) -> tuple[Reaction, ...]:
    """How fast each rebalance was; slower than a heartbeat interval is due to single members, not to the group.

    The first members of a group wait for the initial rebalance delay: for them it is as fast as in the rebalance that follows. A source
    that shows only when rebalances ended (the offsets topic) leaves it open: half a heartbeat interval, and no longer than to the next.
    """
    found: list[Reaction] = []
    usual_ms = join_ms = heartbeat_ms // 2
    next_ms: int | None = None
    for each in sorted(rounds, key=_started_ms, reverse=True):
        part = each.main
        if each.is_avoided or part is None:
            continue
        if part.formed_ms is None:
            join_ms = usual_ms if next_ms is None else min(usual_ms, (next_ms - each.started_ms) // 2)
        elif each.count_before:
            join_ms = max(0, min(part.formed_ms - each.started_ms, heartbeat_ms))
        found.append(Reaction(each.started_ms, join_ms, _sync_ms(part)))
        next_ms = each.started_ms
    return tuple(reversed(found))


def initial_delay_ms(rounds: Sequence[Round]) -> int:
    """The group.initial.rebalance.delay.ms that explains how long the first rebalances of the empty group took; 0 if there is none."""
    starts = [each for each in rounds if not each.is_avoided and each.count_before == 0 and each.arrivals]
    for each in starts:
        part = each.main
        if part is not None:
            return _delay_of(part) if part.formed_ms is not None else int(len(each.arrivals) > 1)
    return 0


def _delay_of(part: Part) -> int:
    took_ms = (part.formed_ms or part.started_ms) - part.started_ms
    arrivals = [item.at_ms - part.started_ms for item in part.of_kind(Kind.TRIGGER, Kind.MEMBER_JOINED)]
    guesses = [*USUAL_DELAYS_MS, *(took_ms // times for times in (1, 2, 3, 4))]
    for delay_ms in guesses:
        end_ms = _join_phase_ms(delay_ms, arrivals)
        if abs(end_ms - took_ms) <= TOLERANCE_MS and end_ms >= max(arrivals, default=0) and (delay_ms or len(arrivals) < 2):
            return delay_ms
    # Members that joined in the same millisecond joined before the first rebalance was over.
    return max(took_ms, 1)


def _join_phase_ms(delay_ms: int, arrivals: Sequence[int]) -> int:
    """How long the first join phase takes: another delay for each one in which members joined."""
    end_ms = delay_ms
    while delay_ms and any(end_ms - delay_ms < at_ms <= end_ms for at_ms in _later(arrivals)):
        end_ms += delay_ms
    return end_ms


def _later(arrivals: Sequence[int]) -> Iterator[int]:
    """All arrivals but the first, which began the delay."""
    return (at_ms for at_ms in arrivals if at_ms > 0)


def _sync_ms(part: Part) -> int:
    ended_ms = part.ended_ms
    return 0 if ended_ms is None or part.formed_ms is None else max(0, min(ended_ms - part.formed_ms, SYNC_MS_MAX))


def _started_ms(each: Round) -> int:
    return each.started_ms
