"""The last few commits of each listed partition and the last few ends of their logs, from which Burrow's rules give a status.

Commits are sampled: of several between two samples the last one counts. Partitions that are no longer listed are forgotten.
"""

from collections import deque
from typing import Final

from ottla.history.burrow import DEFAULTS, LOG_END_INTERVAL_MS, BurrowSettings, CommitWindow, Status, partition_status
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.model import TopicPartition

SETTINGS: Final = BurrowSettings(min_distance=5)
"""Commits are sampled each second: without a distance the window would be the last ten seconds."""


class _Commits:
    __slots__ = ("last_ms", "window")

    def __init__(self) -> None:
        self.window = CommitWindow(SETTINGS)
        self.last_ms: int | None = None


class _LogEnds:
    __slots__ = ("ends", "taken_at_ms")

    def __init__(self) -> None:
        self.ends: deque[int] = deque(maxlen=DEFAULTS.intervals)
        self.taken_at_ms = 0


class GroupHistory:
    """Call `status` for each listed partition in each sample, and `forget_others` at its end."""

    def __init__(self) -> None:
        self._commits: dict[tuple[str, str, int], _Commits] = {}
        self._log_ends: dict[TopicPartition, _LogEnds] = {}
        self._listed: set[tuple[str, str, int]] = set()

    def status(self, group_id: str, topic: str, partition: int, value: OffsetValue, log_end: int, now_ms: int) -> Status:
        """Add the committed offset, if it is new, and the log end; return the partition's status."""
        name = (group_id, topic, partition)
        self._listed.add(name)
        known = self._commits.get(name)
        if known is None:
            known = self._commits[name] = _Commits()
        lag = max(0, log_end - value.offset)
        if known.last_ms != value.commit_timestamp_ms:
            known.last_ms = value.commit_timestamp_ms
            known.window.add(value.offset, value.commit_timestamp_ms, lag)
        return partition_status(known.window.commits, self._ends(TopicPartition(topic, partition), log_end, now_ms), lag, now_ms)

    def forget_others(self) -> None:
        """Forget the partitions without a call of `status` since the last time."""
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
