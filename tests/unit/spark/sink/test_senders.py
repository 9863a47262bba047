"""A task and its producer: waiting is bounded, the first failure names its record, and the next task reuses the producer."""

from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from ottla.spark.options.values import OptionError
from ottla.spark.sink.producer_settings import parse_producer_settings
from ottla.spark.sink.senders import (
    IDLE_MAX,
    IDLE_MS_MAX,
    DeliveryError,
    RecordSender,
    RowError,
    SenderPool,
    check_columns,
    produce_arguments,
    shown,
    topics_of,
)

SETTINGS = parse_producer_settings({"bootstrap.servers": "h:1"})


def row(key: bytes | None = b"k", *, topic: str = "t", value: bytes | None = b"v", partition: int = -1) -> tuple[Any, ...]:
    return topic, value, key, partition, None, None, 0, None


def sender_of(producers: Any, **more: str) -> RecordSender:
    settings = parse_producer_settings({"bootstrap.servers": "h:1", **more})
    return RecordSender(settings, now_s=lambda: producers.now_s)


def test_rows_are_sent_in_order_and_the_end_waits_for_acknowledgements(producers: Any) -> None:
    sender = sender_of(producers)
    assert sender.send_all([row(b"1"), row(b"2", value=None, partition=2), row(None)]) == 3
    sender.finish()
    (made,) = producers.made
    assert [(each["key"], each["value"], each["partition"]) for each in made.sent] == [(b"1", b"v", -1), (b"2", None, 2), (None, b"v", -1)]
    assert made.settings["delivery.report.only.error"] is True
    assert made.settings["enable.idempotence"] is True


def test_a_full_queue_is_waited_for_with_a_timeout(producers: Any) -> None:
    sender = sender_of(producers)
    producers.full_times = 3
    sender.send_all([row(b"1"), row(b"2")])
    assert [each["key"] for each in producers.made[0].sent] == [b"1", b"2"]
    assert producers.now_s == pytest.approx(1_000.3)
    producers.full_times = 10**9
    with pytest.raises(DeliveryError, match="the queue stayed full for 120 s"):
        sender.send_all([row()])
    assert producers.now_s < 1_130


def test_a_refusal_after_a_full_queue_names_its_record_too(producers: Any) -> None:
    sender = sender_of(producers)
    producers.full_times, producers.refuses = 1, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(DeliveryError, match=r"cannot write the record with key .*kafka\.max\.request\.size"):
        sender.send_all([row()])


def test_a_record_that_is_not_acknowledged_ends_the_task(producers: Any) -> None:
    sender = sender_of(producers, **{"delivery.timeout.ms": "40000"})
    producers.is_silent = True
    sender.send_all([row(), row()])
    with pytest.raises(DeliveryError, match="2 records were not acknowledged within 40 s"):
        sender.finish()
    assert producers.now_s == pytest.approx(1_045.0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            KafkaError.MSG_SIZE_TOO_LARGE,
            "the record with key b'k' for partition 2 of topic t, whose value has 1 bytes: the broker takes no",
        ),
        (KafkaError._MSG_TIMED_OUT, r"was not acknowledged within 120000 ms \(kafka.delivery.timeout.ms\)"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "cannot write the record with key b'k' for partition 2 of topic t: Broker: Topic auth"),
    ],
)
def test_what_a_broker_refuses_names_the_record(producers: Any, code: int, said: str) -> None:
    sender = sender_of(producers)
    producers.fails = KafkaError(code)
    sender.send_all([row(partition=2), row(b"other", partition=1)])
    with pytest.raises(DeliveryError, match=said):
        sender.finish()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            KafkaError.MSG_SIZE_TOO_LARGE,
            "for partition 7 of topic t, whose value has 1 bytes: that is more than kafka.max.request.size, 2000 ",
        ),
        (KafkaError._UNKNOWN_PARTITION, "cannot write a record without a key for partition 7 of topic t: the topic has 3 partitions"),
    ],
)
def test_what_librdkafka_refuses_names_the_record(producers: Any, code: int, said: str) -> None:
    sender = sender_of(producers, **{"max.request.size": "2000"})
    sender.check_topics(["t"])
    producers.refuses = KafkaError(code)
    with pytest.raises(DeliveryError, match=said):
        sender.send_all([row(None, partition=7)])


def test_a_topic_is_looked_up_once_per_task_and_waited_for_briefly(producers: Any) -> None:
    sender = sender_of(producers)
    for _ in range(2):
        sender.begin()
        sender.check_topics(["t"])
        sender.check_topics({"t"})
    assert producers.made[0].asked == ["t", "t"]
    with pytest.raises(DeliveryError, match=r"topic gone does not exist \(waited 10.0 s\): create it first"):
        sender.check_topics(["gone"])
    with pytest.raises(DeliveryError, match=r"topic gone does not exist \(waited 0.5 s\)"):
        sender_of(producers, **{"max.block.ms": "450"}).check_topics(["gone"])


def test_a_topic_that_is_being_created_is_written_to(producers: Any) -> None:
    sender = sender_of(producers)
    producers.topics["new"] = 0

    made = producers.made[0]
    plain = made.poll

    def poll(timeout: float) -> int:
        producers.topics["new"] = 5
        return plain(timeout)

    made.poll = poll
    sender.check_topics(["new"])
    assert made.asked == ["new", "new"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (KafkaError.TOPIC_EXCEPTION, "cannot write to topic 'a b': Broker: Invalid topic"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "cannot write to topic 'a b': Broker: Topic authorization failed"),
        (KafkaError._TRANSPORT, "Topic a b not present in metadata after 60000 ms: no broker of h:1 answers"),
    ],
)
def test_an_invalid_topic_is_an_error_at_once(producers: Any, code: int, said: str) -> None:
    producers.topics["a b"] = KafkaError(code)
    with pytest.raises(DeliveryError, match=said):
        sender_of(producers).check_topics(["a b"])
    assert producers.now_s <= 1_060


def test_idle_senders_are_kept_by_their_settings_for_a_while(producers: Any) -> None:
    others = [parse_producer_settings({"bootstrap.servers": "h:1", "client.id": str(number)}) for number in range(IDLE_MAX)]
    pool = SenderPool(lambda settings: RecordSender(settings, now_s=lambda: producers.now_s), lambda: producers.now_s)
    first = pool.acquire(SETTINGS)
    assert pool.acquire(SETTINGS) is not first, "an acquired sender has one owner"
    pool.release(first)
    other = pool.acquire(others[0])
    assert other is not first
    pool.release(other)
    assert pool.acquire(SETTINGS) is first
    pool.release(first)
    producers.now_s += IDLE_MS_MAX / 1000 + 1
    assert pool.acquire(SETTINGS) is not first

    pool.release(first)
    for each in others:
        pool.release(pool.acquire(each))
    assert pool.acquire(SETTINGS) is not first, "the oldest goes when there are too many"


def test_discarded_records_are_not_sent_later(producers: Any) -> None:
    sender = sender_of(producers)
    sender.send_all([row()])
    sender.discard()
    assert producers.made[0].is_purged


@pytest.mark.parametrize("is_hidden", [False, True])
def test_an_error_that_ends_the_producer_ends_the_task(producers: Any, monkeypatch: pytest.MonkeyPatch, is_hidden: bool) -> None:
    sender = sender_of(producers)
    sender.send_all([row()])

    def flush(seconds: float) -> int:
        fatal = KafkaException(KafkaError(KafkaError._FENCED, "another producer has its id"))
        if not is_hidden:
            raise fatal
        raise SystemError("a callback returned a result with an exception set") from fatal

    monkeypatch.setattr(producers.made[0], "flush", flush)
    with pytest.raises(DeliveryError, match="the producer cannot continue: another producer has its id"):
        sender.finish()


def test_only_connections_that_are_lost_with_records_count(producers: Any) -> None:
    sender = sender_of(producers)
    sender.begin()
    lost = "h:1/1: Disconnected (after 3ms in state UP)"

    def log(facility: str, words: str) -> None:
        producers.made[0].settings["logger"].log(30, "%s [%s] %s", facility, "client", words)

    sender.send_all([row()])
    log("FAIL", lost)
    sender.need_connection()
    log("FAIL", "h:1/1: Connect to h:1 failed: Connection refused (after 3ms in state CONNECT)")
    log("CONFWARN", lost)
    sender.finish()
    log("FAIL", lost)
    sender.finish()
    sender.send_all([row()])
    log("FAIL", lost)
    with pytest.raises(DeliveryError, match="a connection was lost"):
        sender.finish()


def test_the_last_acknowledgements_may_be_slow(producers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = sender_of(producers, **{"delivery.timeout.ms": "40000"})
    left = [*range(5, 0, -1), 0]

    def flush(seconds: float) -> int:
        producers.now_s += 30
        return left.pop(0)

    monkeypatch.setattr(producers.made[0], "flush", flush)
    sender.finish()
    assert left == []


def test_an_error_that_is_lost_on_its_way_ends_the_task(producers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = sender_of(producers)

    def flush(seconds: float) -> int:
        raise SystemError("<built-in method flush> returned NULL without setting an exception")

    monkeypatch.setattr(producers.made[0], "flush", flush)
    with pytest.raises(DeliveryError, match="the producer cannot continue after a fatal error"):
        sender.finish()


def test_other_errors_of_the_system_are_not_taken_for_the_producers(producers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = sender_of(producers)
    sender.send_all([row()])

    def flush(seconds: float) -> int:
        raise SystemError("bad call flags")

    monkeypatch.setattr(producers.made[0], "flush", flush)
    with pytest.raises(SystemError, match="bad call flags"):
        sender.finish()


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(batch: pa.RecordBatch, topic: str | None = "t") -> list[tuple[Any, ...]]:
    return list(produce_arguments(batch, topic))


def test_all_columns_in_any_order():
    columns = {
        "partition": pa.array([1, None], pa.int32()),
        "other": pa.array([1, 2]),
        "headers": pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None], HEADERS),
        "topic": pa.array(["x", "y"]),
        "value": pa.array([b"v", None], pa.binary()),
        "key": pa.array(["ké", None], pa.string()),
    }
    batch = pa.record_batch(columns)
    assert rows(batch, None) == [
        ("x", b"v", "ké".encode(), 1, None, None, 0, [("a", b"1"), ("a", None)]),
        ("y", None, None, -1, None, None, 0, None),
    ]
    assert topics_of(batch, None) == {"x", "y"}
    assert [row[0] for row in rows(batch, "z")] == ["z", "z"]
    assert topics_of(batch, "z") == {"z"}


def test_a_value_alone_is_enough_and_empty_is_not_null():
    batch = pa.record_batch({"value": pa.array(["", "b"], pa.large_string())})
    assert rows(batch) == [("t", b"", None, -1, None, None, 0, None), ("t", b"b", None, -1, None, None, 0, None)]
    assert rows(batch.slice(0, 0)) == []
    assert topics_of(batch.slice(0, 0), "t") == set()


def test_of_two_columns_with_a_name_the_first_counts():
    batch = pa.RecordBatch.from_arrays([pa.array([b"1"]), pa.array([b"2"])], ["value", "value"])
    assert rows(batch)[0][1] == b"1"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"topic": pa.array(["t", None], pa.string())}, "contains a null topic. Use the `topic` option .*It is the record with key b'k2'"),
        (
            {"topic": ["t", "u"], "partition": pa.array([0, -1], pa.int32())},
            "Invalid partition: -1. .* the record with key b'k2' for topic u",
        ),
        (
            {"topic": ["t", "u"], "headers": pa.array([None, [None]], HEADERS)},
            "A header has no key, in the record with key b'k2' for topic u",
        ),
        ({"topic": ["t", "u"], "headers": pa.array([None, [{"key": None, "value": b""}]], HEADERS)}, "A header has no key"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(columns: dict[str, Any], said: str):
    batch = pa.record_batch({"key": pa.array(["k1", "k2"]), "value": pa.array(["a", "b"]), **columns})
    with pytest.raises(RowError, match=said):
        rows(batch, None)


def test_records_as_errors_name_them():
    assert shown("t", -1, None) == "a record without a key for topic t"
    assert shown("t", 3, b"k") == "the record with key b'k' for partition 3 of topic t"
    assert shown("t", None, b"x" * 100) == f"the record with key {b'x' * 32!r}... for topic t"
    assert shown(None, None, None) == "a record without a key"


TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()
NO_TOPIC = "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."


def headers_of(key: str, value: str) -> ArrayType:
    return ArrayType(StructType([StructField(key, TEXT), StructField(value, BYTES)]))


def schema_of(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


@pytest.mark.parametrize(
    ("schema", "topic", "said"),
    [
        (schema_of(value=TEXT), None, NO_TOPIC),
        (schema_of(key=TEXT), "t", "Required attribute 'value' not found"),
        (schema_of(VALUE=TEXT), "t", "Required attribute 'value' not found"),
        (schema_of(value=LONG), "t", "value attribute unsupported type bigint. value must be a(n) string or binary"),
        (schema_of(value=TEXT, key=INT), "t", "key attribute unsupported type int. key must be a(n) string or binary"),
        (schema_of(value=TEXT, topic=INT), None, "topic attribute unsupported type int. topic must be a(n) string"),
        (schema_of(value=TEXT, partition=LONG), "t", "partition attribute unsupported type bigint. partition must be a(n) int"),
        (
            schema_of(value=TEXT, headers=headers_of("k", "v")),
            "t",
            "headers attribute unsupported type array<struct<k:string,v:binary>>. "
            "headers must be a(n) array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_columns_that_cannot_be_written(schema: StructType, topic: str | None, said: str):
    with pytest.raises(OptionError) as error:
        check_columns(schema, topic)
    assert str(error.value) == said


def test_columns_that_can():
    everything = schema_of(value=BYTES, key=TEXT, topic=TEXT, partition=INT, headers=headers_of("Key", "Value"), offset=LONG)
    check_columns(everything, None)
    check_columns(schema_of(value=TEXT, topic=INT), "t")
