"""A migration: checks, the target topic, batch after batch, verification, and the groups' offsets. The shell around the other modules.

The target is the only state: what it holds is read at the start of each run, so the same migration may be run again after any failure.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from ottla.spark.migration import groups
from ottla.spark.migration.filling import Filling
from ottla.spark.migration.offsets import Carried, Positions
from ottla.spark.migration.shape import Shape, extents
from ottla.spark.migration.topics import (
    Admins,
    check_source,
    connect,
    find_source,
    find_target,
    finish_target,
    is_compacted,
    make_target,
    prepare_target,
)
from ottla.spark.migration.values import Extent, Migration, MigrationError, Progress, Report

_POLL_S: Final = 0.25


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

    def copy(self) -> Migrated:
        """Copy what the source has now, and carry the groups' offsets over. The groups must have no members."""
        with connect(self._migration) as admins:
            source = find_source(self._migration, admins)
            positions = self._positions(admins)
            _refuse_members(self._migration, admins, positions)
            filling = self._begin(source, admins)
            filling.copy_up_to(extents(admins.source, source), positions)
            check_source(source, admins)
            return self._finish(filling, admins)

    def follow(self, idle_s: float) -> Migrated:
        """Copy until the source has stood still for `idle_s` and the groups have no members; then carry their offsets over."""
        with connect(self._migration) as admins:
            source = find_source(self._migration, admins)
            filling = self._begin(source, admins)
            left, still_since = extents(admins.source, source), self._clock()
            while True:
                positions = self._positions(admins)
                filling.copy_up_to(left, positions)
                filling.verify_some()
                check_source(source, admins)
                busy = groups.with_members(admins.source, positions)
                before, left = left, extents(admins.source, source)
                if _ends(left) != _ends(before):
                    still_since = self._clock()
                elif not busy and self._clock() - still_since >= idle_s:
                    return self._finish(filling, admins)
                else:
                    self._report(Progress(filling.done, filling.done, _waits_for(busy)))
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
            records, carried = filling.forecast(held, available, positions)
            return Migrated(records=records, groups=carried)

    def _begin(self, source: Shape, admins: Admins) -> Filling:
        target = make_target(self._migration, source, admins, pause=self._pause)
        filling = self._filling(source, target, extents(admins.source, source), admins)
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
            report=self._report,
            pause=self._pause,
            clock=self._clock,
        )

    def _finish(self, filling: Filling, admins: Admins) -> Migrated:
        """Verify, then commit the groups' offsets as they are now, then set the target like the source."""
        carried = filling.verify(self._positions(admins))
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


def _waits_for(busy: Mapping[str, str]) -> str:
    return f"the members of {', '.join(busy)} to stop" if busy else "the source to stand still"
