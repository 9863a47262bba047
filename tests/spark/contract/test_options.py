"""Options that are accepted, and options that are refused, by both formats; Ottla's names the option."""

from typing import Any

# What is wrong, tried in (batch, stream), both of which look at most options in one place; the option that ours names.
WRONG: list[tuple[str, dict[str, Any], tuple[bool, bool]]] = [
    ("subscribe", {"subscribe": None}, (True, False)),
    ("subscribe", {"subscribe": " , "}, (True, False)),
    ("subscribe", {"assign": "{}"}, (True, True)),
    ("assign", {"subscribe": None, "assign": "topic"}, (True, False)),
    ("subscribePattern", {"subscribe": None, "subscribePattern": " "}, (True, False)),
    ("subscribePattern", {"subscribe": None, "subscribePattern": "("}, (True, False)),
    ("kafka.auto.offset.reset", {"kafka.auto.offset.reset": "earliest"}, (True, False)),
    ("kafka.enable.auto.commit", {"kafka.enable.auto.commit": "true"}, (True, True)),
    ("kafka.key.deserializer", {"kafka.key.deserializer": "x"}, (True, False)),
    ("kafka.value.deserializer", {"kafka.value.deserializer": "x"}, (True, False)),
    ("kafka.interceptor.classes", {"kafka.interceptor.classes": "x"}, (True, False)),
    ("kafka.bootstrap.servers", {"kafka.bootstrap.servers": None}, (True, False)),
    ("kafka.isolation.level", {"kafka.isolation.level": "read_some"}, (True, False)),
    ("kafka.security.protocol", {"kafka.security.protocol": "NONE"}, (True, False)),
    ("minPartitions", {"minPartitions": "0"}, (True, False)),
    ("minPartitions", {"minPartitions": "many"}, (True, False)),
    ("maxRecordsPerPartition", {"maxRecordsPerPartition": "-1"}, (True, False)),
    ("minOffsetsPerTrigger", {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, (True, True)),
    ("maxOffsetsPerTrigger", {"maxOffsetsPerTrigger": "few"}, (False, True)),
    ("startingOffsets", {"startingOffsets": "latest"}, (True, False)),
    ("startingOffsets", {"startingOffsets": "somewhere"}, (True, True)),
    ("startingOffsets", {"startingOffsets": '{"TOPIC":{"0":-1}}'}, (True, False)),
    ("startingOffsets", {"startingOffsets": '{"TOPIC":{"0":"a"}}'}, (True, False)),
    ("endingOffsets", {"endingOffsets": "earliest"}, (True, False)),
    ("endingOffsets", {"endingOffsets": '{"TOPIC":{"0":-2}}'}, (True, False)),
    ("endingOffsets", {"endingOffsets": "latest"}, (False, True)),
    ("endingOffsetsByTimestamp", {"endingOffsetsByTimestamp": '{"TOPIC":{"0":1}}'}, (False, True)),
    ("startingTimestamp", {"startingTimestamp": "noon"}, (True, False)),
    ("startingOffsetsByTimestamp", {"startingOffsetsByTimestamp": "noon"}, (True, False)),
    ("startingOffsetsByTimestampStrategy", {"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "guess"}, (True, False)),
    ("failOnDataLoss", {"failOnDataLoss": "perhaps"}, (True, False)),
    ("includeHeaders", {"includeHeaders": "perhaps"}, (True, False)),
]


# With a meaning or without one in a batch: a query with them continues when its format changes.
ACCEPTED = {
    "groupIdPrefix": "mine",
    "kafkaConsumer.pollTimeoutMs": "60000",
    "fetchOffset.numRetries": "2",
    "failOnDataLoss": "TRUE",
    "maxOffsetsPerTrigger": "10",
    "minOffsetsPerTrigger": "1",
    "maxTriggerDelay": "10s",
    "minPartitions": "1",
    "maxRecordsPerPartition": "5",
    "kafka.client.id": "a-client",
    "kafka.max.poll.records": "100",
    "kafka.session.timeout.ms": "30000",
    "kafka.heartbeat.interval.ms": "3000",
    "kafka.max.partition.fetch.bytes": "100000",
    "kafka.fetch.max.wait.ms": "100",
    "kafka.fetch.min.bytes": "1",
    "kafka.request.timeout.ms": "30000",
    "kafka.default.api.timeout.ms": "60000",
    "kafka.metadata.max.age.ms": "60000",
    "kafka.receive.buffer.bytes": "65536",
    "kafka.isolation.level": "read_committed",
    "kafka.security.protocol": "PLAINTEXT",
}


def test_what_is_accepted(anywhere: Any):
    topic = anywhere.topic()
    anywhere.place.produce(topic, ["a", "b"])
    options = anywhere.options({"SUBSCRIBE": topic, "STARTINGOFFSETS": "EARLIEST"}) | ACCEPTED
    for group in ({}, {"kafka.group.id": topic}):
        reader = anywhere.spark.read.format(anywhere.format).options(**options, **group)
        assert reader.load().count() == 2


def test_what_is_refused(anywhere: Any):
    topic = anywhere.topic()
    anywhere.place.produce(topic, ["a"])
    accepted, unnamed = [], []
    for named, options, (in_batch, in_stream) in WRONG:
        given = anywhere.options({"subscribe": topic}) | options
        texts = {name: value.replace("TOPIC", topic) for name, value in given.items() if value is not None}
        for is_stream in [False] * in_batch + [True] * in_stream:
            try:
                _use(anywhere, texts, is_stream)
            except Exception as failure:  # noqa: BLE001 - Spark has many kinds
                if anywhere.is_ours and named.removeprefix("kafka.") not in str(failure):
                    unnamed.append((named, options, str(failure)[-300:]))
            else:
                accepted.append((named, options, is_stream))
    assert accepted == []
    assert unnamed == []


def _use(anywhere: Any, options: dict[str, str], is_stream: bool) -> None:
    """Plan the query until every option has been checked."""
    if not is_stream:
        anywhere.spark.read.format(anywhere.format).options(**options).load().collect()
        return
    frame = anywhere.spark.readStream.format(anywhere.format).options(**options).load()
    query = frame.writeStream.format("noop").trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
