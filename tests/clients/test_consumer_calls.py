"""Single calls of `ottla.Consumer` and of `confluent_kafka.Consumer`, one after another on the same broker: equal results and errors.

Texts of errors may differ; types, codes and flags may not.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import confluent_kafka

import ottla
from ottla.client.admin.client import AdminClient

SECONDS_MAX = 60


def shown(value: Any) -> Any:
    """A value of either library, comparable."""
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if kind == "TopicPartition":
        return value.topic, value.partition, value.offset, value.metadata, value.leader_epoch, shown(value.error)
    if kind == "KafkaError":
        return value.code(), value.name(), value.fatal(), value.retriable(), value.txn_requires_abort()
    if kind == "Message":
        return value.topic(), value.partition(), value.offset(), value.key(), value.value(), value.headers(), value.timestamp(), len(value)
    return value


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or what it raises."""
    try:
        return shown(call())
    except (ottla.KafkaException, confluent_kafka.KafkaException) as error:
        return "KafkaException", shown(error.args[0])
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error).__name__


def compare(calls: Callable[[Any], dict[str, Any]]) -> None:
    """The results of ottla are those of confluent-kafka."""
    theirs, ours = calls(confluent_kafka), calls(ottla)
    assert [(name, ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]] == []


@contextmanager
def consumer_of(module: Any, broker: Any, group: str, **config: Any) -> Iterator[Any]:
    base = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = module.Consumer(base | {name.replace("_", "."): value for name, value in config.items()})
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Any, count: int) -> list[Any]:
    ends, found = time.monotonic() + SECONDS_MAX, []
    while len(found) < count and time.monotonic() < ends:
        found += [each for each in consumer.consume(count - len(found), 0.2) if each.error() is None]
    return found


def read_to_end(consumer: Any, end: int) -> tuple[list[Any], Any]:
    """The records up to an offset, and the event of the partition's end there."""
    ends, records = time.monotonic() + SECONDS_MAX, []
    while time.monotonic() < ends:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            records.append(message)
        elif message is not None and message.offset() == end:
            return records, message
    raise AssertionError(f"no end after {len(records)} records")


def test_what_needs_no_record(kafka_broker: Any, unique_name: Callable[[str], str], library_on: Callable[..., Any]) -> None:
    topic = unique_name("calls")
    library_on(kafka_broker).create_topic(topic, 2)
    compare(lambda module: {**made(module, kafka_broker), **called(module, kafka_broker, topic, unique_name("group"))})


def made(module: Any, broker: Any) -> dict[str, Any]:
    """Consumers and values that cannot be made."""
    config = {"bootstrap.servers": broker.bootstrap_servers}
    group = config | {"group.id": "g"}
    return {
        "no configuration": outcome(lambda: module.Consumer()),
        "a text": outcome(lambda: module.Consumer("abc")),
        "no group": outcome(lambda: module.Consumer(config)),
        "an unknown property": outcome(lambda: module.Consumer(group | {"nonsense": 1})),
        "a wrong value": outcome(lambda: module.Consumer(group | {"session.timeout.ms": "abc"})),
        "a wrong reset": outcome(lambda: module.Consumer(group | {"auto.offset.reset": "abc"})),
        "a callback that is none": outcome(lambda: module.Consumer(group | {"on_commit": 3})),
        "an error": outcome(lambda: module.KafkaError(3, "why", True)),
        "a code": outcome(lambda: module.KafkaError(16)),
        "a wrong partition": outcome(lambda: module.TopicPartition("a", "b")),
    }


def called(module: Any, broker: Any, topic: str, group: str) -> dict[str, Any]:
    """Calls in this order, without a record."""
    where = partial(module.TopicPartition, topic)
    with consumer_of(module, broker, group, enable_auto_offset_store=False, enable_auto_commit=False) as consumer:
        calls: dict[str, Callable[[], Any]] = {
            "poll": lambda: consumer.poll(0),
            "consume too few": lambda: consumer.consume(-1, 0),
            "consume too many": lambda: consumer.consume(1_000_001, 0),
            "commit nothing": lambda: consumer.commit(asynchronous=False),
            "commit nothing later": lambda: consumer.commit(),
            "commit without offset": lambda: consumer.commit(offsets=[where(0)], asynchronous=False),
            "commit both": lambda: consumer.commit(message=1, offsets=[]),
            "commit a text": lambda: consumer.commit(offsets=["a"], asynchronous=False),
            "subscribe to a text": lambda: consumer.subscribe(topic),
            "subscribe to nothing": lambda: consumer.subscribe([]),
            "subscribe with a wrong listener": lambda: consumer.subscribe([topic], on_assign=3),
            "subscribe to a wrong pattern": lambda: consumer.subscribe(["^("]),
            "seek": lambda: consumer.seek(where(0, 5)),
            "pause": lambda: consumer.pause([where(0)]),
            "resume": lambda: consumer.resume([where(0)]),
            "position": lambda: consumer.position([where(0)]),
            "store": lambda: consumer.store_offsets(offsets=[where(0, 3)]),
            "store nothing": lambda: consumer.store_offsets(),
            "assign a text": lambda: consumer.assign([topic]),
            "assign": lambda: consumer.assign([where(0)]),
            "assign again": lambda: consumer.incremental_assign([where(0)]),
            "assign more": lambda: consumer.incremental_assign([where(1)]),
            "take away": lambda: consumer.incremental_unassign([where(1)]),
            "take away again": lambda: consumer.incremental_unassign([where(1)]),
            "assignment": lambda: consumer.assignment(),
            "assign from somewhere": lambda: consumer.assign([where(0, 7), where(1, module.OFFSET_BEGINNING)]),
            "assignment with offsets": lambda: sorted(consumer.assignment()),
            "seek what is not assigned, of a topic that nothing knows": lambda: consumer.seek(module.TopicPartition("nothing", 0, 5)),
            "credentials": lambda: consumer.set_sasl_credentials("user", "password"),
            "credentials that are none": lambda: consumer.set_sasl_credentials("user", None),
            "unassign": lambda: consumer.unassign(),
            "unsubscribe": lambda: consumer.unsubscribe(),
            "close": lambda: consumer.close(),
            "close again": lambda: consumer.close(),
            "poll when closed": lambda: consumer.poll(0),
            "list topics when closed": lambda: consumer.list_topics(),
            "commit when closed": lambda: consumer.commit(),
            "credentials when closed": lambda: consumer.set_sasl_credentials("user", "password"),
        }
        return {name: outcome(call) for name, call in calls.items()}


def test_records_offsets_and_lookups(kafka_broker: Any, unique_name: Callable[[str], str], library_on: Callable[..., Any]) -> None:
    topic = unique_name("calls")
    library_on(kafka_broker).create_topic(topic, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(10):
        headers: Any = [("h", b"x"), ("n", None)] if number % 3 else None
        producer.produce(topic, b"v%d" % number, b"k" if number % 2 else None, 0, headers=headers, on_delivery=delivered)
    assert producer.flush(SECONDS_MAX) == 0
    compare(lambda module: looked_up(module, kafka_broker, topic, unique_name("group")))


def delivered(error: Any, _: Any) -> None:
    assert error is None, error


def looked_up(module: Any, broker: Any, topic: str, group: str) -> dict[str, Any]:
    """Calls with records, in this order."""
    where = partial(module.TopicPartition, topic)
    nowhere = module.TopicPartition("no-such-topic", 0, 4)
    with AdminClient(broker.bootstrap_servers) as admin:
        # librdkafka gives a partition up when its first OffsetFetch finds a coordinator that is still loading.
        assert admin.committed([group]) == {group: {}}
    config = {"enable_auto_offset_store": False, "enable_auto_commit": False, "enable_partition_eof": True}
    with consumer_of(module, broker, group, **config) as consumer:
        consumer.assign([where(0)])
        messages, end = read_to_end(consumer, 10)
        calls: dict[str, Callable[[], Any]] = {
            "records": lambda: messages,
            "the end": lambda: (end.topic(), end.partition(), end.offset(), end.key(), end.headers(), end.error()),
            "position": lambda: consumer.position([where(0), where(1)]),
            "store": lambda: consumer.store_offsets(message=messages[3]),
            "commit what is stored": lambda: consumer.commit(asynchronous=False),
            "committed": lambda: consumer.committed([where(0), where(1), where(9), nowhere], timeout=SECONDS_MAX),
            "commit a message": lambda: consumer.commit(message=messages[5], asynchronous=False),
            "commit an offset": lambda: consumer.commit(offsets=[where(0, 4, "text")], asynchronous=False),
            "committed again": lambda: consumer.committed([where(0)], timeout=SECONDS_MAX),
            "watermarks": lambda: consumer.get_watermark_offsets(where(0), timeout=SECONDS_MAX),
            "cached watermarks": lambda: consumer.get_watermark_offsets(where(0), cached=True),
            "watermarks of a topic that does not exist": lambda: consumer.get_watermark_offsets(nowhere, timeout=SECONDS_MAX),
            "watermarks of a partition that does not exist": lambda: consumer.get_watermark_offsets(where(7), timeout=SECONDS_MAX),
            "offsets for times": lambda: consumer.offsets_for_times([where(0, 0), where(1, 2**60)], timeout=SECONDS_MAX),
            "times of a topic that does not exist": lambda: consumer.offsets_for_times([nowhere], timeout=SECONDS_MAX),
            "topics": lambda: listed(consumer.list_topics(topic, timeout=SECONDS_MAX)),
            "every topic": lambda: topic in consumer.list_topics(timeout=SECONDS_MAX).topics,
            "a topic that does not exist": lambda: listed(consumer.list_topics("no-such-topic", timeout=SECONDS_MAX)),
            "cluster": lambda: consumer.cluster_id() == consumer.list_topics(timeout=SECONDS_MAX).cluster_id,
            "seek": lambda: consumer.seek(where(0, 8)),
            "behind it": lambda: read(consumer, 2),
            "seek behind the end": lambda: consumer.seek(where(0, 1_000)),
            "reset": lambda: read(consumer, 1),
            "assignment": lambda: consumer.assignment(),
            "seek what is not assigned": lambda: consumer.seek(where(1, 3)),
            "seek what does not exist": lambda: consumer.seek(where(5, 3)),
            "assign more": lambda: consumer.incremental_assign([where(1, 4)]),
            "assignment with more": lambda: sorted(consumer.assignment()),
            "unassign": lambda: consumer.unassign(),
            "seek what was assigned": lambda: consumer.seek(where(0, 3)),
        }
        return {name: outcome(call) for name, call in calls.items()}


def test_a_topic_that_does_not_exist_is_an_error_once(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    missing = unique_name("missing")

    def subscribed(module: Any) -> dict[str, Any]:
        with consumer_of(module, kafka_broker, unique_name("group")) as consumer:
            consumer.subscribe([missing])
            message = consumer.poll(SECONDS_MAX)
            return {"error": outcome(message.error), "topic": message.topic(), "text": message.error().str()}

    compare(subscribed)


def test_a_topic_that_may_be_created(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    """By the broker, and of a subscription: librdkafka's requests for those allow it not even with this property."""
    missing = unique_name("missing")
    with consumer_of(ottla, kafka_broker, unique_name("group"), allow_auto_create_topics=True) as consumer:
        consumer.subscribe([missing])
        ends = time.monotonic() + SECONDS_MAX
        while not consumer.assignment() and time.monotonic() < ends:
            consumer.poll(0.1)
        assert [(each.topic, each.partition) for each in consumer.assignment()] == [(missing, 0)]


def listed(cluster: Any) -> list[Any]:
    """All attributes of a listing."""
    brokers = [(each.id, each.host, each.port) for each in cluster.brokers.values()]
    topics = [(each.topic, each.error) for each in cluster.topics.values()]
    partitions = [part for topic in cluster.topics.values() for part in topic.partitions.values()]
    each_partition = [(part.id, part.leader, part.replicas, part.isrs, part.error) for part in partitions]
    return [cluster.cluster_id, cluster.controller_id, brokers, topics, each_partition]
