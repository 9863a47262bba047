"""The real client libraries behind one small face, so that one script runs with each of them.

A library gives `create_topic`, `produce` and `member` (a topic that begins with "^" is a pattern); a member gives `poll` (at most
POLL_SECONDS), `assignment`, `commit`, `committed` and `close`. The faces add nothing: no retries, no waiting, no rules.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember

POLL_SECONDS = 0.05


class Timing(NamedTuple):
    """A member's times; 6 s is the shortest session that Kafka allows by default."""

    session_ms: int = 6_000
    heartbeat_ms: int = 200
    metadata_age_ms: int = 300_000


class ConfluentLibrary:
    """confluent-kafka: librdkafka, in C."""

    assignors = ("range", "roundrobin", "cooperative-sticky")

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.bootstrap_servers = bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def create_topic(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewTopic

        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)

    def produce(self, topic: str, records: Sequence[tuple[int, bytes]]) -> None:
        from confluent_kafka import Producer

        failures: list[Any] = []
        settings = {"bootstrap.servers": self.bootstrap_servers, "log_level": 0, "linger.ms": 5}
        # Apache Kafka refuses the first batches for a topic that it has just made: only an idempotent producer sends them again in order.
        producer = Producer(settings | {"enable.idempotence": True})
        for partition, value in records:
            producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error) if error else None)
        assert producer.flush(60) == 0
        assert not failures

    def member(self, group: str, topic: str, assignor: str, **timing: int) -> "ConfluentMember":
        return ConfluentMember(self.bootstrap_servers, group, topic, assignor, Timing(**timing))

    def close(self) -> None:
        pass


def confluent_settings(bootstrap_servers: str, group: str, assignor: str, timing: Timing) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "partition.assignment.strategy": assignor,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": timing.session_ms,
        "heartbeat.interval.ms": timing.heartbeat_ms,
        "fetch.wait.max.ms": 100,
        "topic.metadata.refresh.interval.ms": timing.metadata_age_ms,
    }


class ConfluentMember:
    def __init__(self, bootstrap_servers: str, group: str, topic: str, assignor: str, timing: Timing) -> None:
        from confluent_kafka import Consumer

        self.topic = topic
        self.consumer = Consumer(confluent_settings(bootstrap_servers, group, assignor, timing) | {"log_level": 0})
        self.consumer.subscribe([topic])

    def poll(self) -> list[tuple[int, int, bytes]]:
        from confluent_kafka import KafkaError

        messages = self.consumer.consume(500, POLL_SECONDS)
        # Apache Kafka says for a moment that it does not know a topic that it has just made.
        messages = [message for message in messages if not (message.error() and message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART)]
        for message in messages:
            assert message.error() is None, message.error()
        return [(message.partition(), message.offset(), message.value()) for message in messages]

    def assignment(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def committed(self, partitions: Sequence[int]) -> dict[int, int]:
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(self.topic, partition) for partition in partitions]
        return {each.partition: each.offset for each in self.consumer.committed(asked, timeout=60)}

    def close(self) -> None:
        self.consumer.close()


class OttlaLibrary(ConfluentLibrary):
    """ottla.Consumer, which has confluent-kafka's interface."""

    assignors = ("range", "roundrobin", "sticky", "cooperative-sticky")

    def member(self, group: str, topic: str, assignor: str, **timing: int) -> "OttlaMember":
        return OttlaMember(self.bootstrap_servers, group, topic, assignor, Timing(**timing))


class OttlaMember(ConfluentMember):
    def __init__(self, bootstrap_servers: str, group: str, topic: str, assignor: str, timing: Timing) -> None:
        from ottla import Consumer

        self.topic = topic
        self.consumer = Consumer(confluent_settings(bootstrap_servers, group, assignor, timing))
        self.consumer.subscribe([topic])


class KafkaPythonLibrary:
    """kafka-python: plain Python, with its own network thread."""

    assignors = ("range", "roundrobin", "sticky", "cooperative-sticky")

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def create_topic(self, topic: str, partitions: int) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        admin.create_topics([NewTopic(topic, partitions, 1)])
        admin.close()

    def produce(self, topic: str, records: Sequence[tuple[int, bytes]]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=5, acks="all", enable_idempotence=True)
        sent = [producer.send(topic, value, partition=partition) for partition, value in records]
        producer.flush(60)
        for future in sent:
            future.get(1)
        producer.close()

    def member(self, group: str, topic: str, assignor: str, **timing: int) -> "KafkaPythonMember":
        return KafkaPythonMember(self.bootstrap_servers, group, topic, assignor, Timing(**timing))

    def close(self) -> None:
        pass


class KafkaPythonMember:
    """A consumer whose records a thread of its own reads by iteration; the other calls come from the test's thread.

    Not by `poll` with a short timeout: kafka-python 3 forgets the result of a rebalance that ends outside `poll`, so a
    consumer that is polled now and then can rebalance endlessly, or stay without partitions, with any broker.
    """

    def __init__(self, bootstrap_servers: str, group: str, topic: str, assignor: str, timing: Timing) -> None:
        self.topic = topic
        self.consumer = self._connect(bootstrap_servers, group, assignor, timing)
        self._records: queue.SimpleQueue[tuple[int, int, bytes]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _connect(self, bootstrap_servers: str, group: str, assignor: str, timing: Timing) -> Any:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        known = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor)
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            partition_assignment_strategy=tuple(each for each in known if each.name == assignor),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=timing.session_ms,
            heartbeat_interval_ms=timing.heartbeat_ms,
            fetch_max_wait_ms=100,
            metadata_max_age_ms=timing.metadata_age_ms,
        )
        if self.topic.startswith("^"):
            consumer.subscribe(pattern=self.topic)
        else:
            consumer.subscribe([self.topic])
        return consumer

    def _read(self) -> None:
        from kafka.errors import IllegalStateError

        try:
            for record in self.consumer:
                self._records.put((record.partition, record.offset, record.value))
        except IllegalStateError:
            return  # closed meanwhile
        except RuntimeError as error:
            if "closed" not in str(error):
                raise

    def poll(self) -> list[tuple[int, int, bytes]]:
        received: list[tuple[int, int, bytes]] = []
        try:
            received.append(self._records.get(timeout=POLL_SECONDS))
            while True:
                received.append(self._records.get_nowait())
        except queue.Empty:
            return received

    def assignment(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit()

    def committed(self, partitions: Sequence[int]) -> dict[int, int]:
        from kafka import TopicPartition

        offsets = {partition: self.consumer.committed(TopicPartition(self.topic, partition)) for partition in partitions}
        return {partition: -1001 if offset is None else offset for partition, offset in offsets.items()}

    def close(self) -> None:
        self.consumer.close()
        self._thread.join(60)
        assert not self._thread.is_alive()


class AiokafkaLibrary:
    """aiokafka: asyncio; its loop runs in a thread of its own here."""

    assignors = ("range", "roundrobin", "sticky")

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def create_topic(self, topic: str, partitions: int) -> None:
        async def create() -> None:
            from aiokafka.admin import AIOKafkaAdminClient, NewTopic

            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
            await admin.start()
            await admin.create_topics([NewTopic(topic, partitions, 1)])
            await admin.close()

        self.run(create())

    def produce(self, topic: str, records: Sequence[tuple[int, bytes]]) -> None:
        async def send() -> None:
            from aiokafka import AIOKafkaProducer

            producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=5, acks="all")
            await producer.start()
            sent = [await producer.send(topic, value, partition=partition) for partition, value in records]
            await asyncio.gather(*sent)
            await producer.stop()

        self.run(send())

    def member(self, group: str, topic: str, assignor: str, **timing: int) -> "AiokafkaMember":
        return AiokafkaMember(self, group, topic, assignor, Timing(**timing))

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
        self.loop.close()


class AiokafkaMember:
    def __init__(self, library: AiokafkaLibrary, group: str, topic: str, assignor: str, timing: Timing) -> None:
        self.library = library
        self.topic = topic
        self.consumer = library.run(self._start(group, assignor, timing))

    async def _start(self, group: str, assignor: str, timing: Timing) -> Any:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        known = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.library.bootstrap_servers,
            group_id=group,
            partition_assignment_strategy=tuple(each for each in known if each.name == assignor),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=timing.session_ms,
            heartbeat_interval_ms=timing.heartbeat_ms,
            fetch_max_wait_ms=100,
            metadata_max_age_ms=timing.metadata_age_ms,
        )
        if self.topic.startswith("^"):
            consumer.subscribe(pattern=self.topic)
        else:
            consumer.subscribe([self.topic])
        await consumer.start()
        return consumer

    def poll(self) -> list[tuple[int, int, bytes]]:
        polled = self.library.run(self.consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=500))
        return [(record.partition, record.offset, record.value) for records in polled.values() for record in records]

    def assignment(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.library.run(self.consumer.commit())

    def committed(self, partitions: Sequence[int]) -> dict[int, int]:
        from aiokafka import TopicPartition

        offsets = {each: self.library.run(self.consumer.committed(TopicPartition(self.topic, each))) for each in partitions}
        return {partition: -1001 if offset is None else offset for partition, offset in offsets.items()}

    def close(self) -> None:
        self.library.run(self.consumer.stop())


LIBRARIES = {"confluent-kafka": ConfluentLibrary, "aiokafka": AiokafkaLibrary, "kafka-python": KafkaPythonLibrary}
CLIENTS = {**LIBRARIES, "ottla": OttlaLibrary}
"""Those of other projects, which most tests run with, and our own."""
EVERY_ASSIGNOR = [(library, assignor) for library, face in LIBRARIES.items() for assignor in face.assignors]


@pytest.fixture(params=EVERY_ASSIGNOR, ids=lambda pair: "-".join(pair))
def library_and_assignor(request: pytest.FixtureRequest, kafka_broker: Any) -> Iterator[tuple[Any, str]]:
    """Each client library with each of its assignors, connected to each broker."""
    name, assignor = request.param
    library = LIBRARIES[name](kafka_broker.bootstrap_servers)
    yield library, assignor
    library.close()


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, kafka_broker: Any) -> Iterator[Any]:
    """Each client library, connected to each broker."""
    library = LIBRARIES[request.param](kafka_broker.bootstrap_servers)
    yield library
    library.close()


@pytest.fixture
def library_on() -> Iterator[Callable[..., Any]]:
    """`library_on(broker, "confluent-kafka")` connects a client library to a broker that a test has made itself."""
    made: list[Any] = []

    def connect(broker: Any, name: str = "confluent-kafka") -> Any:
        made.append(CLIENTS[name](broker.bootstrap_servers))
        return made[-1]

    yield connect
    for library in made:
        library.close()


@pytest.fixture
def new_topic(kafka_broker: Any, library_on: Callable[..., Any], unique_name: Callable[[str], str]) -> Callable[..., str]:
    """`new_topic(partitions, records)`: values 0, 1, ... in turn in each partition, with spaces up to `width` bytes."""
    library = library_on(kafka_broker)

    def topic(partitions: int = 1, records: int = 0, name: str = "topic", width: int = 0) -> str:
        made = unique_name(name)
        library.create_topic(made, partitions)
        library.produce(made, [(number % partitions, b"%-*d" % (width, number)) for number in range(records)])
        return made

    return topic


# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR right after a start; UNKNOWN_TOPIC_OR_PARTITION right after a
# topic was made: Apache Kafka's brokers hear of it a little later than the client.
NOT_YET = {3, 14, 15, 16}


@pytest.fixture
def group_commit(raw_client: Any) -> Callable[..., int]:
    """`group_commit(group, topic, partition, offset, metadata="")` commits without a membership; gives the error code.

    The topic is made when it is missing. Waits, as clients do, until the coordinator is there.
    """

    def commit(group: str, topic: str, partition: int, offset: int, metadata: str = "") -> int:
        raw_client.call(ApiKey.CREATE_TOPICS, 5, timeout=5000, topics=[{"name": topic, "num_partitions": 3, "replication_factor": 1}])
        answer: list[int] = []

        def attempt() -> None:
            if raw_client.call(ApiKey.FIND_COORDINATOR, 0, key=group).error_code in NOT_YET:
                time.sleep(0.05)
                return
            partitions = [{"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}]
            topics = [{"name": topic, "partitions": partitions}]
            answered = raw_client.call(ApiKey.OFFSET_COMMIT, 8, group_id=group, generation_id_or_member_epoch=-1, topics=topics)
            code = int(answered.topics[0].partitions[0].error_code)
            if code not in NOT_YET:
                answer.append(code)

        wait_until(lambda: answer, f"the coordinator of {group}", attempt)
        return answer[0]

    return commit


@pytest.fixture
def read_offsets_topic(kafka_broker: Any) -> Callable[..., list[Any]]:
    """`read_offsets_topic(condition)` reads `__consumer_offsets` from the start with kafka-python until `condition(records)` holds.

    Internal topics must be asked for: clients leave them out of patterns.
    """

    def read(condition: Callable[[list[Any]], bool], bootstrap_servers: str | None = None) -> list[Any]:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers or kafka_broker.bootstrap_servers,
            exclude_internal_topics=False,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )
        consumer.subscribe(pattern="^__consumer_offsets$")
        records: list[Any] = []

        def poll() -> None:
            for each in consumer.poll(timeout_ms=100).values():
                records.extend(each)

        wait_until(lambda: condition(records), "the records in __consumer_offsets", poll)
        consumer.close()
        return records

    return read


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a request that waits for others in a thread."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


@pytest.fixture
def described(raw_client: Any) -> Callable[[str], Any]:
    """`described(group)`: the group as DescribeGroups 5 shows it."""

    def describe(group: str) -> Any:
        (answer,) = raw_client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups
        return answer

    return describe


@pytest.fixture
def new_member(kafka_broker: Any, raw_client: Any, described: Callable[[str], Any]) -> Iterator[Callable[..., RawMember]]:
    """`new_member(group, instance_id=None)`: nothing is sent yet; the group's coordinator is ready."""
    made: list[RawMember] = []

    def make(group: str, instance_id: str | None = None) -> RawMember:
        wait_until(lambda: raw_client.call(ApiKey.FIND_COORDINATOR, 0, key=group).error_code == ErrorCode.NONE, "a coordinator")
        wait_until(lambda: described(group).error_code == ErrorCode.NONE, "a loaded coordinator")
        made.append(RawMember(kafka_broker.bootstrap_servers, group, instance_id=instance_id))
        return made[-1]

    yield make
    for member in made:
        member.close()
