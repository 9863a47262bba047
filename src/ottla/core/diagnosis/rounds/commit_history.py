"""The last commits of each partition of one group, and how long ago they were when a member was lost."""

from collections.abc import Iterable, Mapping

from ottla.core.diagnosis.evidence.model import CommitSpan
from ottla.core.model import TopicPartition


class CommitHistory:
    """The newest commit of each partition, and how often it is committed. One entry a partition, whatever the number of commits."""

    def __init__(self) -> None:
        self._last_ms: dict[TopicPartition, int] = {}
        self._interval_ms: dict[TopicPartition, int] = {}
        self.clock: str | None = None

    def add(self, clock: str, commits: Mapping[TopicPartition, CommitSpan]) -> None:
        """Take commits in; a change of the clock makes the earlier ones useless."""
        if not commits:
            return
        if self.clock != clock:
            self._last_ms.clear()
            self._interval_ms.clear()
            self.clock = clock
        for partition, span in commits.items():
            if span.commit_count > 1:
                self._interval_ms[partition] = max(0, span.last_ms - span.first_ms) // (span.commit_count - 1)
            self._last_ms[partition] = max(span.last_ms, self._last_ms.get(partition, span.last_ms))

    def gap_ms(self, partitions: Iterable[TopicPartition], at_ms: int) -> tuple[int, int | None] | None:
        """From the last commit of any of the partitions to `at_ms`, and the usual interval between commits; None without commits."""
        known = [partition for partition in partitions if partition in self._last_ms]
        if not known:
            return None
        gap_ms = at_ms - max(self._last_ms[partition] for partition in known)
        intervals = [self._interval_ms[partition] for partition in known if partition in self._interval_ms]
        return max(0, gap_ms), min(intervals) if intervals else None
