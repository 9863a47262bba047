"""Checks of the target, with scripted Spark jobs; the jobs themselves run in tests/spark/test_migrate.py."""

from typing import Any

import pytest

from ottla.client.settings import ClientSettings
from ottla.spark.migration import filling
from ottla.spark.migration.chunks import ChunkReader
from ottla.spark.migration.copied import Summary
from ottla.spark.migration.filling import STILL_S, Filling
from ottla.spark.migration.forecast import Counts, PlaceReader
from ottla.spark.migration.offsets import Carried
from ottla.spark.migration.shape import Shape
from ottla.spark.migration.values import NOTHING, Cluster, Extent, Migration, MigrationError, Progress
from ottla.spark.sink.producer_settings import parse_producer_settings

HERE = Cluster(client=ClientSettings(bootstrap_servers="h:1"), producer=parse_producer_settings({"bootstrap.servers": "h:1"}))


class Jobs:
    """Spark jobs: the summaries that the next read of the target gives, and the batches that were copied, each to partition 0."""

    defaultParallelism = 2

    def __init__(self, monkeypatch: pytest.MonkeyPatch, admin: Any) -> None:
        self.sparkContext = self
        self.admin = admin
        self.summaries: dict[int, Summary] = {}
        self.batches: list[dict[int, tuple[int, int]]] = []
        self.readers: list[ChunkReader] = []
        monkeypatch.setattr(filling, "summarize", lambda *_: self.summaries)
        monkeypatch.setattr(filling, "copy_batch", self.copy_batch)

    def copy_batch(self, _spark: Any, reader: ChunkReader, _writer: Any) -> dict[int, int]:
        self.readers.append(reader)
        self.batches.append({each.partition: (each.start, each.end) for task in reader.tasks for each in task.ranges})
        return {0: sum(end - start for start, end in self.batches[-1].values())}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, admin: Any) -> Jobs:
    admin.extents["narrow"] = [Extent(0, 0), Extent(0, 0)]
    return Jobs(monkeypatch, admin)


def target(jobs: Jobs, reports: list[Progress] | None = None, **options: Any) -> Filling:
    planned = Migration(source_cluster=HERE, target_cluster=HERE, source="wide", target="narrow", records_max=10)
    made = Filling(
        jobs,  # type: ignore[arg-type]
        planned,
        source=Shape("wide", "", 2),
        target=Shape("narrow", "", 2),
        target_admin=jobs.admin,
        report=(reports if reports is not None else []).append,
        **options,
    )
    made.begin()
    return made


def test_batches_up_to_the_ends_and_then_from_there(jobs: Jobs) -> None:
    reports: list[Progress] = []
    made = target(jobs, reports)
    made.copy_up_to({0: Extent(0, 14), 1: Extent(3, 9)}, {})
    made.copy_up_to({0: Extent(0, 14), 1: Extent(3, 12)}, {})
    assert jobs.batches == [{0: (0, 7), 1: (3, 6)}, {0: (7, 14), 1: (6, 9)}, {1: (9, 12)}]
    assert reports[-1] == Progress(23, 23)
    assert (made.written, made.done) == (23, 23)


def still(first: int, second: int, **more: Any) -> dict[int, Summary]:
    """Two target partitions, with these highest source offsets of partition 0 and none of partition 1."""
    highest = {0: (first, NOTHING), 1: (second, NOTHING)}
    return {number: Summary(partition=number, records=1, highest=each, **more) for number, each in highest.items()}


class Time:
    """Seconds that pass in pauses."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def clock(self) -> float:
        return self.now_s


def test_a_second_run_continues_behind_what_every_target_partition_has(jobs: Jobs) -> None:
    jobs.admin.extents["narrow"] = [Extent(0, 1), Extent(0, 1)]
    jobs.summaries = still(4, 6)
    time = Time()
    made = target(jobs, pause=time.pause, clock=time.clock)
    assert time.now_s >= STILL_S
    made.copy_up_to({0: Extent(0, 30)}, {})
    # The same batches as in the first run, but for those that were copied.
    assert jobs.batches == [{0: (0, 10)}, {0: (10, 20)}, {0: (20, 30)}]
    assert jobs.readers[0].routing.copied == {0: (4, 6)}
    jobs.batches.clear()
    jobs.summaries = still(14, 26)
    made = target(jobs, pause=time.pause, clock=time.clock)
    made.copy_up_to({0: Extent(0, 30)}, {})
    assert jobs.batches == [{0: (10, 20)}, {0: (20, 30)}]
    assert (made.written, made.done) == (20, 30)


def test_a_target_that_still_grows_is_waited_for(jobs: Jobs) -> None:
    jobs.admin.extents["narrow"] = [Extent(0, 1), Extent(0, 1)]
    jobs.summaries = still(4, 6)
    time, grown = Time(), iter(range(2, 7))

    def grow(seconds: float) -> None:
        time.pause(seconds)
        jobs.admin.extents["narrow"][0] = Extent(0, next(grown, 6))

    target(jobs, pause=grow, clock=time.clock)
    assert time.now_s >= STILL_S + 5 * 0.25


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"foreign": 5}, "narrow-0 has a record at offset 5 that is not of this migration"),
        ({"disordered": 6}, "narrow-0 has a record at offset 6 that was copied before, or is out of order"),
    ],
)
def test_other_records_in_the_target_are_refused(jobs: Jobs, found: dict[str, int], words: str) -> None:
    jobs.admin.extents["narrow"] = [Extent(0, 1), Extent(0, 1)]
    jobs.summaries = still(4, 6, **found)
    time = Time()
    with pytest.raises(MigrationError, match=words):
        target(jobs, pause=time.pause, clock=time.clock)


def test_a_forecast_copies_nothing(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []

    def count(_spark: Any, reader: PlaceReader) -> dict[int, Counts]:
        read.extend(reader.tasks)
        return {0: Counts(5, (3,), (2,), (1,)), 1: Counts(4, (4,), (4,), (4,))}

    monkeypatch.setattr(filling, "forecast_counts", count)
    ends = {0: Extent(0, 6), 1: Extent(0, 8)}
    found = target(jobs).forecast({0: Extent(0, 0), 1: Extent(0, 0)}, ends, {"g": {0: 6, 1: 8}})
    assert found == (9, {"g": Carried({0: 3, 1: 4}, 1)})
    ranges = [[(number, (each.partition, each.start, each.end)) for number, task in tasks for each in task.ranges] for tasks in read]
    assert ranges == [[(0, (0, 0, 4)), (1, (0, 4, 6))], [(0, (1, 0, 5)), (1, (1, 5, 8))]]
    assert jobs.batches == []


def test_the_end_is_verified_and_gives_the_groups_places(jobs: Jobs) -> None:
    made = target(jobs)
    made.copy_up_to({0: Extent(0, 3), 1: Extent(0, 0)}, {"g": {0: 2}})
    jobs.admin.extents["narrow"] = [Extent(0, 3), Extent(0, 0)]
    jobs.summaries = {0: Summary(partition=0, records=3, highest=(2, NOTHING), first_unread=(2,), replayed=(0,))}
    assert made.verify({"g": {0: 2}}) == {"g": Carried({0: 2, 1: 0}, 0)}
    jobs.admin.extents["narrow"] = [Extent(0, 4), Extent(0, 0)]
    with pytest.raises(MigrationError, match=r"narrow-0 has 4 records, and 3 were copied there: another program writes there\. Stop it"):
        made.verify({"g": {0: 2}})
    jobs.admin.extents["narrow"] = [Extent(0, 3), Extent(0, 1)]
    with pytest.raises(MigrationError, match="narrow-1 has 1 records, and 0 were copied there"):
        made.verify({"g": {0: 2}})
