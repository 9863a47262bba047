"""Tests of a run of `ottla consume`. With real brokers and signals: tests/clients/test_consume_command.py."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import pytest

from ottla.cli.consume.formats import text_format
from ottla.cli.consume.properties import Source
from ottla.cli.consume.reading import Limits
from ottla.cli.consume.run import ConsumeOptions, run
from ottla.cli.consume.starts import END
from ottla.cli.signals import Stopped
from ottla.client.consumer.kafka_errors import KafkaError, exception
from ottla.client.consumer.listing import ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla.client.consumer.topic_partition import OFFSET_BEGINNING, OFFSET_END, TopicPartition

TOPICS = {"flights": 3, "planes": 1, "__consumer_offsets": 50}


class Record:
    def value(self) -> bytes:
        return b"v"

    def error(self) -> None:
        return None


class Consumer:
    """A cluster with TOPICS; gives one record at each call."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.properties = properties
        self.assigned: list[TopicPartition] = []
        self.subscribed: list[str] = []
        self.is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        if topic is not None and topic not in TOPICS:
            return ClusterMetadata("", -1, {}, {topic: TopicMetadata(topic, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))})
        names = TOPICS if topic is None else [topic]
        return ClusterMetadata(
            "",
            -1,
            {},
            {name: TopicMetadata(name, {number: PartitionMetadata(number, 1) for number in range(TOPICS[name])}) for name in names},
        )

    def subscribe(self, topics: Sequence[str], on_assign: Any, on_revoke: Any) -> None:
        self.subscribed = list(topics)
        on_assign(self, [TopicPartition("flights", 0)])

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def consume(self, num_messages: int, timeout: float) -> list[Any]:
        return [Record()]

    def assignment(self) -> list[TopicPartition]:
        return []

    def position(self, partitions: Any) -> list[TopicPartition]:
        return []


class Result:
    """What a run did."""

    def __init__(self, *topics: str, write: Callable[..., None] | None = None, make: Any = Consumer, **options: Any) -> None:
        made: list[Any] = []
        self.written: list[bytes] = []
        err = io.StringIO()
        source = Source(bootstrap_server="h:1", group=options.get("group"), is_member="group" in options)
        options.pop("group", None)
        given = ConsumeOptions(
            source=source, topics=topics, render=text_format(r"%s\n"), limits=options.pop("limits", Limits(count=2)), **options
        )

        def make_consumer(properties: Mapping[str, Any]) -> Any:
            made.append(make(properties))
            return made[-1]

        self.status = run(
            given,
            write=write or (lambda data, _: self.written.append(data)),
            err=err,
            shows_progress=False,
            make_consumer=make_consumer,
            clock=lambda: 0.0,
        )
        self.err = err.getvalue()
        self.consumer = made[0] if made else None


def places(result: Result) -> list[tuple[str, int, int]]:
    assert result.consumer is not None
    return [(each.topic, each.partition, each.offset) for each in result.consumer.assigned]


def test_all_partitions_of_some_topics() -> None:
    result = Result("flights", "^pl")
    assert (result.status, result.err, result.written) == (0, "", [b"v\n", b"v\n"])
    assert places(result) == [*[("flights", number, OFFSET_BEGINNING) for number in range(3)], ("planes", 0, OFFSET_BEGINNING)]
    assert result.consumer is not None
    assert result.consumer.is_closed
    assert result.consumer.properties["bootstrap.servers"] == "h:1"


def test_some_partitions() -> None:
    assert places(Result("flights", partitions=[2, 0], start=END)) == [("flights", 2, OFFSET_END), ("flights", 0, OFFSET_END)]


def test_a_pattern_means_no_topics_of_the_brokers() -> None:
    assert {topic for topic, _, _ in places(Result("^.*"))} == {"flights", "planes"}


def test_a_member_subscribes() -> None:
    result = Result("flights", "^pl", group="g")
    assert result.consumer is not None
    assert (result.consumer.subscribed, result.consumer.assigned) == (["flights", "^pl"], [])


@pytest.mark.parametrize(
    ("topics", "options", "why"),
    [
        (["x"], {}, "topic x cannot be read: "),
        (["flights", "x"], {"group": "g"}, "topic x cannot be read: "),
        (["^x"], {}, "no topic matches"),
        (["^("], {}, "Failed to set subscription: "),
        (["flights"], {"partitions": [3]}, "topic flights has 3 partitions: there is no partition 3"),
    ],
)
def test_what_is_not_there(topics: list[str], options: dict[str, Any], why: str) -> None:
    result = Result(*topics, **options)
    assert result.status == 1
    assert result.err.startswith(f"Error: {why}")
    assert result.consumer is not None
    assert result.consumer.is_closed


def test_brokers_that_do_not_answer() -> None:
    class Unreachable(Consumer):
        def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
            raise exception(KafkaError._TIMED_OUT, "Failed to get metadata")

    assert (Result("flights", make=Unreachable).status, Result("flights", make=Unreachable).err) == (
        1,
        "Error: Failed to get metadata: Local: Timed out\n",
    )


@pytest.mark.parametrize("error", [BrokenPipeError, Stopped])
def test_an_output_that_is_closed_and_a_signal_end_it_without_an_error(error: type[BaseException]) -> None:
    def write(*_: object) -> None:
        raise error

    result = Result("flights", write=write)
    assert (result.status, result.err) == (0, "")
    assert result.consumer is not None
    assert result.consumer.is_closed
