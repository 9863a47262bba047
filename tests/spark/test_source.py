"""`spark.read.format("ottla")` against a broker, ours and Apache Kafka's: rows as they were produced, ranges, and what goes wrong."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import AnalysisException

PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 40
START_MS = 1_700_000_000_000


@pytest.fixture
def topic(kafka_broker: Any, unique_name: Callable[[str], str]) -> str:
    """A new topic of three partitions."""
    name = unique_name("spark")
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(10)
    return name


def _produce(servers: str, topic: str) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Forty records in each of two partitions, by every codec in turn: (partition, offset) → key, value, timestamp (ms), headers."""
    expected: dict[tuple[int, int], tuple[Any, ...]] = {}
    numbers = itertools.count()
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50, "log_level": 0})
        for _ in range(2 * RECORDS // len(CODECS)):
            number = next(numbers)
            key = None if number % 7 == 0 else b"key-%d" % number
            value = None if number % 5 == 0 else b"value-%d " % number * 20
            headers = [("h", b"%d" % number), ("n", None)] if number % 3 == 0 else []
            producer.produce(topic, value, key, partition=number % 2, timestamp=START_MS + number, headers=headers)
            expected[number % 2, number // 2] = (key, value, START_MS + number, headers or None)
        assert producer.flush(10) == 0
    return expected


def _read(spark: Any, servers: str, topic: str, **options: str) -> Any:
    return spark.read.format("ottla").options(**{"kafka.bootstrap.servers": servers, "subscribe": topic, **options})


def test_rows_are_what_was_produced(spark: Any, kafka_broker: Any, topic: str):
    expected = _produce(kafka_broker.bootstrap_servers, topic)
    frame = _read(spark, kafka_broker.bootstrap_servers, topic, includeHeaders="true").load()
    rows = frame.selectExpr("*", "unix_millis(timestamp) as ms").collect()
    found = {
        (row.partition, row.offset): (
            row.key if row.key is None else bytes(row.key),
            row.value if row.value is None else bytes(row.value),
            row.ms,
            row.headers and [(header.key, header.value if header.value is None else bytes(header.value)) for header in row.headers],
        )
        for row in rows
    }
    assert found == expected
    assert len(rows) == 2 * RECORDS
    assert {(row.topic, row.timestampType) for row in rows} == {(topic, 0)}


def test_ranges_by_partition_and_columns_by_schema(spark: Any, kafka_broker: Any, topic: str):
    _produce(kafka_broker.bootstrap_servers, topic)
    starting, ending = {topic: {"0": 5, "1": -2, "2": -2}}, {topic: {"0": 9, "1": 3, "2": -1}}
    options = {"startingOffsets": json.dumps(starting), "endingOffsets": json.dumps(ending)}
    reader = _read(spark, kafka_broker.bootstrap_servers, topic, **options)
    frame = reader.schema("offset bigint, partition int").load()
    assert frame.columns == ["offset", "partition"]
    assert sorted((row.partition, row.offset) for row in frame.collect()) == [*((0, i) for i in range(5, 9)), *((1, i) for i in range(3))]


def test_an_empty_topic_is_an_empty_table(spark: Any, kafka_broker: Any, topic: str):
    assert _read(spark, kafka_broker.bootstrap_servers, topic).load().collect() == []


def test_what_cannot_be_read_says_why(spark: Any, kafka_broker: Any, topic: str):
    servers = kafka_broker.bootstrap_servers
    beyond = {"startingOffsets": json.dumps({topic: {"0": 5, "1": 0, "2": 0}})}
    for options, message in [
        ({"subscribe": "no-such-topic"}, "UnknownTopicError: topic no-such-topic does not exist"),
        ({"foo": "bar"}, 'OptionError: The option "foo" is not supported'),
        ({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "1000"}, "no connection to broker 127.0.0.1:1"),
        (beyond, f"DataLossError: startingOffsets asks for offset 5 of {topic}-0, which holds 0 to 0"),
    ]:
        with pytest.raises(AnalysisException, match=message):
            _read(spark, servers, topic, **options).load().count()
    assert _read(spark, servers, topic, failOnDataLoss="false", **beyond).load().count() == 0


@pytest.mark.kafka
def test_records_that_steer_transactions_are_no_rows(spark: Any, reference: Any, unique_name: Callable[[str], str]):
    servers, topic = reference.shared().bootstrap_servers, unique_name("transactions")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(10)
    for number in range(3):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.commit_transaction(10)
    rows = _read(spark, servers, topic).load().collect()
    assert sorted((row.offset, bytes(row.value)) for row in rows) == [(0, b"0"), (2, b"1"), (4, b"2")]
