"""Writing: columns and their types, topics and partitions of rows, and refusals, in a batch and in a stream."""

import time
from typing import Any

import pytest

# The partition of four that Kafka's own partitioner gives a key (murmur2).
PARTITION_OF = {"a": 0, "b": 0, "c": 2, "d": 1, "e": 2, "f": 3}


def _frame(contract: Any, *rows: str, columns: str) -> Any:
    return contract.spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t({columns})")


def _write(contract: Any, frame: Any, **options: Any) -> None:
    frame.write.format(contract.format).mode("append").options(**contract.options(options, is_sink=True)).save()


def _stream(contract: Any, frame: Any, **options: Any) -> Any:
    settings = contract.options({"checkpointLocation": contract.directory / contract.name("checkpoint"), **options}, is_sink=True)
    query = frame.writeStream.format(contract.format).options(**settings).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()


def test_columns(contract: Any):
    topic, other = contract.topic(partitions=4), contract.topic()
    everything = _frame(
        contract,
        f"('{topic}', 'k', 'v', 3, array(struct('h', X'01'), struct('h', CAST(NULL AS BINARY))))",
        f"('{other}', CAST(NULL AS STRING), 'w', 0, array())",
        f"('{topic}', 'x', NULL, 2, NULL)",
        columns="topic, key, value, partition, headers",
    )
    before = int(time.time() * 1000)
    _write(contract, everything.withColumn("headers", everything.headers.cast("array<struct<key:string,value:binary>>")))
    columns = ("partition", "offset", "key", "value", "headers")
    assert contract.rows(*columns, subscribe=topic, includeHeaders=True) == [
        (2, 0, b"x", None, None),
        (3, 0, b"k", b"v", [("h", b"\x01"), ("h", None)]),
    ]
    assert contract.rows(*columns, subscribe=other, includeHeaders=True) == [(0, 0, None, b"w", None)]
    assert contract.rows(f"unix_millis(timestamp) >= {before}", "timestampType", subscribe=other) == [(True, 0)]
    # The option goes before the column; binary as well as text; a column that is not ours is left alone.
    binary = _frame(contract, "(X'FF', X'00', 'nowhere', 1)", columns="value, key, topic, more")
    _write(contract, binary, topic=other)
    assert contract.rows("key", "value", subscribe=other) == [(None, b"w"), (b"\x00", b"\xff")]
    # Partitions are those that Kafka's own producer chooses, and null is none.
    keyed = _frame(contract, *(f"('{key}', '{key}', CAST(NULL AS INT))" for key in PARTITION_OF), columns="key, value, partition")
    _write(contract, keyed, topic=other)
    third = contract.topic(partitions=4)
    _write(contract, keyed, topic=f" {third} ")
    assert dict(contract.rows("cast(value as string)", "partition", subscribe=third)) == PARTITION_OF
    _write(contract, keyed.limit(0), topic=third)


def test_a_stream_is_written(contract: Any):
    source, sink = contract.topic(), contract.topic()
    contract.place.produce(source, range(3), key=b"k", headers=[("h", b"1")])
    frame = contract.spark.readStream.format(contract.format).options(
        **contract.options({"subscribe": source, "startingOffsets": "earliest", "includeHeaders": True})
    )
    _stream(contract, frame.load().select("key", "value", "headers"), topic=sink)
    headers = [("h", b"1")]
    assert contract.rows("key", "value", "headers", subscribe=sink, includeHeaders=True) == [(b"k", b"%d" % n, headers) for n in range(3)]
    contract.failure_of(lambda: _stream(contract, frame.load().selectExpr("value AS nothing"), topic=sink))


def test_what_is_refused(contract: Any):
    topic = contract.topic()
    refused: list[tuple[str, str, str, dict[str, Any]]] = [
        ("no topic", "('v')", "value", {}),
        ("no value", "('k')", "key", {"topic": topic}),
        ("a null topic", "(CAST(NULL AS STRING), 'v')", "topic, value", {}),
        ("a topic that is a number", "(1, 'v')", "topic, value", {}),
        ("a value that is a number", "(1)", "value", {"topic": topic}),
        ("a key that is a number", "(1, 'v')", "key, value", {"topic": topic}),
        ("headers that are text", "('h', 'v')", "headers, value", {"topic": topic}),
        ("a partition that is text", "('0', 'v')", "partition, value", {"topic": topic}),
        ("a partition that is not there", "(7, 'v')", "partition, value", {"topic": topic, "kafka_max_block_ms": 1000}),
        ("a record that is too large", "(repeat('x', 2000000))", "value", {"topic": topic}),
        ("a serializer", "('v')", "value", {"topic": topic, "kafka_value_serializer": "x"}),
        ("a serializer", "('v')", "value", {"topic": topic, "kafka_key_serializer": "x"}),
    ]
    accepted = []
    for what, values, columns, options in refused:
        try:
            _write(contract, _frame(contract, values, columns=columns), **options)
        except Exception:  # noqa: BLE001 - Spark has many kinds
            continue
        accepted.append(what)
    assert accepted == []
    assert contract.rows(subscribe=topic) == []
    contract.place.produce(topic, ["to be kept"])
    overwriting = _frame(contract, "('v')", columns="value").write.format(contract.format).mode("overwrite")
    with pytest.raises(Exception, match=r"(?i)overwrite"):
        overwriting.options(**contract.options({"topic": topic}, is_sink=True)).save()
