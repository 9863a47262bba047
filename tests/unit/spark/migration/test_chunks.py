"""Chunks: each for the task that writes its target partitions; reading is tested in tests/spark/test_migrate.py."""

from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from ottla.client.settings import ClientSettings
from ottla.spark.migration.chunks import (
    CHUNK_ORDER,
    CHUNKS,
    COLUMNS,
    LATEST,
    NO_OFFSETS,
    OFFSET_COLUMNS,
    ORDER,
    PHASE,
    TARGET,
    Checksum,
    ChunkReader,
    OffsetReader,
    PartitionRouter,
    ReadPhases,
    Routing,
    Seen,
    add_up,
    checksum,
    checksums,
    chunk,
    read,
    task_numbers,
)
from ottla.spark.migration.values import CRC32, MURMUR2, NOTHING, MigrationError
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.schemas import KAFKA_WITH_HEADERS
from ottla.spark.source import task_reading
from ottla.spark.source.planning import DataLossError, ReadTask


def routed(targets: list[int]) -> pa.RecordBatch:
    rows = len(targets)
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"%d" % each for each in range(rows)], pa.binary()),
            "partition": pa.array([4] * rows, pa.int32()),
            "offset": pa.array(range(10, 10 + rows), pa.int64()),
            TARGET: pa.array(targets, pa.int32()),
            PHASE: pa.array([0] * rows, pa.int32()),
            LATEST: pa.array(range(rows), pa.int64()),
        }
    )


def test_a_chunk_for_each_writing_task_with_its_records_in_order() -> None:
    made = chunk(routed([5, 0, 3, 2, 1]), 2)
    assert made.schema.names == CHUNKS.fieldNames()
    rows = made.to_pylist()
    assert [row["bucket"] for row in rows] == [0, 1]
    tables = [pa.ipc.open_stream(row["records"]).read_all() for row in rows]
    assert [table.column("offset").to_pylist() for table in tables] == [[11, 13], [10, 12, 14]]
    assert [table.column(TARGET).to_pylist() for table in tables] == [[0, 2], [5, 3, 1]]
    assert [[row[name] for name in CHUNK_ORDER] for row in rows] == [[0, 1, 4, 11], [0, 0, 4, 10]]


def test_a_large_chunk_is_divided() -> None:
    rows = chunk(routed([1] * 10), 2, bytes_max=routed([1] * 10).nbytes // 3).to_pylist()
    assert [row["offset"] for row in rows] == [10, 13, 16, 19]
    assert len(chunk(routed([1] * 10), 2, bytes_max=1).to_pylist()) == 10


def test_no_records_are_no_chunk() -> None:
    assert chunk(routed([]), 3).num_rows == 0


def test_the_read_columns_are_those_of_the_source() -> None:
    assert set(OFFSET_COLUMNS) < set(COLUMNS) <= set(KAFKA_WITH_HEADERS.fieldNames())
    assert not set(COLUMNS) & set(ORDER)


def test_the_offsets_that_were_read_by_what_is_done_with_the_records() -> None:
    def of(*offsets: int) -> Checksum:
        return checksum(np.array(offsets, np.int64))

    batch = routed([0, 0, 0])
    assert checksums(4, batch, batch) == {Seen(4, True): of(10, 11, 12)}
    assert checksums(4, batch, batch.slice(2)) == {Seen(4, True): of(12), Seen(4, False): of(10, 11)}


SETTINGS = ReadSettings(client=ClientSettings(bootstrap_servers="h:1"), columns=("offset",))


def rows(*offsets: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"offset": pa.array(offsets, pa.int64())})


def test_the_numbers_of_tasks() -> None:
    numbers = [pa.RecordBatch.from_pydict({"id": each}) for each in ([3], [], [1, 2])]
    assert list(task_numbers(iter(numbers))) == [3, 1, 2]


def test_empty_batches_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_reading, "read", lambda *_: iter([rows(), rows(1)]))
    assert [each.num_rows for each in read(SETTINGS, ReadTask(()))] == [1]


def test_what_tasks_read_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"partition": [4, 4], "key": [b"a", None], "timestamp": [7, 5]}
    types = {"partition": pa.int32(), "key": pa.binary(), "timestamp": pa.timestamp("us")}
    of_both = {name: pa.array(columns[name], types[name]) for name in columns}
    batches = [pa.RecordBatch.from_pydict(of_both | {"offset": pa.array(each, pa.int64())}) for each in ([1, 2], [3, 5])]
    monkeypatch.setattr(task_reading, "read", lambda *_: iter(batches))
    numbers = [pa.RecordBatch.from_pydict({"id": [0]})]
    seen: list[dict[Seen, Checksum]] = []
    total: Any = SimpleNamespace(add=seen.append)

    def of(*offsets: int) -> Checksum:
        return checksum(np.array(offsets, np.int64))

    assert list(OffsetReader(settings=SETTINGS, tasks=(ReadTask(()),), seen=total)(iter(numbers))) == []
    assert seen == [{Seen(4, False): of(1, 2)}, {Seen(4, False): of(3, 5)}]
    seen.clear()
    routing = Routing(partitions=1, partitioner=MURMUR2, copied={4: (1,)})
    reader = ChunkReader(settings=SETTINGS, tasks=(ReadTask(()),), routing=routing, buckets=1, seen=total)
    chunks = [row for made in reader(iter(numbers)) for row in made.to_pylist()]
    assert seen == [{Seen(4, True): of(2), Seen(4, False): of(1)}, {Seen(4, True): of(3, 5)}]
    # The latest time is that of the whole partition so far, with what is not copied.
    assert [(row["offset"], row[LATEST]) for row in chunks] == [(2, 7), (3, 7)]


def test_lost_records_end_the_migration_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_arguments: Any) -> Any:
        raise DataLossError('Offsets are gone. Set "failOnDataLoss".') from ValueError("offset 3 of wide-0 is gone")
        yield

    monkeypatch.setattr(task_reading, "read", lose)
    with pytest.raises(MigrationError, match=r"offset 3 of wide-0 is gone\. To continue with what is there, run the same command again"):
        list(read(SETTINGS, ReadTask(())))


KEYS = [b"a", None, b"", b"key-17", b"b"]


def records(offsets: list[int], keys: list[bytes | None] | None = None, times_ms: list[int] | None = None) -> pa.RecordBatch:
    times = pa.array([1000 * each for each in times_ms or offsets], pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict(
        {"key": pa.array(keys or [None] * len(offsets), pa.binary()), "timestamp": times, "offset": pa.array(offsets, pa.int64())}
    )


@pytest.mark.parametrize(
    ("partitioner", "expected"),
    [
        (MURMUR2, [1 if key is None else (murmur2(key) & 0x7FFFFFFF) % 6 for key in KEYS]),
        (CRC32, [crc32(key) % 6 if key else 1 for key in KEYS]),
    ],
)
def test_a_key_goes_where_producers_send_it_and_others_stay_together(partitioner: str, expected: list[int]) -> None:
    router = PartitionRouter(Routing(partitions=6, partitioner=partitioner), 7)
    assert router.route(records([0, 1, 2, 3, 4], KEYS)).column(TARGET).to_pylist() == expected


def test_each_record_has_the_phase_of_its_offset() -> None:
    router = PartitionRouter(Routing(partitions=1, partitioner=MURMUR2, phases={0: ReadPhases((5, 7), (0, 1, 4))}), 0)
    assert router.route(records([4, 5, 6, 7])).column(PHASE).to_pylist() == [0, 1, 1, 4]


def test_the_latest_time_never_falls_over_several_batches() -> None:
    router = PartitionRouter(Routing(partitions=1, partitioner=MURMUR2), 0)
    assert router.route(records([0, 1, 2], times_ms=[5, 3, 6])).column(LATEST).to_pylist() == [5000, 5000, 6000]
    assert router.route(records([3, 4], times_ms=[1, 9])).column(LATEST).to_pylist() == [6000, 9000]


def test_what_the_target_has_is_left_out() -> None:
    router = PartitionRouter(Routing(partitions=2, partitioner=MURMUR2, copied={1: (NOTHING, 6)}), 1)
    assert router.route(records([5, 6, 7])).column("offset").to_pylist() == [7]
    assert router.route(records([8])).column("offset").to_pylist() == [8]
    other = PartitionRouter(Routing(partitions=2, partitioner=MURMUR2, copied={1: (NOTHING, 6)}), 0)
    assert other.route(records([5, 6])).column("offset").to_pylist() == [5, 6]


OFFSETS = st.sets(st.integers(0, 2**62), max_size=20)


def of(offsets: set[int]) -> Checksum:
    return checksum(np.array(sorted(offsets), np.int64))


@given(OFFSETS, OFFSETS)
def test_checksums_add_up_and_differ_where_sets_do(left: set[int], right: set[int]) -> None:
    assert (of(left) == of(right)) == (left == right)
    assert of(left).plus(of(right - left)) == of(left | right)
    assert of(left | right).minus(of(left)) == of(right - left)


def test_a_hole_that_moves_is_seen() -> None:
    offsets = set(range(10_000))
    whole = of(offsets)
    without = {hole: whole.minus(of({hole})) for hole in offsets}
    assert len(set(without.values())) == len(offsets)
    assert all(without[hole] == of(offsets - {hole}) for hole in range(0, 10_000, 100))


def test_sums_by_key() -> None:
    total = {0: Checksum(1, 2**64 - 1)}
    add_up(total, {0: Checksum(2, 3), 1: Checksum(1, 1)})
    assert total == {0: Checksum(3, 2), 1: Checksum(1, 1)}
    assert of(set()) == NO_OFFSETS
