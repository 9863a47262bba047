"""The last few commits of each listed partition and the last few ends of their logs: what Burrow's rules are asked about.

Commits are seen at looks, not one by one: of several between two looks the last one counts. What is no longer listed is forgotten.
"""

from collections import deque
from typing import Final

from ottla.core.diagnosis.burrow import WINDOW_COMMITS, Commit, Status, partition_status
from ottla.core.groups.records import OffsetValue
from ottla.core.model import TopicPartition

MIN_DISTANCE_MS: Final = 5_000
"""A commit that followed the one before it sooner gives its place to the next (Burrow's `min-distance`)."""

LOG_END_INTERVAL_MS: Final = 10_000
"""Burrow's `offset-refresh`."""


class _LogEnds:
    __slots__ = ("ends", "taken_at_ms")

    def __init__(self) -> None:
        self.ends: deque[int] = deque(maxlen=WINDOW_COMMITS)
        self.taken_at_ms = 0


class GroupHistory:
    """`status` is to be called for each listed partition at each look, `forget_others` at its end."""

    def __init__(self) -> None:
        self._commits: dict[tuple[str, str, int], deque[Commit]] = {}
        self._log_ends: dict[TopicPartition, _LogEnds] = {}
        self._listed: set[tuple[str, str, int]] = set()

    def status(self, group_id: str, topic: str, partition: int, value: OffsetValue, log_end: int, now_ms: int) -> Status:
        """Remembers what is committed now, if it is new, and where the log ends; the partition's status."""
        name = (group_id, topic, partition)
        self._listed.add(name)
        commits = self._commits.get(name)
        if commits is None:
            commits = self._commits[name] = deque(maxlen=WINDOW_COMMITS)
        lag = max(0, log_end - value.offset)
        if not commits or commits[-1].at_ms != value.commit_timestamp_ms:
            if len(commits) > 1 and commits[-1].at_ms - commits[-2].at_ms < MIN_DISTANCE_MS:
                commits.pop()
            commits.append(Commit(value.offset, value.commit_timestamp_ms, lag))
        return partition_status(commits, self._ends(TopicPartition(topic, partition), log_end, now_ms), lag, now_ms)

    def forget_others(self) -> None:
        """Forgets what no `status` was asked for since the last time."""
        listed, self._listed = self._listed, set()
        for gone in self._commits.keys() - listed:
            del self._commits[gone]
        for partition in self._log_ends.keys() - {TopicPartition(topic, number) for _, topic, number in listed}:
            del self._log_ends[partition]

    def _ends(self, partition: TopicPartition, log_end: int, now_ms: int) -> deque[int]:
        known = self._log_ends.get(partition)
        if known is None:
            known = self._log_ends[partition] = _LogEnds()
        if not known.ends or now_ms - known.taken_at_ms >= LOG_END_INTERVAL_MS:
            known.ends.append(log_end)
            known.taken_at_ms = now_ms
        return known.ends
