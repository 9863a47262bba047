"""Checks of the target, with scripted Spark jobs; the jobs themselves run in tests/spark/test_migrate.py."""

import time
from bisect import bisect_right
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.settings import ClientSettings
from ottla.protocol.arrow.decoder import HEADER_TYPE
from ottla.spark.migration import copying as filling
from ottla.spark.migration import copying as target_reading
from ottla.spark.migration.chunks import Checksum, ChunkReader, OffsetReader, ReadPhases, Seen, checksum
from ottla.spark.migration.copied import RECORDS_MAX, SUMMARIES, Summary, SummaryReader, Tally, summary_of
from ottla.spark.migration.copying import STILL_S, Comparison, Filling, SeenOffsets, TargetReads, plan_batches, tasks_of, tasks_of_parts
from ottla.spark.migration.offsets import Carried, Counts, PlaceReader, phases_of
from ottla.spark.migration.topics import Shape
from ottla.spark.migration.values import NOTHING, SOURCE_HEADER, Cluster, Extent, Migration, MigrationError, Progress
from ottla.spark.sink.producer_settings import parse_producer_settings
from ottla.spark.source.planning import OffsetRange

HERE = Cluster(client=ClientSettings(bootstrap_servers="h:1"), producer=parse_producer_settings({"bootstrap.servers": "h:1"}))


class Sum:
    """An accumulator of Spark."""

    def __init__(self, value: dict[Seen, Checksum], param: SeenOffsets) -> None:
        self.value, self._param = value, param

    def add(self, term: dict[Seen, Checksum]) -> None:
        self.value = self._param.addInPlace(self.value, term)


class Jobs:
    """Spark jobs on a source and a target in memory: source offset o goes to target partition o % 2."""

    defaultParallelism = 2
    accumulator = Sum

    def __init__(self, monkeypatch: pytest.MonkeyPatch, admin: Any) -> None:
        self.sparkContext = self
        self.admin = admin
        self.held: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
        self.batches: list[dict[int, tuple[int, int]]] = []
        self.reads: list[dict[int, tuple[int, int]]] = []
        self.summaries: list[list[tuple[int, int, int]]] = []
        self.lost: set[int] = set()
        monkeypatch.setattr(target_reading, "summarize", self.summarize)
        monkeypatch.setattr(filling, "copy_batch", self.copy_batch)
        monkeypatch.setattr(filling, "read_offsets", self.read_offsets)

    def holds(self, *places: list[tuple[int, int]]) -> None:
        self.held = dict(enumerate(places))
        self.admin.extents["narrow"] = [Extent(0, len(each)) for each in places]

    def copy_batch(self, _spark: Any, reader: ChunkReader, writer: Any) -> dict[int, int]:
        self.began_ms = writer.began_ms
        self.batches.append(ranges_of(reader))
        written = {0: 0, 1: 0}
        for partition, (start, end) in self.batches[-1].items():
            for offset in range(start, end):
                to = offset % 2
                is_new = offset > reader.routing.copied.get(partition, (NOTHING, NOTHING))[to]
                reader.seen.add({Seen(partition, is_new): checksum(np.array([offset]))})
                if is_new:
                    written[to] += 1
                    self.held[to] += [] if offset in self.lost else [(partition, offset)]
        self.holds(*self.held.values())
        return written

    def read_offsets(self, _spark: Any, reader: OffsetReader) -> None:
        self.reads.append(ranges_of(reader))
        for partition, extent in self.reads[-1].items():
            reader.seen.add({Seen(partition, False): checksum(np.arange(*extent))})

    def summarize(self, _spark: Any, reader: SummaryReader) -> list[Summary]:
        parts = [(each.partition, each.start, each.end) for task in reader.tasks for each in task.ranges]
        self.summaries.append(sorted(parts))
        return [self.summary(reader, *each) for each in parts]

    def summary(self, reader: SummaryReader, partition: int, start: int, end: int) -> Summary:
        tally = Tally(reader.starts, reader.committed)
        headers = [[{"key": SOURCE_HEADER, "value": b"wide:%d:%d" % place}] for place in self.held[partition][start:end]]
        columns = {"offset": pa.array(range(start, end), pa.int64()), "headers": pa.array(headers, HEADER_TYPE)}
        tally.add("wide", pa.RecordBatch.from_pydict(columns))
        return summary_of(dict(zip(SUMMARIES.fieldNames(), (partition, start, end, *tally.row()), strict=True)))


def ranges_of(reader: ChunkReader | OffsetReader) -> dict[int, tuple[int, int]]:
    return {each.partition: (each.start, each.end) for task in reader.tasks for each in task.ranges}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, admin: Any) -> Jobs:
    admin.extents["narrow"] = [Extent(0, 0), Extent(0, 0)]
    return Jobs(monkeypatch, admin)


def made_of(jobs: Jobs, reports: list[Progress] | None = None, **options: Any) -> Filling:
    planned = Migration(source_cluster=HERE, target_cluster=HERE, source="wide", target="narrow", records_max=10)
    return Filling(
        jobs,  # type: ignore[arg-type]
        planned,
        source=Shape("wide", "", 2),
        target=Shape("narrow", "", 2),
        target_admin=jobs.admin,
        report=(reports if reports is not None else []).append,
        **{"available": {0: Extent(0, 30), 1: Extent(0, 30)}} | options,
    )


def target(jobs: Jobs, reports: list[Progress] | None = None, *, is_compacted: bool = False, **options: Any) -> Filling:
    time = Time()
    made = made_of(jobs, reports, **{"pause": time.pause, "clock": time.clock} | options)
    made.begin(is_compacted=is_compacted)
    return made


def test_batches_up_to_the_ends_and_then_from_there(jobs: Jobs) -> None:
    reports: list[Progress] = []
    made = target(jobs, reports)
    made.copy_up_to({0: Extent(0, 14), 1: Extent(3, 9)}, {})
    made.copy_up_to({0: Extent(0, 14), 1: Extent(3, 12)}, {})
    made.copy_up_to({0: Extent(0, 14), 1: Extent(3, 13)}, {})
    assert jobs.batches == [{0: (0, 7), 1: (3, 6)}, {0: (7, 14), 1: (6, 9)}, {1: (9, 12)}, {1: (12, 13)}]
    assert reports == [Progress(*each) for each in ((0, 20), (10, 20), (20, 20), (20, 23), (23, 23), (23, 24), (24, 24))]
    assert (made.written, made.done) == (24, 24)
    assert abs(jobs.began_ms - time.time() * 1000) < 60_000
    made.verify({})


class Time:
    """Seconds that pass in pauses."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def clock(self) -> float:
        return self.now_s


def test_a_second_run_continues_behind_what_every_target_partition_has(jobs: Jobs) -> None:
    jobs.holds([(0, 0), (0, 2), (0, 4)], [(0, 1), (0, 3), (0, 5), (0, 7)])
    time = Time()
    made = target(jobs, pause=time.pause, clock=time.clock)
    assert time.now_s >= STILL_S
    made.copy_up_to({0: Extent(0, 20)}, {})
    # The same batches as in the first run.
    assert jobs.batches == [{0: (0, 10)}, {0: (10, 20)}]
    assert (made.written, made.done, made.gone) == (13, 20, 0)
    made.verify({})
    jobs.batches.clear()
    made = target(jobs)
    made.copy_up_to({0: Extent(0, 30)}, {})
    # What was copied as a whole is read for its offsets only.
    assert (jobs.reads, jobs.batches) == ([{0: (0, 10)}], [{0: (10, 20)}, {0: (20, 30)}])
    assert (made.written, made.done) == (10, 30)
    made.verify({})


def test_what_the_source_has_deleted_since_a_run_before_is_counted(jobs: Jobs) -> None:
    jobs.holds([(0, 0), (0, 2), (0, 4)], [(0, 1), (0, 3), (0, 5)])
    made = target(jobs, available={0: Extent(3, 9), 1: Extent(0, 0)})
    made.copy_up_to({0: Extent(4, 9)}, {})
    made.verify({})
    assert (made.written, made.gone) == (3, 4)


def test_a_record_that_a_run_before_has_lost_is_found_missing(jobs: Jobs) -> None:
    jobs.holds([(0, 0), (0, 2), (0, 4)], [(0, 1), (0, 5)])
    made = target(jobs)
    made.copy_up_to({0: Extent(0, 9)}, {})
    with pytest.raises(MigrationError, match="narrow held 5 records of wide-0, and they are not the 6 that it has up to there"):
        made.verify({})


def test_a_record_that_was_lost_and_one_in_its_place_are_found(jobs: Jobs) -> None:
    made = target(jobs)
    jobs.lost = {4}
    made.copy_up_to({0: Extent(0, 9)}, {})
    with pytest.raises(MigrationError, match="narrow-0 has 4 records, and 5 were copied there"):
        made.verify({})
    jobs.holds([*jobs.held[0], (0, 10)], jobs.held[1])
    with pytest.raises(
        MigrationError, match="narrow got 9 records of wide-0 since this run began, and they are not the 9 that it read there"
    ):
        made.verify({})


def test_what_was_verified_is_not_read_again(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "VERIFIED_AT", 8)
    made = target(jobs)
    made.copy_up_to({0: Extent(0, 6)}, {})
    made.verify_some()
    assert jobs.summaries == []
    made.copy_up_to({0: Extent(0, 8)}, {})
    made.verify_some()
    made.copy_up_to({0: Extent(0, 10)}, {})
    made.verify({"g": {0: 20}})
    assert jobs.summaries == [[(0, 0, 4), (1, 0, 4)], [(0, 4, 5), (1, 4, 5)]]
    # A group in the middle of a part that was read before.
    assert made.verify({"g": {0: 4}}) == {"g": Carried({0: 2, 1: 2}, 0)}
    assert jobs.summaries[2:] == [[(0, 0, 5), (1, 0, 5)]]


def test_a_target_that_still_grows_is_waited_for(jobs: Jobs) -> None:
    jobs.holds([(0, 0)], [(0, 1)])
    time, grown = Time(), iter(range(2, 7))

    def grow(seconds: float) -> None:
        time.pause(seconds)
        jobs.holds([(0, 2 * each) for each in range(next(grown, 6))], [(0, 1)])

    target(jobs, pause=grow, clock=time.clock)
    assert time.now_s >= STILL_S + 5 * 0.25


def test_other_records_in_the_target_are_refused(jobs: Jobs) -> None:
    jobs.holds([(0, 2), (0, 0)], [])
    with pytest.raises(MigrationError, match="narrow-0 has a record at offset 1 that was copied before, or is out of order"):
        target(jobs)
    jobs.holds([], [(2, 0)])
    with pytest.raises(MigrationError, match="narrow-1 has a record at offset 0 that is not of this migration"):
        target(jobs)


def test_a_forecast_copies_nothing(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []

    def count(_spark: Any, reader: PlaceReader) -> dict[int, Counts]:
        read.extend(reader.tasks)
        return {0: Counts(5, (3,), (2,), (1,)), 1: Counts(4, (4,), (4,), (4,))}

    monkeypatch.setattr(filling, "forecast_counts", count)
    ends = {0: Extent(0, 6), 1: Extent(0, 8)}
    found = made_of(jobs).forecast({0: Extent(0, 0), 1: Extent(0, 0)}, ends, {"g": {0: 6, 1: 8}})
    assert found == (9, {"g": Carried({0: 3, 1: 4}, 1)})
    ranges = [[(number, (each.partition, each.start, each.end)) for number, task in tasks for each in task.ranges] for tasks in read]
    assert ranges == [[(0, (0, 0, 4)), (1, (0, 4, 6))], [(0, (1, 0, 5)), (1, (1, 5, 8))]]
    assert jobs.batches == []


def test_the_end_is_verified_and_gives_the_groups_places(jobs: Jobs) -> None:
    made = target(jobs)
    made.copy_up_to({0: Extent(0, 3), 1: Extent(0, 0)}, {"g": {0: 2}})
    assert made.verify({"g": {0: 2}}) == {"g": Carried({0: 1, 1: 1}, 0)}
    jobs.admin.extents["narrow"] = [Extent(0, 2), Extent(1, 1)]
    with pytest.raises(MigrationError, match="narrow-1 has 0 records, and 1 were copied there"):
        made.verify({"g": {0: 2}})
    jobs.holds([(0, 0), (0, 2), (1, 4)], [(0, 1)])
    with pytest.raises(MigrationError, match=r"narrow-0 has 3 records, and 2 were copied there: another program writes there\. Stop it"):
        made.verify({"g": {0: 2}})


def test_a_partition_is_read_by_one_task() -> None:
    tasks = tasks_of("wide", "id", {2: Extent(0, 5), 0: Extent(3, 100), 1: Extent(0, 5)}, 2)
    assert [task.ranges for task in tasks] == [
        (OffsetRange("wide", 0, 3, 100, "id"),),
        (OffsetRange("wide", 1, 0, 5, "id"), OffsetRange("wide", 2, 0, 5, "id")),
    ]


def test_parts_of_a_partition_are_read_by_several_tasks() -> None:
    tasks = tasks_of_parts("narrow", "id", {0: [Extent(0, 5), Extent(5, 9)]}, 2)
    assert [task.ranges for task in tasks] == [(OffsetRange("narrow", 0, 0, 5, "id"),), (OffsetRange("narrow", 0, 5, 9, "id"),)]


def test_what_tasks_have_read_adds_up() -> None:
    sums = SeenOffsets()
    first = sums.zero({})
    assert sums.addInPlace(first, {Seen(0, True): Checksum(1, 2)}) is first
    assert sums.addInPlace(first, {Seen(0, True): Checksum(3, 4), Seen(0, False): Checksum(1, 1)}) == {
        Seen(0, True): Checksum(4, 6),
        Seen(0, False): Checksum(1, 1),
    }
    assert sums.zero(first) == {}


EXTENTS = st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(1, 200)), min_size=1)


@given(EXTENTS, st.data(), st.integers(1, 300))
def test_every_offset_is_in_one_batch_and_in_its_order(left: dict[int, tuple[int, int]], data: st.DataObject, records_max: int) -> None:
    extents = {partition: Extent(start, start + size) for partition, (start, size) in left.items()}
    groups = data.draw(st.integers(0, 3))
    committed = st.dictionaries(st.sampled_from(sorted(extents)), st.integers(0, 300))
    phases = phases_of({f"g{number}": data.draw(committed) for number in range(groups)}, extents)
    reached = {partition: extent.start for partition, extent in extents.items()}
    for batch in plan_batches(extents, phases, records_max):
        assert sum(extent.size for extent in batch.values()) <= records_max + len(extents)
        for partition, extent in batch.items():
            assert extent.start == reached[partition]
            assert extent.size > 0
            reached[partition] = extent.end
    assert reached == {partition: extent.end for partition, extent in extents.items()}


def test_partitions_advance_together() -> None:
    left = {0: Extent(0, 100), 1: Extent(1000, 1010)}
    assert list(plan_batches(left, {}, 55)) == [{0: Extent(0, 50), 1: Extent(1000, 1005)}, {0: Extent(50, 100), 1: Extent(1005, 1010)}]


def test_a_phase_comes_after_the_phases_before_it() -> None:
    left, phases = {0: Extent(0, 30), 1: Extent(0, 30)}, {0: ReadPhases((10, 30), (0, 1, 3)), 1: ReadPhases((0, 20), (0, 1, 2))}
    assert list(plan_batches(left, phases, 10)) == [
        {0: Extent(0, 10)},
        {0: Extent(10, 15), 1: Extent(0, 5)},
        {0: Extent(15, 20), 1: Extent(5, 10)},
        {0: Extent(20, 25), 1: Extent(10, 15)},
        {0: Extent(25, 30), 1: Extent(15, 20)},
        {1: Extent(20, 30)},
    ]


def test_small_phases_share_a_batch() -> None:
    assert list(plan_batches({0: Extent(0, 30)}, {0: ReadPhases((10, 20), (0, 1, 2))}, 1000)) == [{0: Extent(0, 30)}]


def test_committed_offsets_outside_of_what_is_left() -> None:
    assert list(plan_batches({0: Extent(20, 30)}, {0: ReadPhases((5, 99), (0, 1, 2))}, 1000)) == [{0: Extent(20, 30)}]
    assert list(plan_batches({}, {}, 1)) == []


def read_again(left: dict[int, Extent], positions: dict[str, dict[int, int]], records_max: int) -> list[int]:
    """How many records each group reads again in a target of one partition, where all records have the same time."""
    phases, copied = phases_of(positions, left), []
    for batch in plan_batches(left, phases, records_max):
        places = [(partition, offset) for partition, extent in batch.items() for offset in range(*extent)]
        copied += sorted(places, key=lambda each: (phases[each[0]].numbers[bisect_right(phases[each[0]].cuts, each[1])], *each))
    is_read = [[offset < committed.get(partition, 0) for partition, offset in copied] for committed in positions.values()]
    return [sum(each[each.index(False) :]) if False in each else 0 for each in is_read]


@given(st.data(), st.integers(1, 300))
def test_what_groups_read_again_does_not_depend_on_the_size_of_batches(data: st.DataObject, records_max: int) -> None:
    left = {partition: Extent(0, size) for partition, size in enumerate(data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=4)))}
    committed = st.dictionaries(st.sampled_from(sorted(left)), st.integers(0, 70))
    positions = {f"g{number}": data.draw(committed) for number in range(data.draw(st.integers(1, 4)))}
    assert read_again(left, positions, records_max) == read_again(left, positions, 1000)


def test_a_group_does_not_read_again_for_one_that_is_across() -> None:
    """With batches of 25 records, half read almost all again that it had read."""
    left = {partition: Extent(0, 100) for partition in range(4)}
    positions = {"done": dict.fromkeys(left, 100), "half": dict.fromkeys(left, 50), "one": {2: 100}}
    assert read_again(left, positions, 25) == read_again(left, positions, 1000) == [0, 0, 50]


NEW, HELD = Seen(0, True), Seen(0, False)


def of(*offsets: int) -> Checksum:
    return checksum(np.array(offsets, np.int64))


def comparison(*held: int, is_compacted: bool = False) -> Comparison:
    return Comparison("wide", "narrow", starts={0: 2}, held={0: of(*held)} if held else {}, is_compacted=is_compacted)


def test_what_was_read_is_there() -> None:
    made = comparison(2, 3)
    made.begin({0: Extent(2, 9)})
    made.add({NEW: of(4), HELD: of(2)})
    made.add({NEW: of(5, 8), HELD: of(3)})
    made.check({0: of(2, 3, 4, 5, 8)})
    assert made.found_again == 2


@pytest.mark.parametrize("found", [(4, 5), (4, 5, 7), (4, 5, 8, 9)], ids=["lost", "another one", "one more"])
def test_another_set_of_records_is_refused(found: tuple[int, ...]) -> None:
    made = comparison()
    made.add({NEW: of(4, 5, 8)})
    with pytest.raises(MigrationError, match=r"narrow got \d records of wide-0 since this run began, and they are not the 3 that it read"):
        made.check({0: of(*found)})


@pytest.mark.parametrize("there", [(2, 3), (2, 3, 4, 5), (2, 3, 5)], ids=["fewer", "more", "others"])
def test_a_run_before_that_lost_or_invented_records_is_noticed(there: tuple[int, ...]) -> None:
    made = comparison(2, 3, 4)
    made.begin({0: Extent(2, 9)})
    made.add({HELD: of(*there)})
    with pytest.raises(MigrationError, match=r"narrow held 3 records of wide-0, and they are not the \d that it has up to there: wide was"):
        made.check({0: of(2, 3, 4)})


@pytest.mark.parametrize(("is_compacted", "start"), [(True, 2), (False, 4)], ids=["compacted", "deleted meanwhile"])
def test_a_source_that_has_fewer_than_before(is_compacted: bool, start: int) -> None:
    made = comparison(2, 3, 4, is_compacted=is_compacted)
    made.begin({0: Extent(start, 9)})
    made.add({HELD: of(4), NEW: of(5)})
    made.check({0: of(2, 3, 4, 5)})
    made.add({HELD: of(6, 7, 8)})
    with pytest.raises(MigrationError, match="narrow held 3 records of wide-0"):
        made.check({0: of(2, 3, 4, 5)})


@pytest.mark.parametrize(("source_partitions", "size"), [(2, RECORDS_MAX), (200, 200_000)])
def test_a_target_is_read_in_parts_that_are_larger_for_many_source_partitions(
    monkeypatch: pytest.MonkeyPatch, source_partitions: int, size: int
) -> None:
    read: list[Any] = []
    monkeypatch.setattr(
        target_reading, "summarize", lambda _spark, reader: read.extend(each for task in reader.tasks for each in task.ranges)
    )
    monkeypatch.setattr(target_reading.Contents, "add", lambda *_: None)
    planned = Migration(source_cluster=HERE, target_cluster=HERE, source="wide", target="narrow")
    starts = dict.fromkeys(range(source_partitions), 0)
    reads = TargetReads(None, planned, target=Shape("narrow", "id", 1), starts=starts, tasks_max=2)  # type: ignore[arg-type]
    held = {0: Extent(0, 2 * size + 1)}
    assert reads.unread(held) == 2 * size + 1
    reads.read(held)
    assert sorted((each.start, each.end) for each in read) == [(0, size), (size, 2 * size), (2 * size, 2 * size + 1)]
    read.clear()
    reads.read({0: Extent(0, 0)})
    assert read == []
