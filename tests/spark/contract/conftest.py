"""What the contract suite runs on: each case runs with the JVM connector and with Ottla's, on Ottla's broker and on Kafka.

The JVM connector on Apache Kafka is the reference: what a case states holds for it. `contract` is one of the four.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ottla.testing.waiting import wait_until

FORMATS = ["kafka", "ottla"]
BROKERS = ["ottla", pytest.param("apache-kafka", marks=pytest.mark.kafka)]
WAIT_S_MAX = 60


class Place:
    """A broker and what a case does to it without Spark: topics, records, deletions."""

    def __init__(self, kind: str, servers: str) -> None:
        self.kind = kind
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._producers: dict[str, Producer] = {}

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """A new topic, with its leaders elected; settings with "_" for "."."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(WAIT_S_MAX)
        self._wait_for_partitions(topic, partitions)
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to the topic."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(WAIT_S_MAX)
        self._wait_for_partitions(topic, partitions)
        self._producers.clear()  # they would learn of it in minutes only

    def delete(self, topic: str) -> None:
        """Delete the topic."""
        self.admin.delete_topics([topic])[topic].result(WAIT_S_MAX)
        self.wait_until(lambda: topic not in self.admin.list_topics(timeout=60).topics)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records below the offset `before`."""
        (deleted,) = self.admin.delete_records([TopicPartition(topic, partition, before)]).values()
        deleted.result(WAIT_S_MAX)

    def produce(self, topic: str, values: Sequence[Any], partition: int = 0, codec: str = "none", **more: Any) -> None:
        """One record a value, in one partition; a value is bytes, text, a number or None. `more`: key, headers, timestamp (ms)."""
        if codec not in self._producers:
            settings = {"bootstrap.servers": self.servers, "compression.type": codec, "linger.ms": 5, "log_level": 0}
            self._producers[codec] = Producer(settings | {"enable.idempotence": True})
        producer = self._producers[codec]
        for value in values:
            data = value if value is None or isinstance(value, bytes) else str(value).encode()
            producer.produce(topic, data, partition=partition, on_delivery=_delivered, **more)
        assert producer.flush(WAIT_S_MAX) == 0

    def wait_for_end(self, topic: str, partition: int, end: int) -> None:
        """Until the partition ends there; a transaction's marker comes after the answer that ended it."""
        wanted = TopicPartition(topic, partition)
        self.wait_until(lambda: self.admin.list_offsets({wanted: OffsetSpec.latest()})[wanted].result(WAIT_S_MAX).offset == end)

    def offsets_there(self, topic: str, end: int) -> list[int]:
        """The offsets below `end` that a consumer reads in partition 0; there is a record at `end`."""
        settings = {"bootstrap.servers": self.servers, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        consumer, offsets = Consumer(settings), []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while not offsets or offsets[-1] < end:
                message = consumer.poll(WAIT_S_MAX)
                assert message is not None
                assert message.error() is None
                offsets.append(int(message.offset()))
            return offsets[:-1]
        finally:
            consumer.close()

    @contextmanager
    def broker_setting(self, name: str, value: str) -> Iterator[None]:
        """A setting of the running broker, for a block: other tests share it, and some list what was changed."""
        self._alter_broker(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        try:
            yield
        finally:
            self._alter_broker(ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE))

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        wait_until(is_so, "what the test expects", seconds=WAIT_S_MAX)

    def _alter_broker(self, entry: ConfigEntry) -> None:
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(WAIT_S_MAX)

    def _wait_for_partitions(self, topic: str, partitions: int) -> None:
        def has_leaders() -> bool:
            found = self.admin.list_topics(topic, timeout=60).topics[topic].partitions
            return len(found) == partitions and all(each.leader >= 0 and not each.error for each in found.values())

        self.wait_until(has_leaders)


def _delivered(error: Any, _: Any) -> None:
    assert error is None, error


class Stream:
    """A running stream; the rows of every micro-batch that had some, in `batches`."""

    def __init__(
        self, frame: Any, checkpoint: Path, trigger: Mapping[str, Any], columns: Sequence[str], on_batch: Callable[[], None] | None
    ) -> None:
        self.batches: list[list[tuple[Any, ...]]] = []
        self._columns = columns
        self._on_batch = on_batch
        writer = frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(checkpoint))
        self.query = (writer.trigger(**trigger) if trigger else writer).start()

    def _keep(self, frame: Any, _: int) -> None:
        rows = rows_of(frame, self._columns)
        if rows:
            self.batches.append(rows)
        if self._on_batch is not None:
            self._on_batch()

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All rows so far, sorted."""
        return sorted(row for batch in self.batches for row in batch)

    def catch_up(self) -> list[tuple[Any, ...]]:
        """All rows once everything is processed that was there at the call."""
        self.query.processAllAvailable()
        return self.rows

    def finish(self) -> list[tuple[Any, ...]]:
        """All rows once the query has ended by itself."""
        assert self.query.awaitTermination(WAIT_S_MAX), "the query does not end"
        return self.rows

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.query.stop()


def rows_of(frame: Any, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows as plain values, sorted, null first: binary as bytes, headers as pairs."""
    rows = [tuple(_plain(value) for value in row) for row in frame.selectExpr(*columns).collect()]
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [(header.key, _plain(header.value)) for header in value]
    return value


COLUMNS = ("partition", "offset", "cast(value as string)")


class Contract:
    """One format on one broker."""

    def __init__(self, spark: Any, name: str, place: Place, unique_name: Callable[[str], str], directory: Path) -> None:
        self.spark = spark
        self.format = name
        self.place = place
        self.is_ours = name == "ottla"
        self._unique_name = unique_name
        self.directory = directory

    def name(self, what: str = "t") -> str:
        """A unique topic name."""
        return self._unique_name(what)

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic."""
        return self.place.create(self.name(), partitions, **config)

    def load(self, **options: Any) -> Any:
        """A DataFrame; options with "_" for ".", except that the servers are given."""
        return self.spark.read.format(self.format).options(**self.options(options)).load()

    def rows(self, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
        """The rows of a batch query, sorted; (partition, offset, value as text) unless columns are named."""
        return rows_of(self.load(**options), columns or COLUMNS)

    def stream(
        self,
        *,
        trigger: Mapping[str, Any] | None = None,
        checkpoint: str | None = None,
        on_batch: Callable[[], None] | None = None,
        **options: Any,
    ) -> Stream:
        """A running stream of COLUMNS; `checkpoint` names a checkpoint to start or continue, `on_batch` is called after each batch."""
        frame = self.spark.readStream.format(self.format).options(**self.options(options)).load()
        return Stream(frame, self.directory / (checkpoint or self.name("checkpoint")), trigger or {}, COLUMNS, on_batch)

    def drain(self, **options: Any) -> Stream:
        """A stream that has processed the available records and ended; arguments as for `stream`."""
        with self.stream(trigger={"availableNow": True}, **options) as stream:
            stream.finish()
        return stream

    def options(self, given: Mapping[str, Any], *, is_sink: bool = False) -> dict[str, str]:
        """The options as Spark takes them: `kafka_isolation_level` is kafka.isolation.level."""
        options = {"kafka.bootstrap.servers": self.place.servers}
        if not is_sink:
            options["fetchOffset.retryIntervalMs"] = "10"  # what fails, fails soon
        for name, value in given.items():
            options[name.replace("_", ".")] = str(value)
        return options

    def failure_of(self, work: Callable[[], Any]) -> str:
        """The error of a query that has to fail."""
        with pytest.raises(Exception) as caught:  # Spark has many kinds, and a query's own differ by where it fails
            work()
        return str(caught.value)


@pytest.fixture(scope="session")
def our_place() -> Iterator[Place]:
    """Ottla's broker, for all cases."""
    from ottla.broker import Broker

    with Broker(config={"log.cleaner.backoff.ms": "200"}) as broker:
        yield Place("ottla", broker.bootstrap_servers)


@pytest.fixture(scope="session", params=BROKERS)
def place(request: pytest.FixtureRequest) -> Place:
    """Each of the brokers, for all cases."""
    if request.param == "ottla":
        ours: Place = request.getfixturevalue("our_place")
        return ours
    return Place("apache-kafka", request.getfixturevalue("reference").shared().bootstrap_servers)


@pytest.fixture(params=FORMATS)
def format_name(request: pytest.FixtureRequest) -> str:
    """Each of the formats; that of the JVM connector only where its jars can be had."""
    return str(request.getfixturevalue("jvm_format") if request.param == "kafka" else request.param)


@pytest.fixture
def contract(format_name: str, spark: Any, place: Place, unique_name: Callable[[str], str], tmp_path: Path) -> Contract:
    """Each of the formats on each of the brokers."""
    return Contract(spark, format_name, place, unique_name, tmp_path)


@pytest.fixture
def anywhere(format_name: str, spark: Any, our_place: Place, unique_name: Callable[[str], str], tmp_path: Path) -> Contract:
    """Each of the formats, for cases that do not depend on the broker."""
    return Contract(spark, format_name, our_place, unique_name, tmp_path)
