"""Lookups of a consumer: values of confluent-kafka's interface, and errors by its codes. Against brokers: tests/clients."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import CommittedOffset, DescribedCluster, DescribedPartition, DescribedTopic, Failure, ListedOffset
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException
from ottla.client.consumer.lookups import Lookups, cluster_metadata
from ottla.client.consumer.message import OFFSET_END, OFFSET_INVALID, TopicPartition
from ottla.client.consumer.properties import parse_properties
from ottla.client.errors import RequestFailedError
from ottla.protocol import model
from ottla.protocol.errors import ErrorCode

OFFSETS = {model.TopicPartition("t", 0): CommittedOffset(5, 2, "m"), model.TopicPartition("t", 1): CommittedOffset(0)}


class Admin:
    """Knows the topic t of two partitions, and no other."""

    def __init__(self, settings: Any, *, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.groups: Mapping[str, Any] = {"g": OFFSETS}
        self.refusal: RequestFailedError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def committed(self, groups: Iterable[str]) -> Mapping[str, Any]:
        return self.groups

    def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        return {name: DescribedTopic("t", {0: 1, 1: 1}) if name == "t" else Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names}

    def describe_cluster(self, names: Iterable[str] | None) -> DescribedCluster:
        return DescribedCluster("id", 1, {1: BrokerEndpoint(1, "h", 9)}, {} if names is None else {name: {} for name in names})

    def offsets_for_times(self, times: Mapping[Any, int]) -> dict[Any, ListedOffset]:
        return {each: ListedOffset(time, leader_epoch=3) if time < 10 else ListedOffset(-1) for each, time in times.items()}

    def list_offsets(self, partitions: Iterable[Any], edge: int) -> dict[Any, int]:
        return dict.fromkeys(partitions, 4 if edge == -2 else 9)


@pytest.fixture
def lookups() -> Lookups:
    admins: list[Admin] = []
    return made(admins, lambda admin: None)


def made(admins: list[Admin], change: Callable[[Admin], None]) -> Lookups:
    def connect(settings: Any, **more: Any) -> Any:
        admins.append(Admin(settings, **more))
        change(admins[-1])
        return admins[-1]

    return Lookups(parse_properties({"bootstrap.servers": "h:1", "group.id": "g", "default.api.timeout.ms": "700"}), connect=connect)


def code(call: Callable[..., Any], *arguments: Any) -> int:
    with pytest.raises(KafkaException) as raised:
        call(*arguments, None)
    return raised.value.args[0].code()  # type: ignore[no-any-return]


def test_committed_offsets_with_epochs_and_metadata_as_far_as_there_are_any(lookups: Lookups) -> None:
    found = lookups.committed([TopicPartition("t", number) for number in range(3)], None)
    assert [(each.offset, each.leader_epoch, each.metadata) for each in found] == [
        (5, 2, "m"),
        (0, None, None),
        (OFFSET_INVALID, None, None),
    ]


def test_a_coordinator_that_cannot_be_found_is_a_timeout_other_failures_have_their_code() -> None:
    def failing(failure: ErrorCode) -> Callable[[Admin], None]:
        return lambda admin: setattr(admin, "groups", {"g": Failure(failure)})

    assert code(made([], failing(ErrorCode.REQUEST_TIMED_OUT)).committed, []) == KafkaError._TIMED_OUT
    assert code(made([], failing(ErrorCode.GROUP_AUTHORIZATION_FAILED)).committed, []) == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_offsets_for_times(lookups: Lookups) -> None:
    found = lookups.offsets_for_times([TopicPartition("t", 0, 8), TopicPartition("t", 1, 99)], None)
    assert [(each.offset, each.leader_epoch) for each in found] == [(8, 3), (OFFSET_END, None)]


def test_watermarks(lookups: Lookups) -> None:
    assert lookups.watermarks(TopicPartition("t", 1), None) == (4, 9)


@pytest.mark.parametrize("where", [TopicPartition("x", 0), TopicPartition("t", 2)])
def test_what_does_not_exist_is_not_looked_for_until_the_timeout(lookups: Lookups, where: TopicPartition) -> None:
    assert code(lookups.watermarks, where) == KafkaError._UNKNOWN_PARTITION
    assert code(lookups.offsets_for_times, [where]) == KafkaError._UNKNOWN_PARTITION


def test_a_refusal_has_its_code() -> None:
    refused = made([], lambda admin: setattr(admin, "refusal", RequestFailedError("no", ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    assert code(refused.watermarks, TopicPartition("t", 0)) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_cluster_with_all_topics_or_some(lookups: Lookups) -> None:
    assert (lookups.cluster(None, 1).cluster_id, list(lookups.cluster(["a"], 1).topics)) == ("id", ["a"])


def test_timeouts() -> None:
    admins: list[Admin] = []
    lookups = made(admins, lambda admin: None)
    for timeout in (None, -1, 0, 0.25):
        lookups.cluster([], timeout)
    assert [admin.timeout_ms for admin in admins] == [700, 700, 1, 250]


def test_brokers_and_topics_with_their_partitions() -> None:
    partitions = {0: DescribedPartition(1, (1, 2), (1,)), 1: DescribedPartition(None, (2,), ())}
    found = cluster_metadata(DescribedCluster("id", 1, {1: BrokerEndpoint(1, "host", 9092)}, {"t": partitions}))
    assert (found.cluster_id, found.controller_id, str(found.brokers[1])) == ("id", 1, "host:9092/1")
    topic = found.topics["t"]
    assert (str(topic), topic.error) == ("t", None)
    assert [(each.id, each.leader, each.replicas, each.isrs, each.error) for each in topic.partitions.values()] == [
        (0, 1, [1, 2], [1], None),
        (1, -1, [2], [], None),
    ]


def test_a_topic_that_does_not_exist() -> None:
    found = cluster_metadata(DescribedCluster("", -1, {}, {"x": Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}))
    assert found.topics["x"].error == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert found.topics["x"].partitions == {}
