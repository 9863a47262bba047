"""The calls of confluent-kafka's own examples, in one program: what each one returns is printed.

Its topic has four partitions with ten records each, whose values are 0 to 39.
"""

import json
from typing import Any

from confluent_kafka import OFFSET_END, OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition


def main(bootstrap_servers: str, topic: str, group: str) -> None:
    commits: list[Any] = []
    statistics: list[Any] = []
    config = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6_000,
        "fetch.wait.max.ms": 50,
    }
    partitions = [TopicPartition(topic, number) for number in range(4)]

    def read(consumer: Any, count: int) -> list[Any]:
        messages: list[Any] = []
        while len(messages) < count:
            messages += [each for each in consumer.consume(num_messages=count - len(messages), timeout=0.2) if not each.error()]
        return messages

    # A member that stores offsets, and callbacks.
    more = {"enable.auto.offset.store": False, "partition.assignment.strategy": "cooperative-sticky", "statistics.interval.ms": 100}
    callbacks = {"on_commit": lambda *given: commits.append(given), "stats_cb": lambda text: statistics.append(json.loads(text))}
    consumer = Consumer({**config, **more, **callbacks})
    steps: list[Any] = []

    def on_assign(consumer: Any, given: list[Any]) -> None:
        steps.append(("assign", len(given)))
        consumer.incremental_assign(given)

    def on_revoke(consumer: Any, given: list[Any]) -> None:
        steps.append(("revoke", len(given)))
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            steps.append(error.args[0].name())

    consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=lambda *_: steps.append("lost"))
    messages = read(consumer, 40)
    print(sorted(int(each.value()) for each in messages), sorted(each.partition for each in consumer.assignment()))
    print({(each.topic() == topic, each.key(), each.headers(), each.error(), each.timestamp()[0]) for each in messages})
    print({type(each.leader_epoch()).__name__ for each in messages}, {each.latency() for each in messages})
    print(sorted((each.partition, each.offset) for each in consumer.position(partitions)))
    for message in messages:
        if message.partition() < 2:
            consumer.store_offsets(message)
    consumer.store_offsets(offsets=[TopicPartition(topic, 2, 5)])
    print(consumer.commit() is None)
    while not commits:
        consumer.poll(0.05)
    print([(error, sorted((each.partition, each.offset, each.error) for each in given if each.offset >= 0)) for error, given in commits])
    print(sorted((each.partition, each.offset) for each in consumer.committed(partitions, timeout=10)))
    (last,) = (each for each in messages if each.partition() == 3 and each.offset() == 9)
    (committed,) = consumer.commit(message=last, asynchronous=False)
    print(committed.error, committed.topic == topic, committed.partition, committed.offset)
    member, metadata = consumer.memberid(), consumer.consumer_group_metadata()
    print(type(member).__name__, len(member or "") > 10, type(metadata).__name__)

    # Pause, seek, resume.
    consumer.pause([partitions[3]])
    consumer.seek(TopicPartition(topic, 3, 4))
    print(consumer.poll(timeout=0.3))
    consumer.resume([partitions[3]])
    print([each.offset() for each in read(consumer, 6)])
    while not (statistics and statistics[-1]["topics"][topic]["partitions"]["3"]["app_offset"] == 10):
        consumer.poll(0.05)
    print(statistics[-1]["cgrp"]["assignment_size"])
    consumer.close()
    print(steps)

    # One partition, to its end.
    consumer = Consumer({**config, "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 7)])
    offsets = []
    while (message := consumer.poll(timeout=10)) is not None and message.error() is None:
        offsets.append(message.offset())
    assert message is not None
    print(offsets, message.error().code() == KafkaError._PARTITION_EOF, message.offset(), len(consumer.assignment()))
    consumer.incremental_assign([TopicPartition(topic, 1, OFFSET_END)])
    message = consumer.poll(timeout=10)
    print(message.partition(), message.offset(), sorted(each.partition for each in consumer.assignment()))
    consumer.incremental_unassign([TopicPartition(topic, 0)])
    print([each.partition for each in consumer.assignment()], consumer.unassign(), consumer.assignment())
    consumer.close()

    # Offsets and lags of a group, by a consumer that never joins it.
    with Consumer(config) as consumer:
        found, earliest = consumer.list_topics(topic, timeout=10), [TopicPartition(topic, number, 0) for number in range(4)]
        print(sorted(found.topics[topic].partitions), found.topics[topic].error, len(found.brokers) > 0, found.cluster_id != "")
        for each in consumer.committed(partitions, timeout=10):
            low, high = consumer.get_watermark_offsets(each, timeout=10, cached=False)
            print(each.partition, each.offset == OFFSET_INVALID, low, high)
        print(sorted((each.partition, each.offset) for each in consumer.offsets_for_times(earliest, timeout=10)))
        print(consumer.assignment(), consumer.memberid())
