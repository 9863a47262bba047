"""Spark partitions that read a topic: one per partition with records; more by minPartitions and maxRecordsPerPartition."""

from typing import Any


def _sizes(frame: Any) -> list[int]:
    """The number of rows of each Spark partition that is not empty."""
    counts = frame.selectExpr("spark_partition_id() as id").groupBy("id").count().collect()
    return sorted(row["count"] for row in counts)


def test_partitions_and_their_rows(anywhere: Any):
    topic = anywhere.topic(partitions=3)
    anywhere.place.produce(topic, range(100))
    anywhere.place.produce(topic, range(20), partition=1)

    def sizes(**options: Any) -> list[int]:
        return _sizes(anywhere.load(subscribe=topic, **options))

    assert sizes() == sizes(minPartitions=2) == [20, 100]
    assert sizes(minPartitions=6) == [20, 20, 20, 20, 20, 20]
    assert sizes(minPartitions=4) == [20, 33, 33, 34]
    assert sizes(maxRecordsPerPartition=50, minPartitions=6) == [16, 16, 17, 17, 17, 17, 20]
    assert sizes(maxRecordsPerPartition=15, minPartitions=4) == [10, 10, 14, 14, 14, 14, 14, 15, 15]
    rows = anywhere.rows("partition", "offset", subscribe=topic, minPartitions=7)
    assert rows == [*((0, offset) for offset in range(100)), *((1, offset) for offset in range(20))]


def test_a_streams_batches_are_split_too(anywhere: Any):
    topic = anywhere.topic()
    anywhere.place.produce(topic, range(36))
    seen: list[list[int]] = []
    frame = anywhere.spark.readStream.format(anywhere.format).options(
        **anywhere.options({"subscribe": topic, "startingOffsets": "earliest", "minPartitions": 3, "maxRecordsPerPartition": 9})
    )
    checkpoint = str(anywhere.directory / "checkpoint")
    writer = frame.load().writeStream.foreachBatch(lambda batch, _: seen.append(_sizes(batch))).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert seen == [[9, 9, 9, 9]]
