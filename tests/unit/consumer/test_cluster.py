"""Leaders and offsets from canned answers: who is asked what, and what each error becomes."""

import datetime
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.list_offsets.v6.response import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from kio.schema.metadata.v9.response import MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from kio.static.primitive import i32Timedelta

from ottla.consumer.cluster import EARLIEST, LATEST, Address, Cluster, parse_addresses
from ottla.consumer.errors import BrokerUnavailableError, RequestFailedError, UnknownTopicError
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

NO_TIME = i32Timedelta.parse(datetime.timedelta(0))
LEADERS = {("t", 0): 1, ("t", 1): 2, ("u", 0): 1}


def _metadata(leaders: dict[tuple[str, int], int], topic_error: int = 0, partition_error: int = 0) -> MetadataResponse:
    topics = {topic: [] for topic, _ in leaders}
    for (topic, number), leader in leaders.items():
        topics[topic].append(
            MetadataResponsePartition(
                error_code=KioErrorCode(partition_error),
                partition_index=number,
                leader_id=leader,
                leader_epoch=0,
                replica_nodes=(leader,),
                isr_nodes=(leader,),
                offline_replicas=(),
            )
        )
    return MetadataResponse(
        throttle_time=NO_TIME,
        brokers=tuple(MetadataResponseBroker(node_id=node, host=f"host{node}", port=9092, rack=None) for node in (1, 2)),
        cluster_id="c",
        controller_id=1,
        topics=tuple(
            MetadataResponseTopic(error_code=KioErrorCode(topic_error), name=name, is_internal=False, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _offsets(request: Any, error: int = 0) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        throttle_time=NO_TIME,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ListOffsetsPartitionResponse(
                        partition_index=item.partition_index,
                        error_code=KioErrorCode(error),
                        timestamp=-1,
                        offset=100 + item.partition_index if item.timestamp == LATEST else 7,
                    )
                    for item in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


class FakeConnection:
    """Answers kio requests with what the test says; remembers who asked whom."""

    def __init__(self, host: str, port: int, net: "Net") -> None:
        self.name, self.net, self.is_open = f"{host}:{port}", net, True

    def ask(self, request: Any, response_class: type[Any]) -> Any:
        assert self.is_open
        self.net.asked.append((self.name, type(request).__name__))
        return self.net.metadata if response_class is MetadataResponse else _offsets(request, self.net.offsets_error)

    def close(self) -> None:
        self.is_open = False


class Net:
    """Every connection that was made, and what is answered."""

    def __init__(self, metadata: MetadataResponse, down: tuple[str, ...] = ()) -> None:
        self.metadata, self.down, self.offsets_error = metadata, down, 0
        self.asked: list[tuple[str, str]] = []
        self.made: list[FakeConnection] = []

    def connect(self, host: str, port: int, *, client_id: str, timeout_ms: int) -> FakeConnection:
        if host in self.down:
            raise BrokerUnavailableError(f"{host} is down")
        self.made.append(FakeConnection(host, port, self))
        return self.made[-1]


def _cluster(net: Net, servers: str = "boot:1") -> Cluster:
    return Cluster(servers, connect=net.connect)


def test_partitions_of_topics():
    assert _cluster(Net(_metadata(LEADERS))).partitions(["t", "u"]) == {"t": [0, 1], "u": [0]}


def test_offsets_are_asked_of_each_leader_once():
    net = Net(_metadata(LEADERS))
    partitions = [TopicPartition(*key) for key in LEADERS]
    cluster = _cluster(net)
    cluster.partitions(["t", "u"])
    net.asked.clear()
    assert cluster.offsets(partitions, LATEST) == {("t", 0): 100, ("t", 1): 101, ("u", 0): 100}
    assert net.asked == [("host1:9092", "ListOffsetsRequest"), ("host2:9092", "ListOffsetsRequest")]
    assert set(cluster.offsets(partitions, EARLIEST).values()) == {7}


def test_the_leader_is_looked_up_once_until_it_is_forgotten():
    net = Net(_metadata(LEADERS))
    cluster = _cluster(net)
    assert cluster.leader(TopicPartition("t", 1)).name == cluster.leader(TopicPartition("t", 1)).name == "host2:9092"
    assert len(net.asked) == 1
    cluster.forget()
    assert not any(connection.is_open for connection in net.made)
    cluster.leader(TopicPartition("t", 1))
    assert len(net.asked) == 2


def test_any_broker_of_the_bootstrap_list_will_do():
    net = Net(_metadata(LEADERS), down=("a",))
    assert _cluster(net, "a:1,b:2").partitions(["t"])["t"] == [0, 1]
    assert net.asked == [("b:2", "MetadataRequest")]


def test_every_broker_that_was_tried_is_named():
    with pytest.raises(BrokerUnavailableError, match="a is down; b is down"):
        _cluster(Net(_metadata(LEADERS), down=("a", "b")), "a:1,b:2").partitions(["t"])


def test_a_topic_that_does_not_exist():
    with pytest.raises(UnknownTopicError, match="topic t does not exist"):
        _cluster(Net(_metadata({("t", 0): 1}, topic_error=3))).partitions(["t"])
    with pytest.raises(UnknownTopicError, match="topic missing does not exist"):
        _cluster(Net(_metadata(LEADERS))).partitions(["missing"])
    with pytest.raises(UnknownTopicError, match="topic t has no partition 9"):
        _cluster(Net(_metadata(LEADERS))).leader(TopicPartition("t", 9))


@pytest.mark.parametrize(("leader", "partition_error"), [(-1, 0), (1, 5)])
def test_a_partition_without_a_leader_may_get_one(leader: int, partition_error: int):
    net = Net(_metadata({("t", 0): leader}, partition_error=partition_error))
    with pytest.raises(RequestFailedError, match="partition 0 of topic t: LEADER_NOT_AVAILABLE") as caught:
        _cluster(net).partitions(["t"])
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_an_error_in_the_offsets_is_the_partition_s():
    net = Net(_metadata(LEADERS))
    net.offsets_error = 6
    with pytest.raises(RequestFailedError, match="partition 0 of topic t: NOT_LEADER_OR_FOLLOWER"):
        _cluster(net).offsets([TopicPartition("t", 0)], LATEST)


def test_addresses():
    assert parse_addresses("a:1, b:65535,[::1]:9092") == [Address("a", 1), Address("b", 65535), Address("::1", 9092)]


@pytest.mark.parametrize("text", ["", "host", ":9092", "host:", "host:port", "host:65536", "a:1,,b:2", "a:٣"])
def test_what_is_no_address_is_named(text: str):
    with pytest.raises(ValueError, match="is no host:port"):
        parse_addresses(text)
