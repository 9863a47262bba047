"""Partitions of keys, as Kafka's Java producer chooses them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from ottla.testing.application.key_partitions import key_partition


# Hashes of org.apache.kafka.common.utils.UtilsTest.testMurmur2.
@pytest.mark.parametrize(
    ("key", "signed_hash"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_hashes_are_those_of_kafkas_own_test(key: str, signed_hash: int) -> None:
    assert key_partition(key.encode(), 2**31) == signed_hash & 0x7FFFFFFF


@given(st.binary(max_size=40), st.integers(1, 100))
def test_any_key_goes_where_kafka_python_sends_it(key: bytes, count: int) -> None:
    assert key_partition(key, count) == (murmur2(key) & 0x7FFFFFFF) % count
