"""Burrow's verdict on a consumer group, from the last few commits of each partition and the ends of their logs: for its dashboards.

The rules are Burrow's own, with its defaults (no lag is allowed, a partition needs no minimum of commits). It knows nothing of members.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

WINDOW_COMMITS: Final = 10
"""So many commits of a partition are looked at, and so many log ends."""


class Status(IntEnum):
    """Numbers as Burrow's metrics give them. ERR and NOTFOUND are of groups, STOP, STALL and REWIND of partitions."""

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class Commit(NamedTuple):
    """A commit as it was seen: `lag` is the partition's at that moment, `at_ms` the commit's own time (ms since 1970)."""

    offset: int
    at_ms: int
    lag: int


def partition_status(commits: Sequence[Commit], log_ends: Iterable[int], lag: int, now_ms: int) -> Status:
    """The status of one partition: its last commits, oldest first, the last known ends of its log, and its lag now."""
    if lag <= 0 or not commits:
        return Status.OK
    first, last = commits[0], commits[-1]
    is_silent = now_ms - last.at_ms > last.at_ms - first.at_ms
    if is_silent and not any(end <= last.offset for end in log_ends):
        return Status.STOP
    offsets = [commit.offset for commit in commits]
    back = next((at for at in range(1, len(offsets)) if offsets[at] < offsets[at - 1]), None)
    if back is not None and max(offsets[back:]) < offsets[back - 1]:
        return Status.REWIND
    if all(commit.lag > 0 for commit in commits):
        if len(set(offsets)) == 1:
            return Status.STALL
        if all(later.lag >= earlier.lag for earlier, later in pairwise(commits)):
            return Status.WARN
    return Status.OK


def group_status(partitions: Iterable[Status]) -> Status:
    """The worst of a group's partitions; what only a partition can be is an error of the group."""
    return min(max(partitions, default=Status.NOTFOUND), Status.ERR)
