"""`ottla.Consumer` on real brokers: what programs for confluent_kafka.Consumer do, and groups with its members."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla import KafkaError, KafkaException, TopicPartition
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until

Make = Callable[..., ottla.Consumer]
SESSION = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200}


@pytest.fixture
def make(kafka_broker: Any, unique_name: Callable[[str], str]) -> Iterator[Make]:
    """A consumer of the broker, closed at the end; without `group` each test has one of its own."""
    made: list[ottla.Consumer] = []
    group = unique_name("group")

    def consumer(**properties: Any) -> ottla.Consumer:
        config = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest", **SESSION}
        given = {name if name == "on_commit" else name.replace("_", "."): value for name, value in properties.items()}
        made.append(ottla.Consumer(config | given))
        return made[-1]

    yield consumer
    for each in made:
        each.close()


def read(consumer: ottla.Consumer, count: int, seconds: float = 20) -> list[ottla.Message]:
    """So many messages without errors."""
    messages: list[ottla.Message] = []
    ends = time.monotonic() + seconds
    while len(messages) < count and time.monotonic() < ends:
        messages += consumer.consume(count - len(messages), 0.2)
    assert [message.error() for message in messages] == [None] * count
    return messages


def values(messages: list[ottla.Message]) -> list[int]:
    return [int(message.value() or b"") for message in messages]


def poll_until(condition: Callable[[], bool], *consumers: Any, seconds: float = 30) -> None:
    """Poll the consumers until the condition holds."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        for consumer in consumers:
            consumer.poll(0.05)


def owned(consumer: Any) -> set[int]:
    return {each.partition for each in consumer.assignment()}


def test_a_group_of_one_reads_commits_and_continues(make: Make, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2, 100)
    first = make(enable_auto_commit=False)
    first.subscribe([topic])
    messages = read(first, 60)
    by_partition = {number: [int(each.value() or b"") for each in messages if each.partition() == number] for number in (0, 1)}
    assert all(found == sorted(found) for found in by_partition.values())
    assert sorted(values(messages)) == sorted(set(values(messages)))
    committed = first.commit(asynchronous=False)
    assert committed is not None
    assert {each.error for each in committed} == {None}
    first.close()
    second = make()
    second.subscribe([topic])
    assert sorted(values(messages) + values(read(second, 40))) == list(range(100))
    assert second.poll(0.1) is None


def test_what_a_message_says(make: Make, kafka_broker: Any, new_topic: Callable[..., str]) -> None:
    from confluent_kafka import Producer

    topic = new_topic()
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0, "enable.idempotence": True})
    producer.produce(topic, b"value", b"key", headers=[("h", b"1"), ("n", None)], timestamp=1_700_000_000_000)
    producer.produce(topic, None, None)
    producer.flush(60)
    consumer = make()
    consumer.subscribe([topic])
    first, second = read(consumer, 2)
    assert (first.topic(), first.partition(), first.offset()) == (topic, 0, 0)
    assert (first.key(), first.value(), first.headers()) == (b"key", b"value", [("h", b"1"), ("n", None)])
    assert first.timestamp() == (ottla.TIMESTAMP_CREATE_TIME, 1_700_000_000_000)
    assert (len(first), first.error(), first.latency()) == (5, None, None)
    assert first.leader_epoch() is not None
    assert (second.key(), second.value(), second.headers(), len(second)) == (None, None, None, 0)


def test_partitions_move_to_a_second_member_and_back(make: Make, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    calls: list[tuple[str, list[int]]] = []

    def note(kind: str) -> Callable[[Any, list[TopicPartition]], None]:
        return lambda consumer, partitions: calls.append((kind, sorted(each.partition for each in partitions)))

    first, second = make(), make()
    first.subscribe([topic], on_assign=note("assigned"), on_revoke=note("revoked"))
    poll_until(lambda: len(owned(first)) == 4, first)
    second.subscribe([topic])
    poll_until(lambda: len(owned(first)) == len(owned(second)) == 2, first, second)
    assert owned(first) | owned(second) == {0, 1, 2, 3}
    second.close()
    poll_until(lambda: len(owned(first)) == 4, first)
    kinds = [kind for kind, _ in calls]
    assert kinds == ["assigned", "revoked", "assigned", "revoked", "assigned"]
    assert calls[0] == ("assigned", [0, 1, 2, 3])


def test_a_cooperative_group_keeps_what_does_not_move(make: Make, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    calls: list[tuple[str, int]] = []
    first = make(partition_assignment_strategy="cooperative-sticky")
    second = make(partition_assignment_strategy="cooperative-sticky")
    first.subscribe(
        [topic],
        on_assign=lambda _, partitions: calls.append(("assigned", len(partitions))),
        on_revoke=lambda _, partitions: calls.append(("revoked", len(partitions))),
    )
    poll_until(lambda: len(owned(first)) == 4, first)
    second.subscribe([topic])
    poll_until(lambda: len(owned(first)) == len(owned(second)) == 2, first, second)
    assert [call for call in calls if call[1]] == [("assigned", 4), ("revoked", 2)]


def test_an_eager_sticky_group_moves_as_little_as_it_can(make: Make, new_topic: Callable[..., str]) -> None:
    topic = new_topic(6)
    members = [make(partition_assignment_strategy="sticky") for _ in range(3)]
    for count, member in enumerate(members, 1):
        member.subscribe([topic])
        poll_until(
            lambda count=count: sum(len(owned(each)) for each in members[:count]) == 6 and owned(members[count - 1]), *members[:count]
        )  # type: ignore[misc]
    before = [owned(member) for member in members]
    assert [len(each) for each in before] == [2, 2, 2]
    members[0].close()
    poll_until(lambda: len(owned(members[1]) | owned(members[2])) == 6, *members[1:])
    assert all(owned(member) > had for member, had in zip(members[1:], before[1:], strict=True))


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_one_group_with_confluent_kafka(
    make: Make, kafka_broker: Any, new_topic: Callable[..., str], unique_name: Any, assignor: str
) -> None:
    from confluent_kafka import Consumer

    topic, group = new_topic(4, 40), unique_name("mixed")
    ours = make(group_id=group, partition_assignment_strategy=assignor)
    config = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    theirs = Consumer(config | SESSION | {"partition.assignment.strategy": assignor})
    try:
        ours.subscribe([topic])
        theirs.subscribe([topic])
        poll_until(lambda: len(owned(ours)) == len(owned(theirs)) == 2, ours, theirs)
        assert owned(ours) | owned(theirs) == {0, 1, 2, 3}
    finally:
        theirs.close()
    poll_until(lambda: len(owned(ours)) == 4, ours)


def test_seek_pause_and_resume(make: Make, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, 20)
    consumer = make()
    consumer.subscribe([topic])
    read(consumer, 10)
    where = TopicPartition(topic, 0)
    assert consumer.position([where])[0].offset == 10
    consumer.seek(TopicPartition(topic, 0, 3))
    assert values(read(consumer, 2)) == [3, 4]
    consumer.pause([where])
    assert consumer.poll(0.3) is None
    consumer.resume([where])
    assert values(read(consumer, 2)) == [5, 6]
    consumer.seek(TopicPartition(topic, 0, ottla.OFFSET_BEGINNING))
    assert values(read(consumer, 1)) == [0]
    with pytest.raises(KafkaException) as refused:
        consumer.seek(TopicPartition(topic, 7, 0))
    assert refused.value.args[0].code() == KafkaError._STATE


def test_partitions_assigned_by_hand(make: Make, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2, 20)
    consumer = make(enable_partition_eof=True)
    consumer.assign([TopicPartition(topic, 1, 8)])
    assert values(read(consumer, 2)) == [17, 19]
    end = consumer.poll(10)
    assert end is not None
    assert end.error() == KafkaError._PARTITION_EOF
    assert (end.topic(), end.partition(), end.offset()) == (topic, 1, 10)
    consumer.commit(asynchronous=False)
    assert [each.offset for each in consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])] == [ottla.OFFSET_INVALID, 10]
    assert consumer.get_watermark_offsets(TopicPartition(topic, 1)) == (0, 10)
    consumer.unassign()
    assert consumer.assignment() == []


def test_confluent_kafkas_own_objects_are_taken(make: Make, new_topic: Callable[..., str]) -> None:
    import confluent_kafka

    topic = new_topic(1, 5)
    consumer = make()
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    assert values(read(consumer, 5)) == [0, 1, 2, 3, 4]
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 2)], asynchronous=False)
    assert consumer.committed([confluent_kafka.TopicPartition(topic, 0)])[0].offset == 2


def test_a_pattern_finds_a_topic_that_is_made_later(make: Make, new_topic: Callable[..., str]) -> None:
    first = new_topic(1, 1)
    consumer = make(metadata_max_age_ms=200)
    consumer.subscribe([f"^{first.rsplit('-', 1)[0]}.*"])
    assert len(read(consumer, 1)) == 1
    second = new_topic(1, 1)
    assert [message.topic() for message in read(consumer, 1)] == [second]


def test_offsets_are_committed_automatically_and_on_close(make: Make, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, 10)
    results: list[Any] = []
    consumer = make(auto_commit_interval_ms=100, on_commit=lambda error, partitions: results.append((error, partitions[0].offset)))
    consumer.subscribe([topic])
    read(consumer, 4)
    where = TopicPartition(topic, 0)
    poll_until(lambda: consumer.position([where])[0].offset == 10, consumer)
    consumer.close()
    other = make()
    assert other.committed([where])[0].offset == 10
    assert results[-1] == (None, 10)
    assert {error for error, _ in results} == {None}


def test_an_application_that_works_for_longer_than_its_session(
    make: Make, new_topic: Callable[..., str], unique_name: Any, kafka_broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(1, 3)
    lost: list[int] = []
    late = make(group_id=unique_name("late"), max_poll_interval_ms=6_000, enable_auto_commit=False)
    busy = make(group_id=unique_name("busy"), enable_auto_commit=False)
    late.subscribe([topic], on_lost=lambda _, partitions: lost.extend(each.partition for each in partitions))
    busy.subscribe([topic])
    (message,) = read(late, 1)
    read(busy, 1)
    member = busy.consumer_group_metadata()
    wait_until(lambda: "It leaves the group" in caplog.text, "the member that polls too late to leave")
    # Heartbeats kept the one in its group; the other has left, since it polls too late.
    busy.commit(asynchronous=False)
    assert busy.consumer_group_metadata() == member
    with pytest.raises(KafkaException) as refused:
        late.commit(message, asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    errors: list[Any] = []
    poll_until(lambda: bool(errors), Errors(late, errors))
    assert errors == [KafkaError._MAX_POLL_EXCEEDED]
    assert lost == [0]
    assert values(read(late, 3)) == [0, 1, 2]
    said = [record.getMessage() for record in caplog.records if record.name == "ottla.consumer"]
    leaving, joining = (line for line in said if "sent no heartbeat" not in line)  # for a moment, on a busy machine
    assert re.search(
        r"consumer poll timeout has expired\. It leaves the group: no poll for 6\d{3} ms, max.poll.interval.ms is 6000; ", leaving
    )
    assert "; slow processing: 1 record needs at least 6" in leaving
    assert re.search(r"joins again: the next poll came after \d{4,} ms, .*; slow processing: 1 record took", joining)
    found = late.metrics()
    assert (found["rebalance-total"], found["records-consumed-total"], found["assigned-partitions"]) == (2, 4, 1)
    assert found["time-between-poll-max"] >= 6_000
    assert busy.metrics()["heartbeat-total"] >= 10
    assert busy.metrics()["heartbeat-response-time-max"] > 0
    if kafka_broker.kind == "apache-kafka":
        said = kafka_broker.log_path.read_text(errors="replace")
        left = r"client reason: consumer poll timeout has expired. \[slow processing: no poll for 6\d{3} ms, 1 record at 6\d{3} ms\]"
        assert re.search(left, said)
        assert re.search(r"client reason: need to re-join with the given member-id: \S+ \[slow processing: no poll for", said)


class Errors:
    """A consumer whose messages are dropped, and whose errors are kept."""

    def __init__(self, consumer: ottla.Consumer, errors: list[Any]) -> None:
        self._consumer, self._errors = consumer, errors

    def poll(self, timeout: float) -> None:
        message = self._consumer.poll(timeout)
        if message is not None and message.error() is not None:
            self._errors.append(message.error())


def test_store_offsets(make: Make, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, 5)
    consumer = make(enable_auto_offset_store=False, enable_auto_commit=False)
    consumer.subscribe([topic])
    messages = read(consumer, 5)
    with pytest.raises(KafkaException) as refused:
        consumer.commit(asynchronous=False)
    assert refused.value.args[0].code() == KafkaError._NO_OFFSET
    consumer.store_offsets(messages[2])
    consumer.commit(asynchronous=False)
    assert consumer.committed([TopicPartition(topic, 0)])[0].offset == 3


def test_a_session_that_the_broker_refuses(make: Make, new_topic: Callable[..., str]) -> None:
    consumer = make(session_timeout_ms=100, heartbeat_interval_ms=30, max_poll_interval_ms=1_000)
    consumer.subscribe([new_topic()])
    with pytest.raises(KafkaException) as refused:
        poll_until(lambda: False, consumer)
    error = refused.value.args[0]
    assert error.code() == KafkaError.INVALID_SESSION_TIMEOUT
    assert "session.timeout.ms=100 is refused: it must be between the broker's group.min.session.timeout.ms" in error.str()


def test_a_closed_consumer_says_so(make: Make) -> None:
    consumer = make()
    consumer.close()
    consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)


def test_no_thread_is_left_behind(make: Make, new_topic: Callable[..., str]) -> None:
    before = consumer_threads()
    with make() as consumer:
        consumer.subscribe([new_topic(1, 1)])
        read(consumer, 1)
        assert consumer_threads() > before
    assert consumer_threads() == before


def consumer_threads() -> set[threading.Thread]:
    """The threads of consumers; the broker of the test runs in this process too and starts its own when it needs them."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("ottla-consumer")}


def test_the_generation_of_a_member(make: Make, new_topic: Callable[..., str], kafka_broker: Any, unique_name: Any) -> None:
    from ottla.client.admin.client import AdminClient

    lost: list[int] = []
    group = unique_name("removed")
    consumer = make(group_id=group)
    assert consumer.generation_id() == -1
    consumer.subscribe([new_topic(1, 3)], on_lost=lambda _, partitions: lost.extend(each.partition for each in partitions))
    read(consumer, 3)
    assert consumer.generation_id() == 1
    with AdminClient(kafka_broker.bootstrap_servers) as admin:
        assert admin.remove_member(group, consumer.memberid() or "", "removed by a test") is None
    poll_until(lambda: lost == [0] and bool(consumer.assignment()), consumer)
    assert consumer.generation_id() > 1


def test_a_commit_with_a_timeout() -> None:
    from ottla.broker import Broker

    broker = Broker()
    broker.start()
    create_topic(broker.bootstrap_servers, "t", 1)
    consumer = ottla.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    offsets = [TopicPartition("t", 0, 3)]
    assert consumer.commit(offsets=offsets, asynchronous=False, timeout=20) is not None
    broker.stop()
    began = time.monotonic()
    with pytest.raises(KafkaException):
        consumer.commit(offsets=offsets, asynchronous=False, timeout=0.2)
    assert time.monotonic() - began < 20  # default.api.timeout.ms is 60 s
    consumer.close()
