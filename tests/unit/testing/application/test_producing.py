"""Produced records, and the partitions that they get."""

from typing import Any

import pytest
from confluent_kafka import Consumer
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from ottla.protocol.model import Header
from ottla.testing import Broker, Cluster
from ottla.testing.application.producing import key_partition


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


def test_values_keys_headers_and_times(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("orders", config={"retention.ms": -1})
    ottla_broker.produce(
        "orders", [b"one", "zwei", ("key", b"three"), ("key", None)], headers={"trace": "7", "none": None}, timestamp_ms=42
    )
    consumer = Consumer({"bootstrap.servers": ottla_broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found = consumer.consume(4, timeout=30)
    consumer.close()
    assert [(each.key(), each.value()) for each in found] == [(None, b"one"), (None, b"zwei"), (b"key", b"three"), (b"key", None)]
    assert {tuple(each.headers()) for each in found} == {(("trace", b"7"), ("none", None))}
    assert {each.timestamp()[1] for each in found} == {42}


def test_keys_choose_partitions_and_records_without_a_key_take_turns(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("orders", 3)
    ottla_broker.produce("orders", [b"0", b"1", b"2", b"3"])
    ottla_broker.produce("orders", [("k", b"4"), ("k", b"5")])
    ottla_broker.produce("orders", [("k", b"6")], partition=1)
    where = {record.value: record.partition for record in ottla_broker.consume("orders", 7)}
    assert [where[b"%d" % number] for number in range(4)] == [0, 1, 2, 0]
    assert where[b"4"] == where[b"5"] == 2
    assert where[b"6"] == 1


def test_many_records_are_several_batches_in_order(ottla_broker: Broker) -> None:
    values = [b"%07d" % number * 1000 for number in range(200)]
    ottla_broker.produce("orders", values)
    assert ottla_broker.values("orders") == values


def test_each_partition_is_produced_to_at_its_leader() -> None:
    with Cluster(2) as cluster:
        cluster.create_topic("orders", 4, replication_factor=2)
        assert {cluster.leader("orders", number) for number in range(4)} == {1, 2}
        cluster.produce("orders", ["a", "b", "c", "d"])
        assert sorted(value or b"" for value in cluster.values("orders")) == [b"a", b"b", b"c", b"d"]


def test_a_partition_without_a_leader_is_named() -> None:
    with Cluster(2) as cluster:
        cluster.create_topic("orders", 2)
        stopped = cluster.leader("orders", 0)
        assert stopped is not None
        cluster.stop_broker(stopped)
        with pytest.raises(AssertionError, match="partition orders-0 has no leader"):
            cluster.produce("orders", ["a"], partition=0)


def test_what_the_broker_refuses_is_said(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("small", config={"max.message.bytes": 100})
    with pytest.raises(
        AssertionError, match=r"partition small-0 refused 1 record: MESSAGE_TOO_LARGE: .*create_topic\('small', config={'max.message.bytes'"
    ):
        ottla_broker.produce("small", [bytes(1000)])
    with pytest.raises(AssertionError, match="topic small has no partition 3: it has 1"):
        ottla_broker.produce("small", [b"x"], partition=3)


def test_a_topic_is_not_created_where_the_broker_does_not() -> None:
    with (
        Broker(config={"auto.create.topics.enable": False}) as broker,
        pytest.raises(AssertionError, match="topic orders: UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        broker.produce("orders", [b"x"])


def test_headers_are_read_as_they_were_produced(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"x"], headers={"a": b"1"})
    ottla_broker.produce("orders", [b"x"], headers=[("hop", "web"), ("hop", None)])
    first, second = ottla_broker.consume("orders", 2)
    assert first.headers == (Header("a", b"1"),)
    assert second.headers == (Header("hop", b"web"), Header("hop", None))


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (b"one", r"records are a list: \[b'one'\]"),
        ("one", r"records are a list: \['one'\]"),
        ([1], "bytes, str or None, not int: 1"),
        ([("key", {"a": 1})], "bytes, str or None, not dict: {'a': 1}"),
        ([("a", "b", "c")], r"a record is a value or \(key, value\), not \('a', 'b', 'c'\)"),
    ],
)
def test_what_is_no_record_is_refused_before_anything_is_produced(ottla_broker: Broker, records: Any, reason: str) -> None:
    ottla_broker.create_topic("orders")
    with pytest.raises(TypeError, match=reason):
        ottla_broker.produce("orders", records)
    assert ottla_broker.values("orders") == []
