"""`spark.readStream.format("ottla")` in a session: checkpoints after each run, and their use.

On our broker alone: tests/spark/contract holds streams beside the JVM connector on both. The rules are tested without Spark
(tests/unit/spark/source/test_stream_reader.py); here Spark calls, in its own order.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException

Batches = list[dict[int, tuple[int, int]]]
"""Of each micro-batch that was not empty: the first and the last offset of each partition."""


class Topic:
    """A topic of two partitions, created, filled, and re-created."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers = servers
        self.name = name
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self.create()

    def create(self) -> None:
        self._admin.create_topics([NewTopic(self.name, 2, 1)])[self.name].result(60)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(60)

    def produce(self, *records: int) -> None:
        """Write so many records to each partition."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for partition, count in enumerate(records):
            for number in range(count):
                producer.produce(self.name, b"%d" % number, partition=partition)
        assert producer.flush(60) == 0


pytestmark = pytest.mark.parametrize("kafka_broker", ["ottla"], indirect=True)


@pytest.fixture
def topic(kafka_broker: Any, unique_name: Callable[[str], str]) -> Topic:
    """A new topic."""
    return Topic(kafka_broker.bootstrap_servers, unique_name("stream"))


def _run(spark: Any, topic: Topic, checkpoint: Path, source: str = "ottla", *, fails_at: int | None = None, **options: str) -> Batches:
    """All that is there now, in micro-batches, from the checkpoint on."""
    batches: Batches = []

    def remember(frame: Any, number: int) -> None:
        if number == fails_at:
            raise RuntimeError("as the test wants it")
        found: dict[int, list[int]] = {}
        for row in frame.select("partition", "offset").collect():
            found.setdefault(row.partition, []).append(row.offset)
        if found:
            batches.append({partition: (min(offsets), max(offsets)) for partition, offsets in sorted(found.items())})

    options = {"kafka.bootstrap.servers": topic.servers, "subscribe": topic.name, "fetchOffset.retryIntervalMs": "50", **options}
    writer = spark.readStream.format(source).options(**options).load().writeStream.foreachBatch(remember)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    return batches


def _last_offsets(checkpoint: Path) -> Any:
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return json.loads(newest.read_text().splitlines()[-1])


def test_a_checkpoint_of_the_jvm_connector_continues_and_a_re_created_topic_is_detected(
    spark: Any, jvm_format: str, topic: Topic, tmp_path: Path
):
    topic.produce(10, 20)
    assert _run(spark, topic, tmp_path, jvm_format, startingOffsets="earliest") == [{0: (0, 9), 1: (0, 19)}]
    assert "#topic_ids" not in _last_offsets(tmp_path)
    topic.produce(4, 8)
    assert _run(spark, topic, tmp_path, maxOffsetsPerTrigger="6") == [{0: (10, 11), 1: (20, 23)}, {0: (12, 13), 1: (24, 27)}]
    offsets = _last_offsets(tmp_path)
    assert (offsets[topic.name], list(offsets["#topic_ids"])) == ({"0": 14, "1": 28}, [topic.name])
    topic.delete()
    topic.create()
    topic.produce(3, 40)
    with pytest.raises(StreamingQueryException, match=f"Topic {topic.name} was deleted and re-created"):
        _run(spark, topic, tmp_path)
    assert _run(spark, topic, tmp_path, failOnDataLoss="false") == [{0: (0, 2), 1: (0, 39)}]
    assert _last_offsets(tmp_path)["#topic_ids"] != offsets["#topic_ids"]


def test_a_query_that_began_at_the_end_misses_nothing_when_its_first_batch_fails(spark: Any, topic: Topic, tmp_path: Path):
    topic.produce(5, 5)
    with pytest.raises(StreamingQueryException, match="as the test wants it"):
        _run(spark, topic, tmp_path, fails_at=0)
    topic.produce(2, 1)
    assert _run(spark, topic, tmp_path) == [{0: (5, 6), 1: (5, 5)}]
