"""What a topic and its groups hold, read with confluent-kafka: committed records only, each partition from its beginning to its end.

It shares no code with what `ottla migrate` reads and writes with.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.testing.migration_trials.records import Record

READ_S_MAX: Final = 120
"""The longest time without a record."""
AT_ONCE: Final = 10_000
QUIET: Final = {"log_level": 0}


def partitions_of(client: Any, topic: str) -> list[int]:
    """The numbers of a topic's partitions, by a client of confluent-kafka; empty when there is no such topic."""
    # All topics: to ask for one by its name makes it.
    found = client.list_topics(timeout=30).topics.get(topic)
    return sorted(found.partitions) if found is not None and not found.error else []


class Ends:
    """The ends of topics, asked for again and again over one connection."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin: Any = AdminClient({"bootstrap.servers": servers, **QUIET})

    def of(self, topic: str) -> dict[int, int]:
        """The end of each partition; empty when there is no such topic yet."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition, admin

        latest: Any = vars(admin)["OffsetSpec"].latest()  # not exported, say its types
        wanted = {TopicPartition(topic, partition): latest for partition in partitions_of(self._admin, topic)}
        if not wanted:
            return {}
        try:
            found = retried(lambda: [(place, asked.result(30)) for place, asked in self._admin.list_offsets(wanted).items()])
            return {place.partition: each.offset for place, each in found}
        except KafkaException as error:
            # A topic that is being made is not everywhere at once.
            coming = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)
            if error.args[0].code() not in coming:
                raise
            return {}


def read_topic(servers: str, topic: str) -> Iterator[Record]:
    """Every committed record up to the end of each partition, in the order of the offsets. Raises AssertionError when no end comes."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"enable.partition.eof": True, "enable.auto.commit": False, "isolation.level": "read_committed", "check.crcs": True}
    # A consumer whose queue is full waits for a second before it fetches again, and for records at the end of the log.
    quick = {"fetch.wait.max.ms": 10, "queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 500_000}
    consumer: Any = Consumer({"bootstrap.servers": servers, "group.id": "trial-reader", **QUIET, **settings, **quick})
    partitions = partitions_of(consumer, topic)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    remaining = set(partitions)
    deadline = time.monotonic() + READ_S_MAX
    while remaining:
        messages = consumer.consume(AT_ONCE, 0.02)
        if messages:
            deadline = time.monotonic() + READ_S_MAX
        assert time.monotonic() < deadline, f"no record of {topic} for {READ_S_MAX} s, and no end in partitions {sorted(remaining)}"
        for message in messages:
            error = message.error()
            if error is None:
                yield _record(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, f"{topic} cannot be read: {error}"
                remaining.discard(message.partition())
    consumer.close()


def has_members(servers: str, groups: Sequence[str]) -> bool:
    """Whether one of the groups has a member."""
    from confluent_kafka.admin import AdminClient

    client: Any = AdminClient({"bootstrap.servers": servers, **QUIET})
    return any(described.result(30).members for described in client.describe_consumer_groups(list(groups)).values())


def committed(servers: str, group: str, topic: str) -> dict[int, int]:
    """The group's committed offsets by partition; a partition without one is not in it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET})
    places = [TopicPartition(topic, partition) for partition in partitions_of(consumer, topic)]
    found = retried(lambda: consumer.committed(places, timeout=30)) if places else []
    consumer.close()
    return {place.partition: place.offset for place in found if place.offset >= 0}


def commit(servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit for a group that has no members."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False, **QUIET})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    results = retried(lambda: consumer.commit(offsets=places, asynchronous=False))
    assert all(result.error is None for result in results), results
    consumer.close()


def retried(call: Callable[[], Any]) -> Any:
    """What the call returns; repeated for some seconds, since a broker that has just started may not have all its state yet."""
    from confluent_kafka import KafkaError, KafkaException

    coordinator = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    # Of its partitions it may know an earlier epoch than a client that saw it before.
    coming = (*coordinator, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE)
    deadline = time.monotonic() + 30
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in coming or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _record(message: Any) -> Record:
    headers = message.headers()
    return Record(
        message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1], tuple(headers) if headers else ()
    )
