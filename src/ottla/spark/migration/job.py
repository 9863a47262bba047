"""A migration: checks, the target topic, batch after batch, verification, and the groups' offsets. The shell around the other modules.

The target is the only state: what it holds is read at the start of each run, so the same migration may be run again after any failure.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from ottla.spark.migration import offsets as groups
from ottla.spark.migration.copying import Filling
from ottla.spark.migration.lease import Lease
from ottla.spark.migration.offsets import Carried, Positions
from ottla.spark.migration.topics import (
    Admins,
    Shape,
    check_source,
    connect,
    extents,
    find_source,
    find_target,
    finish_target,
    is_compacted,
    make_target,
    open_transactions,
    prepare_target,
)
from ottla.spark.migration.values import Extent, Migration, MigrationError, Progress, Report

_POLL_S: Final = 1.0
_REPLAY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """The result: the records that this run copied, and each group in the target.

    `gone`: how many records of earlier runs the source no longer had, so that they were compared with nothing.
    """

    records: int
    groups: Mapping[str, Carried]
    gone: int = 0


class MigrationRun:
    """Runs a migration in a session. Not for two threads at once.

    Its methods raise MigrationError with a sentence that says what to do, and ClientError when a cluster does not answer.
    """

    def __init__(
        self,
        spark: SparkSession,
        migration: Migration,
        *,
        report: Report = lambda _progress: None,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._migration = migration
        self._report = report
        self._pause = pause
        self._clock = clock
        self._lease: Lease | None = None

    def copy(self) -> Migrated:
        """Copy what the source has now, and carry the groups' offsets over. Producers and the groups' members must have stopped."""
        with connect(self._migration) as admins, ExitStack() as held:
            source = find_source(self._migration, admins)
            _refuse_members(self._migration, admins, self._positions(admins))
            filling = self._begin(source, admins, held)
            ends = extents(admins.source, source)
            filling.copy_up_to(ends, self._positions(admins))
            check_source(source, admins)
            _refuse_growth(source, ends, extents(admins.source, source))
            _refuse_transactions(source, open_transactions(source, ends, admins))
            return self._finish(filling, admins)

    def follow(self, idle_s: float) -> Migrated:
        """Copy until the source has stood still and the groups have had no members for `idle_s`; then carry their offsets over."""
        with connect(self._migration) as admins, ExitStack() as held:
            source = find_source(self._migration, admins)
            filling = self._begin(source, admins, held)
            replay = Replay(filling, clock=self._clock)
            left = extents(admins.source, source)
            still_since: float | None = None
            while True:
                positions = self._positions(admins)
                filling.copy_up_to(left, positions)
                filling.verify_some()
                check_source(source, admins)
                before, left = left, extents(admins.source, source)
                is_still = _ends(left) == _ends(before)
                busy = groups.with_members(admins.source, positions)
                # While producers go on, there is always something behind the ends.
                hidden = open_transactions(source, left, admins) if is_still else []
                obstacle = _obstacle(source, busy, hidden)
                if obstacle or not is_still:
                    still_since = None
                elif still_since is None:
                    still_since = self._clock()
                elif self._clock() - still_since >= idle_s:
                    return self._finish(filling, admins)
                replayed = replay.now(positions, is_over=is_still and not obstacle)
                self._tell(Progress(filling.done, filling.done, obstacle or "the source to stand still", replayed))
                if is_still:
                    self._pause(_POLL_S)

    def forecast(self) -> Migrated:
        """What `copy` would do now; nothing is written, and the target need not exist. Groups may have members."""
        with connect(self._migration) as admins:
            source, positions = find_source(self._migration, admins), self._positions(admins)
            found = find_target(self._migration, admins)
            target = found or Shape(self._migration.target, "", self._migration.partitions or 0)
            held = extents(admins.target, found) if found else dict.fromkeys(range(target.partitions), Extent(0, 0))
            available = extents(admins.source, source)
            filling = self._filling(source, target, available, admins)
            offsets = sum(each.size for each in available.values())
            self._report(Progress(0, 0, doing=f"planning, {offsets} offsets of {source.name} are read twice"))
            records, carried = filling.forecast(held, available, positions)
            return Migrated(records=records, groups=carried)

    def _begin(self, source: Shape, admins: Admins, held: ExitStack) -> Filling:
        target = make_target(self._migration, source, admins, pause=self._pause)
        self._lease = held.enter_context(Lease(admins.lease, target.name, pause=self._pause, clock=self._clock))
        filling = self._filling(source, target, extents(admins.source, source), admins)
        self._report(Progress(0, 0, doing=f"planning, what {target.name} has is read"))
        filling.begin(is_compacted=is_compacted(self._migration))
        # Not before: a topic with records of its own is refused, and stays as it is.
        prepare_target(self._migration)
        return filling

    def _filling(self, source: Shape, target: Shape, available: Mapping[int, Extent], admins: Admins) -> Filling:
        return Filling(
            self._spark,
            self._migration,
            source=source,
            target=target,
            available=available,
            target_admin=admins.target,
            report=self._tell,
            pause=self._pause,
            clock=self._clock,
        )

    def _tell(self, progress: Progress) -> None:
        """Report it, unless the target is another run's now."""
        if self._lease is not None:
            self._lease.check()
        self._report(progress)

    def _finish(self, filling: Filling, admins: Admins) -> Migrated:
        """Verify, then commit the groups' offsets as they are now, then set the target like the source."""
        positions = self._positions(admins)
        self._report(Progress(filling.done, filling.done, doing=f"{self._migration.target} is verified"))
        carried = filling.verify(positions)
        if self._lease is not None:
            self._lease.check()
        # Those of another cluster than the target's would not keep the coordinator from committing.
        _refuse_members(self._migration, admins, positions)
        groups.commit(admins.target, self._migration.target, carried)
        finish_target(self._migration)
        return Migrated(records=filling.written, groups=carried, gone=filling.gone)

    def _positions(self, admins: Admins) -> Positions:
        return groups.read_positions(admins.source, self._migration.source, self._migration.groups)


def _refuse_members(migration: Migration, admins: Admins, positions: Positions) -> None:
    for group, state in groups.with_members(admins.source, positions).items():
        raise MigrationError(
            f"group {group} has members (it is {state}), which go on with {migration.source}: stop them first, or copy while they run,"
            " with --follow"
        )


def _ends(of: Mapping[int, Extent]) -> dict[int, int]:
    return {partition: each.end for partition, each in of.items()}


def _refuse_growth(source: Shape, before: Mapping[int, Extent], now: Mapping[int, Extent]) -> None:
    grown = [number for number, each in now.items() if each.end > before[number].end]
    if grown:
        raise MigrationError(
            f"{_places(source, grown)} got records while {source.name} was copied: stop its producers and run the same command again, or"
            " copy while they run, with --follow"
        )


def _refuse_transactions(source: Shape, partitions: Sequence[int]) -> None:
    if partitions:
        raise MigrationError(
            f"{_places(source, partitions)} has an open transaction, and what is behind its start was not copied: wait until it has ended,"
            " or abort it (kafka-transactions.sh finds hanging ones), and run the same command again"
        )


def _obstacle(source: Shape, busy: Collection[str], transactions: Sequence[int]) -> str:
    """What keeps a live topic from being cut over, if anything does: groups with members, partitions with open transactions."""
    if busy:
        return f"the members of {', '.join(busy)} to stop"
    return f"the open transaction in {_places(source, transactions)} to end" if transactions else ""


def _places(source: Shape, partitions: Sequence[int]) -> str:
    return ", ".join(f"{source.name}-{number}" for number in partitions)


class Replay:
    """How many records each group would read again, found out now and then: it takes a read of the target."""

    def __init__(self, filling: Filling, *, clock: Callable[[], float]) -> None:
        self._filling = filling
        self._clock = clock
        self._known: tuple[Positions, int] | None = None
        self._found: Mapping[str, int] = {}
        self._at_s = -_REPLAY_S

    def now(self, positions: Positions, *, is_over: bool) -> Mapping[str, int]:
        """By group; not older than the groups' offsets where producers and groups have stopped (`is_over`), else than a minute."""
        state, now_s = (positions, self._filling.written), self._clock()
        if state != self._known and (is_over or now_s - self._at_s >= _REPLAY_S):
            self._found, self._known, self._at_s = self._filling.replay(positions), state, now_s
        return self._found
