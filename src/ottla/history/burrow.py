"""Burrow's status of a consumer group: from the last few commits of each partition and the last few ends of their logs.

The rules, settings and their defaults are Burrow's own (LinkedIn, core/internal/evaluator/caching.go and storage/inmemory.go). Only the
clock differs: Burrow's counts whole seconds. Ottla's metrics and the table `group_status` use this code.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple, Self

LOG_END_INTERVAL_MS: Final = 10_000
"""Burrow's `offset-refresh`: how often it asks for the end of a log, of which it keeps as many as commits."""


class Status(IntEnum):
    """Numbers as in Burrow's metrics. ERR and NOTFOUND are of groups, STOP, STALL and REWIND of partitions."""

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class Commit(NamedTuple):
    """A commit: `lag` is the partition's when it was sampled (None: not known), `at_ms` the commit's own time (ms since 1970)."""

    offset: int
    at_ms: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BurrowSettings:
    """Burrow's settings, under its names with underscores.

    intervals: commits of a partition, and ends of its log, that are kept. min_distance: seconds that a kept commit must follow the one
    before. expire_group: seconds without a commit after which a group is not found. minimum_complete: share of `intervals` below which a
    partition is OK. allowed_lag: messages.
    """

    intervals: int = 10
    min_distance: int = 0
    expire_group: int = 604_800
    minimum_complete: float = 0.0
    allowed_lag: int = 0

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Settings by Burrow's names, such as `min-distance`. Raises ValueError with a sentence."""
        kinds = {field.name.replace("_", "-"): (field.name, float if field.type is float else int) for field in fields(cls)}
        values: dict[str, int | float] = {}
        for name, text in texts.items():
            if name not in kinds:
                raise ValueError(f"there is no setting {name}; there are {', '.join(kinds)}")
            field, kind = kinds[name]
            try:
                values[field] = kind(text)
            except ValueError as error:
                raise ValueError(f"{name}={text}: it takes a number") from error
        return cls(**values)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.intervals < 1:
            raise ValueError(f"intervals={self.intervals}: at least one commit must be kept")
        if not 0 <= self.minimum_complete <= 1:
            raise ValueError(f"minimum-complete={self.minimum_complete}: it is a share from 0 to 1")
        if min(self.min_distance, self.expire_group, self.allowed_lag) < 0:
            raise ValueError("min-distance, expire-group and allowed-lag are not negative")


DEFAULTS: Final = BurrowSettings()


class CommitWindow:
    """The last commits of one partition, oldest first: Burrow's ring."""

    __slots__ = ("_min_distance_ms", "commits")

    def __init__(self, settings: BurrowSettings = DEFAULTS) -> None:
        self.commits: deque[Commit] = deque(maxlen=settings.intervals)
        self._min_distance_ms = settings.min_distance * 1000

    def add(self, offset: int, at_ms: int, lag: int | None) -> None:
        """Add a commit. One sooner than `min_distance` after the last replaces that, but not its time.

        With its own time, frequent commits would replace each other without end, and the window would hold one.
        """
        if self.commits and at_ms - self.commits[-1].at_ms < self._min_distance_ms:
            at_ms = self.commits.pop().at_ms
        self.commits.append(Commit(offset, at_ms, lag))


class PartitionStatus(NamedTuple):
    """A partition's status. `complete`: the share of the window that is filled; `start` and `end` are its first and last commit."""

    topic: str
    partition: int
    status: Status
    current_lag: int
    complete: float
    start: Commit | None
    end: Commit | None


class GroupStatus(NamedTuple):
    """A group's status. `complete`: the share of its partitions whose window is full; `maxlag`: the partition with the greatest lag."""

    status: Status
    complete: float
    total_lag: int
    maxlag: PartitionStatus | None
    partitions: tuple[PartitionStatus, ...]


NOT_FOUND: Final = GroupStatus(Status.NOTFOUND, 1.0, 0, None, ())
"""Of a group that has no commits, or none for `expire_group` seconds."""


class Partition(NamedTuple):
    """What is known of one partition: its last commits and log ends, oldest first, and its log's end now (None: no such topic)."""

    topic: str
    partition: int
    commits: Sequence[Commit]
    log_ends: Sequence[int]
    log_end: int | None


def evaluate_group(partitions: Iterable[Partition], now_ms: int, settings: BurrowSettings = DEFAULTS) -> GroupStatus:
    """The status of a group from all partitions of the topics that it has committed, those without a commit as well."""
    known = sorted(partitions, key=lambda partition: (partition.topic, partition.partition))
    last_ms = max((partition.commits[-1].at_ms for partition in known if partition.commits), default=None)
    if last_ms is None or now_ms - settings.expire_group * 1000 > last_ms:
        return NOT_FOUND
    found = tuple(evaluate_partition(partition, now_ms, settings) for partition in known)
    return GroupStatus(
        status=group_status(each.status for each in found),
        complete=sum(each.complete == 1 for each in found) / len(found),
        total_lag=sum(each.current_lag for each in found),
        maxlag=max(found, key=lambda each: each.current_lag),
        partitions=found,
    )


def evaluate_partition(known: Partition, now_ms: int, settings: BurrowSettings = DEFAULTS) -> PartitionStatus:
    """The status of one partition; a commit beyond the end of the log has no lag."""
    if not known.commits:
        return PartitionStatus(known.topic, known.partition, Status.OK, 0, 0.0, None, None)
    first, last = known.commits[0], known.commits[-1]
    lag = 0 if known.log_end is None else max(0, known.log_end - last.offset)
    complete = len(known.commits) / settings.intervals
    status = Status.OK
    if complete >= settings.minimum_complete:
        status = partition_status(known.commits, known.log_ends, lag, now_ms, settings.allowed_lag)
    return PartitionStatus(known.topic, known.partition, status, lag, complete, first, last)


def partition_status(commits: Sequence[Commit], log_ends: Iterable[int], lag: int, now_ms: int, allowed_lag: int = 0) -> Status:
    """The status of one partition: its last commits, oldest first, the last known ends of its log, and its lag now."""
    if lag <= allowed_lag or not commits:
        return Status.OK
    first, last = commits[0], commits[-1]
    is_silent = now_ms - last.at_ms > last.at_ms - first.at_ms
    if is_silent and not any(end <= last.offset for end in log_ends):
        return Status.STOP
    offsets = [commit.offset for commit in commits]
    back = next((at for at in range(1, len(offsets)) if offsets[at] < offsets[at - 1]), None)
    if back is not None and max(offsets[back:]) < offsets[back - 1]:
        return Status.REWIND
    lags = [commit.lag for commit in commits if commit.lag is not None]
    if all(known > allowed_lag for known in lags):
        if len(set(offsets)) == 1:
            return Status.STALL
        if all(later >= earlier for earlier, later in pairwise(lags)):
            return Status.WARN
    return Status.OK


def group_status(partitions: Iterable[Status]) -> Status:
    """The worst status of a group's partitions; STOP, STALL and REWIND are ERR for the group."""
    return min(max(partitions, default=Status.NOTFOUND), Status.ERR)
