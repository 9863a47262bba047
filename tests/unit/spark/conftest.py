"""A scripted cluster for the driver: topics, first and latest offsets, times, commits; and a scripted producer."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Self

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.client.admin.values import EARLIEST, LATEST, CommittedOffset, DescribedTopic, Failure, ListedOffset
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition


class ScriptedCluster:
    """`limits` are first and latest offsets; `times` the offset of a partition at a time; `failures` are raised, one per call."""

    def __init__(self) -> None:
        self.limits: dict[TopicPartition, tuple[int, int]] = {}
        self.ids: dict[str, str] = {}
        self.internal: set[str] = set()
        self.times: dict[tuple[TopicPartition, int], int] = {}
        self.committed_offsets: dict[str, dict[TopicPartition, int]] = {}
        self.refusals: dict[str, ErrorCode] = {}
        self.failures: list[Exception] = []
        self.asked: list[str] = []
        self.clients = 0
        self.bootstrap_timeouts: list[int | None] = []
        self.is_open = False

    def topic(self, name: str, *limits: tuple[int, int], topic_id: str | None = None) -> Self:
        """Create or re-create a topic with a partition for each of `limits`."""
        self.delete(name)
        self.limits.update({TopicPartition(name, number): each for number, each in enumerate(limits)})
        self.ids[name] = f"id-of-{name}" if topic_id is None else topic_id
        return self

    def delete(self, name: str) -> None:
        self.limits = {partition: limits for partition, limits in self.limits.items() if partition.topic != name}
        self.ids.pop(name, None)

    def connect(self, settings: ClientSettings, *, bootstrap_timeout_ms: int | None = None) -> Self:
        self.bootstrap_timeouts.append(bootstrap_timeout_ms)
        assert settings.bootstrap_servers == "localhost:9092"
        self.clients += 1
        self.is_open = True
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_open = False

    def describe_topics(self, names: Iterable[str]) -> dict[str, DescribedTopic | Failure]:
        self._ask("describe_topics")
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {name: self._described(name) if name in self.ids else Failure(self.refusals.get(name, missing)) for name in names}

    def list_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        self._ask("list_offsets")
        return {partition: self._at(partition, timestamp) for partition in partitions}

    def list_topics(self) -> dict[str, DescribedTopic]:
        self._ask("list_topics")
        return {name: self._described(name) for name in self.ids}

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        self._ask("offsets_for_times")
        return {partition: ListedOffset(self._at(partition, timestamp)) for partition, timestamp in timestamps.items()}

    def committed(self, groups: Iterable[str]) -> dict[str, Mapping[TopicPartition, CommittedOffset] | Failure]:
        self._ask("committed")
        return {
            group: {partition: CommittedOffset(offset) for partition, offset in self.committed_offsets.get(group, {}).items()}
            for group in groups
        }

    def _described(self, name: str) -> DescribedTopic:
        leaders = {partition.partition: 0 for partition in self.limits if partition.topic == name}
        return DescribedTopic(name, leaders, self.ids[name], name in self.internal)

    def _at(self, partition: TopicPartition, timestamp: int) -> int:
        begin, end = self.limits[partition]
        return {EARLIEST: begin, LATEST: end}.get(timestamp, self.times.get((partition, timestamp), -1))

    def _ask(self, what: str) -> None:
        assert self.is_open
        self.asked.append(what)
        if self.failures:
            raise self.failures.pop(0)


@pytest.fixture
def cluster() -> ScriptedCluster:
    """An empty cluster; `cluster.connect` stands in for AdminClient."""
    return ScriptedCluster()


class ScriptedMessage:
    """A delivered record; offsets of a partition count from 0."""

    def __init__(self, topic: str, partition: int, key: bytes | None, value: bytes | None, offset: int) -> None:
        self.topic, self.partition, self.offset = (lambda: topic), (lambda: partition), (lambda: offset)
        self.key, self.value = (lambda: key), (lambda: value)


class ProducerScript:
    """The behaviour of every producer of a test. Time passes only during waits."""

    def __init__(self) -> None:
        self.topics: dict[str, int | KafkaError] = {"t": 3}
        self.full_times = 0
        self.refuses: KafkaError | None = None
        self.fails: KafkaError | None = None
        self.is_silent = False
        self.disconnects = False
        self.now_s = 1_000.0
        self.made: list[ScriptedProducer] = []

    def make(self, settings: dict[str, Any]) -> "ScriptedProducer":
        self.made.append(ScriptedProducer(self, settings))
        return self.made[-1]


class ScriptedProducer:
    """The part of confluent_kafka.Producer that the sink uses, with its order of arguments."""

    def __init__(self, script: ProducerScript, settings: dict[str, Any]) -> None:
        self.script, self.settings = script, settings
        self.sent: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.polls = 0
        self.is_purged = False
        self._reports: list[Any] = []

    def produce(
        self, topic: str, value: Any, key: Any, partition: int, callback: Any, _on_delivery: Any, timestamp: int, headers: Any
    ) -> None:
        if self.script.full_times:
            self.script.full_times -= 1
            raise BufferError("queue full")
        if self.script.refuses is not None:
            raise KafkaException(self.script.refuses)
        self._reports.append((callback, ScriptedMessage(topic, partition, key, value, len(self.sent))))
        row = {"topic": topic, "value": value, "key": key, "partition": partition, "timestamp": timestamp, "headers": headers}
        self.sent.append(row)

    def poll(self, timeout: float) -> int:
        self.polls += 1
        self.script.now_s += timeout
        if self.script.disconnects:
            self.settings["logger"].log(30, "%s [%s] %s", "FAIL", "client", "h:1/1: Disconnected (after 3ms in state UP)")
        return 0

    def __len__(self) -> int:
        return len(self._reports)

    def flush(self, timeout: float) -> int:
        if self.script.is_silent:
            self.script.now_s += timeout
            return len(self._reports)
        while self._reports:
            callback, message = self._reports.pop(0)
            if self.script.fails is not None or not self.settings["delivery.report.only.error"]:
                (callback or self.settings["on_delivery"])(self.script.fails, message)
        return 0

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        self.asked.append(topic)
        found = self.script.topics.get(topic, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        if isinstance(found, KafkaError) and found.code() == KafkaError._TRANSPORT:
            self.script.now_s += timeout
            raise KafkaException(found)
        is_there = isinstance(found, int)
        return SimpleNamespace(
            topics={topic: SimpleNamespace(error=None if is_there else found, partitions=range(found) if is_there else {})}
        )

    def purge(self) -> None:
        self.is_purged = True


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> ProducerScript:
    """confluent-kafka's producers, replaced by a script."""
    script = ProducerScript()
    monkeypatch.setattr("ottla.spark.sink.senders.Producer", script.make)
    return script
