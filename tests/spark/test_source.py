"""What only format("ottla") has, in sessions, on both brokers: discovery, filters and few tasks, records buffered between batches.

What it shares with the JVM connector (rows, offsets, failures) is in tests/spark/contract.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import AnalysisException

from ottla.spark.daemon import LOOKUP
from ottla.testing.waiting import wait_until
from tests.support.processes import command_line, process_tree

PARTITIONS = 3
RECORDS = 30
STEP_MS = 1_000


@pytest.fixture
def start_ms() -> int:
    """The time of the first record of each partition; each has one more every second, up to now."""
    return int(time.time() * 1000) - RECORDS * STEP_MS


@pytest.fixture
def topic(kafka_broker: Any, unique_name: Callable[[str], str], start_ms: int) -> str:
    """A new topic of three partitions with thirty records each, one a batch."""
    name, servers = unique_name("spark"), {"bootstrap.servers": kafka_broker.bootstrap_servers}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(60)
    producer = Producer({**servers, "batch.num.messages": 1, "enable.idempotence": True, "log_level": 0})
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            producer.produce(name, b"%d" % number, partition=partition, timestamp=start_ms + number * STEP_MS)
    assert producer.flush(60) == 0
    return name


def _reader(spark: Any, servers: str, topic: str) -> Any:
    return spark.read.format("ottla").options(**{"kafka.bootstrap.servers": servers, "subscribe": topic})


def _places(frame: Any) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


@pytest.mark.parametrize("kafka_broker", ["ottla"], indirect=True)
def test_any_session_finds_it(spark: Any, kafka_broker: Any, topic: str):
    # Any session: the format is not registered, the cores are not known, and filters are not pushed down (Spark's default).
    plain = spark.newSession()
    plain.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    frame = _reader(plain, kafka_broker.bootstrap_servers, topic).load()
    assert frame.rdd.getNumPartitions() == PARTITIONS
    assert _places(frame.where("partition = 1")) == [(1, offset) for offset in range(RECORDS)]
    # The processes in which Spark looked for it have ended.
    wait_until(lambda: LOOKUP not in "\n".join(map(command_line, process_tree(os.getpid()))), LOOKUP)


def test_filters_decide_what_is_fetched_and_cores_in_how_many_tasks(spark: Any, kafka_broker: Any, topic: str, start_ms: int):
    reader = _reader(spark, kafka_broker.bootstrap_servers, topic)
    frame = reader.schema("partition int, offset bigint, timestamp timestamp").load()
    assert (frame.columns, frame.rdd.getNumPartitions()) == (["partition", "offset", "timestamp"], 2)
    late = f"timestamp >= timestamp_millis({start_ms + 20 * STEP_MS})"
    for condition, tasks, places in [
        ("partition = 1", 1, [(1, offset) for offset in range(RECORDS)]),
        ("partition in (0, 2) and offset between 3 and 4", 2, [(0, 3), (0, 4), (2, 3), (2, 4)]),
        (f"{late} and partition < 1 and offset != 25", 1, [(0, offset) for offset in range(20, RECORDS) if offset != 25]),
        ("offset > 99", 1, []),
    ]:
        found = frame.where(condition)
        assert (found.rdd.getNumPartitions(), _places(found)) == (tasks, places)


def test_micro_batches_that_are_smaller_than_an_answer(spark: Any, kafka_broker: Any, topic: str, unique_name: Callable[[str], str]):
    table = unique_name("table").replace("-", "_")
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", kafka_broker.bootstrap_servers).option("subscribe", topic)
    frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 30).load()
    query = frame.writeStream.format("memory").queryName(table).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert len([progress for progress in query.recentProgress if progress.numInputRows]) == 3
    rows = spark.table(table).selectExpr("partition", "offset", "cast(value as string) as value").sort("partition", "offset").collect()
    assert [tuple(row) for row in rows] == [
        (partition, offset, str(offset)) for partition in range(PARTITIONS) for offset in range(RECORDS)
    ]


def test_no_broker_is_reachable(spark: Any):
    with pytest.raises(AnalysisException, match=r"127\.0\.0\.1:1"):
        spark.read.format("ottla").options(
            **{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.default.api.timeout.ms": "1000"}
        ).load().count()
