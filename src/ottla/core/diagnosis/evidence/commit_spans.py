"""Commits summarised: of each group and partition the first, the last and how many, until the group's next record takes them.

The memory is that of one span for each partition that a group commits to, however many commits there are.
"""

from ottla.core.diagnosis.evidence.model import CommitSpan
from ottla.core.model import TopicPartition

Commits = dict[TopicPartition, CommitSpan]
_Numbers = list[int]


class CommitSpans:
    """The commits of many groups since each group's `take`."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[tuple[str, int], _Numbers]] = {}

    def add(self, group: str, topic: str, partition: int, at_ms: int, offset: int) -> None:
        """Count one commit."""
        of_group = self._groups.get(group)
        if of_group is None:
            of_group = self._groups[group] = {}
        span = of_group.get((topic, partition))
        if span is None:
            of_group[topic, partition] = [at_ms, at_ms, offset, offset, 1]
            return
        span[1] = at_ms
        span[3] = offset
        span[4] += 1

    def take(self, group: str) -> Commits:
        """The spans of a group, which begin again; empty when there were no commits."""
        taken = self._groups.pop(group, {})
        return {TopicPartition(*partition): CommitSpan(*numbers) for partition, numbers in taken.items()}

    def groups(self) -> list[str]:
        """Every group with commits that were not taken yet."""
        return list(self._groups)
