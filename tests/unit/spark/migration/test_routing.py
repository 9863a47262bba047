"""Target partitions and the order of records."""

from zlib import crc32

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from ottla.spark.migration.routing import LATEST, PHASE, TARGET, PartitionRouter, Routing
from ottla.spark.migration.values import CRC32, MURMUR2, NOTHING

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


def test_the_phase_counts_the_groups_that_have_not_read_a_record() -> None:
    router = PartitionRouter(Routing(partitions=1, partitioner=MURMUR2, positions={0: (5, 7)}), 0)
    assert router.route(records([4, 5, 6, 7])).column(PHASE).to_pylist() == [0, 1, 1, 2]


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
