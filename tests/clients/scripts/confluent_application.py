"""A program for confluent-kafka: it joins a group, lets a second member join, commits, resumes, subscribes to a pattern, seeks, pauses.

Its topic has four partitions with ten records each, whose values are 0 to 39. What it prints does not depend on who gets which partition.
"""

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition


def main(bootstrap_servers: str, topic: str, group: str) -> None:
    def consumer(**more: Any) -> Any:
        return Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 100,
                "fetch.wait.max.ms": 50,
                **{name.replace("_", "."): value for name, value in more.items()},
            }
        )

    def report(name: str, what: str) -> Any:
        return lambda consumer, partitions: print(name, what, len(partitions))

    def read(member: Any, count: int) -> list[Any]:
        messages: list[Any] = []
        while len(messages) < count:
            messages += member.consume(count - len(messages), 1.0)
        assert not any(message.error() for message in messages)
        return messages

    partitions = [TopicPartition(topic, number) for number in range(4)]
    first = consumer()
    first.subscribe([topic], on_assign=report("first", "gets"), on_revoke=report("first", "gives up"))
    print(sorted(int(message.value()) for message in read(first, 40)))
    print(sorted(each.partition for each in first.assignment()), [each.offset for each in first.position(partitions)])
    first.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 5)], asynchronous=False)
    print([each.offset for each in first.committed(partitions, timeout=60)])

    second = consumer()
    second.subscribe([topic])
    while not (len(first.assignment()) == len(second.assignment()) == 2):
        for member in (first, second):
            message = member.poll(0.02)
            if message is not None and message.error() is None:
                member.seek(TopicPartition(topic, message.partition(), message.offset()))
    print({(each.topic, each.partition) for each in first.assignment() + second.assignment()} == {(topic, number) for number in range(4)})
    records: dict[int, list[int]] = {number: [] for number in range(4)}
    for member in (first, second):
        committed = member.committed(member.assignment(), timeout=60)
        for message in read(member, sum(10 - max(each.offset, 0) for each in committed)):
            records[message.partition()].append(message.offset())
    print(records)
    for member in (second, first):
        results = member.commit(asynchronous=False)
        print(len(results), {each.error for each in results})
    second.close()
    while len(first.assignment()) != 4:
        assert first.poll(0.02) is None
    print([each.offset for each in first.committed(partitions, timeout=60)])

    first.seek(TopicPartition(topic, 2, 7))
    print([message.offset() for message in read(first, 3)])
    first.pause([partitions[3]])
    first.seek(TopicPartition(topic, 3, OFFSET_BEGINNING))
    print(first.poll(0.2))
    first.resume([partitions[3]])
    (message,) = read(first, 1)
    print(message.topic() == topic, message.partition(), message.offset(), message.key(), int(message.value()), message.headers())
    print(first.get_watermark_offsets(partitions[3], timeout=10), len(first.list_topics(topic, timeout=60).topics[topic].partitions))
    print([each.offset for each in first.offsets_for_times([TopicPartition(topic, 0, 0)], timeout=60)])
    for mistake in (
        lambda: first.seek(TopicPartition("other", 0, 1)),
        lambda: first.commit(offsets=[], asynchronous=False),
        lambda: Consumer({"group.id": "g", "no.such.property": 1}),
    ):
        try:
            mistake()
        except KafkaException as error:
            print(
                error.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._STATE, KafkaError._NO_OFFSET, KafkaError._INVALID_ARG)
            )
    first.unsubscribe()
    while first.assignment():
        first.poll(0.02)
    first.close()
    try:
        first.poll(0)
    except RuntimeError as error:
        print(error)

    third = consumer(enable_auto_commit=True)
    third.subscribe([f"^{topic[:-1]}.$"], on_assign=lambda member, given: member.assign([TopicPartition(topic, 0, 0)]))
    print([message.offset() for message in read(third, 10)])
    third.close()
    fourth = consumer()
    fourth.assign([TopicPartition(topic, 0, 8)])
    print([message.offset() for message in read(fourth, 2)], [each.offset for each in fourth.committed(partitions, timeout=60)])
    fourth.close()
