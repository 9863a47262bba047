"""`write` and `writeStream` to the format "ottla" on both brokers: records as a consumer reads them, partitions of keys, and failures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import AnalysisException

from ottla.broker import Broker
from ottla.protocol.arrow.partitioning import murmur2_partitions
from ottla.spark.sink.senders import DeliveryError, SenderPool
from ottla.spark.sink.writers import parse_sink_options, send

PARTITIONS = 3
HEADERS = "array<struct<key:string,value:binary>>"


def make(servers: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        made.result(60)


def read(servers: str, topic: str) -> list[Any]:
    """All messages of a topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    messages, ends = [], 0
    while ends < PARTITIONS:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ends += 1
        else:
            messages.append(message)
    consumer.close()
    return messages


def fields(message: Any) -> tuple[Any, ...]:
    return message.key(), message.value(), tuple(message.headers() or ())


def rows(first: str, second: str) -> list[tuple[Any, ...]]:
    """Keys, values, headers, topics and partitions as they come: null, empty, and some of each."""
    found = []
    for number in range(300):
        key = None if number % 7 == 0 else b"" if number % 7 == 1 else b"key-%d" % (number % 40)
        value = None if number % 11 == 0 else b"value-%d" % number
        headers = [(f"h{number}", b"%d" % number), ("n", None)] if number % 3 == 0 else None
        found.append((key, value, headers, second if number % 5 == 0 else first, 1 if number % 13 == 0 else None))
    return found


def test_rows_are_read_as_they_were_written_with_java_s_partitions(
    spark: Any, kafka_broker: Any, unique_name: Callable[[str], str], tmp_path: Path
):
    servers, first, second, copied = kafka_broker.bootstrap_servers, *(unique_name("sink") for _ in range(3))
    make(servers, first, second, copied)
    written = rows(first, second)
    frame = spark.createDataFrame(written, f"key binary, value binary, headers {HEADERS}, topic string, partition int")
    frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", servers).option("kafka.compression.type", "lz4").save()

    messages = {topic: read(servers, topic) for topic in (first, second)}
    for topic, found in messages.items():
        expected = [(key, value, tuple(headers or ())) for key, value, headers, to, _ in written if to == topic]
        assert sorted(map(repr, map(fields, found))) == sorted(map(repr, expected))
        keyed = [message for message in found if message.key() is not None and by_partitioner(written, message)]
        places = murmur2_partitions(pa.array([message.key() for message in keyed], pa.binary()), PARTITIONS)
        assert [message.partition() for message in keyed] == list(places)
        assert len(keyed) > len(found) / 2
    chosen = {value for _, value, _, _, partition in written if partition == 1 and value is not None}
    assert {m.partition() for found in messages.values() for m in found if m.value() in chosen} == {1}

    source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", first)
    stream = source.option("startingOffsets", "earliest").option("includeHeaders", "true").option("maxOffsetsPerTrigger", "150").load()
    sink = stream.select("key", "value", "headers").writeStream.format("ottla").option("kafka.bootstrap.servers", servers)
    query = sink.option("topic", copied).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert query.lastProgress["batchId"] >= 1
    assert sorted(map(repr, map(fields, read(servers, copied)))) == sorted(map(repr, map(fields, messages[first])))


def by_partitioner(written: list[tuple[Any, ...]], message: Any) -> bool:
    return not any(value == message.value() and partition is not None for _, value, _, _, partition in written)


def test_a_task_that_cannot_write_fails_with_the_reason(kafka_broker: Any, unique_name: Callable[[str], str]):
    """Errors of librdkafka and the brokers themselves, without a session."""
    servers, topic, kept = kafka_broker.bootstrap_servers, unique_name("sink"), SenderPool()
    make(servers, topic)

    def write(topic: str, value: bytes, partition: int | None, **options: str) -> int:
        given = {"kafka.bootstrap.servers": servers, "topic": topic, **options}
        batch = pa.record_batch({"value": [value], "key": [b"k"], "partition": pa.array([partition], pa.int32())})
        return send(parse_sink_options(given), iter([batch]), kept).records

    large = b"v" * 1_100_000
    for to, value, partition, options, said in [
        (topic, b"v", 7, {}, f"cannot write the record with key b'k' for partition 7 of topic {topic}: the topic has 3 partitions"),
        (
            topic,
            large,
            None,
            {},
            f"the record with key b'k' for topic {topic}, whose value has 1100000 bytes: that is more than kafka.max.",
        ),
        (
            topic,
            large,
            1,
            {"kafka.max.request.size": "9000000"},
            f"for partition 1 of topic {topic}, whose value has 1100000 bytes: the broker",
        ),
        ("no such", b"v", None, {}, "cannot write to topic 'no such': Broker: Invalid topic"),
    ]:
        with pytest.raises(DeliveryError) as error:
            write(to, value, partition, **options)
        assert said in str(error.value)
    assert write(topic, b"v", None) == 1
    assert [message.value() for message in read(servers, topic)] == [b"v"]


def test_a_missing_topic_and_a_silent_broker_end_in_time():
    batch = pa.record_batch({"value": [b"v"]})
    with Broker(config={"auto.create.topics.enable": "false"}) as broker:
        servers = broker.bootstrap_servers
        with pytest.raises(DeliveryError, match=r"topic gone does not exist \(waited 0.\d s\): create it first"):
            send(parse_sink_options({"kafka.bootstrap.servers": servers, "topic": "gone", "kafka.max.block.ms": "100"}), iter([batch]))
    with pytest.raises(DeliveryError, match="Topic gone not present in metadata after 200 ms: no broker of"):
        send(parse_sink_options({"kafka.bootstrap.servers": servers, "topic": "gone", "kafka.max.block.ms": "200"}), iter([batch]))


def test_a_query_fails_with_the_message_of_the_sink(spark: Any):
    with Broker() as broker:
        make(broker.bootstrap_servers, "t")
        frame = spark.range(1).selectExpr("'v' value", "7 partition").coalesce(1).write.format("ottla").option("topic", "t")
        writer = frame.option("kafka.bootstrap.servers", broker.bootstrap_servers)
        with pytest.raises(AnalysisException, match='use either the "Append" or "Overwrite" mode'):
            writer.save()
        with pytest.raises(Exception, match="DeliveryError: cannot write a record without a key for partition 7 of topic t"):
            writer.mode("append").save()
        valid = spark.range(1).selectExpr("'v' value").write.format("ottla").option("topic", "t")
        valid = valid.option("kafka.bootstrap.servers", broker.bootstrap_servers).mode("overwrite")
        valid.save()
        with pytest.raises(AnalysisException, match="OptionError: Save mode Overwrite not allowed for topic t, which has records"):
            valid.save()
        assert [message.value() for message in read(broker.bootstrap_servers, "t")] == [b"v"]
