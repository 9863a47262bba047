"""Java's partition of a key, held against another client's own code."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from ottla.protocol.arrow.partitioning import NO_PARTITION, murmur2_partitions


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 10_000))
def test_every_key_goes_where_the_java_client_sends_it(keys: list[bytes | None], count: int) -> None:
    expected = [NO_PARTITION if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert murmur2_partitions(pa.array(keys, pa.binary()), count).tolist() == expected


@pytest.mark.parametrize(("key", "partition"), [(b"", 681), (b"a", 524), (b"key-17", 460)])
def test_known_keys(key: bytes, partition: int) -> None:
    assert murmur2_partitions(pa.array([key], pa.binary()), 1000)[0] == partition


def test_a_slice_of_a_column_is_read_where_it_begins() -> None:
    keys = pa.array([b"one", None, b"two", b"three"], pa.binary())
    assert murmur2_partitions(keys[2:], 50).tolist() == murmur2_partitions(keys, 50).tolist()[2:]
