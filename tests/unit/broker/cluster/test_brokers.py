"""The brokers of a process as clients see them."""

import pytest

from ottla.broker.cluster.brokers import Brokers, Node, pack_endpoints, pack_leader
from ottla.broker.network.session import Endpoint
from ottla.broker.partitions.partitions import Partitions
from ottla.config import BrokerConfig
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.primitives import Writer
from tests.support.kit.sessions import listen


@pytest.fixture
def metadata() -> ClusterMetadata:
    return ClusterMetadata((1, 2), BrokerConfig().text)


@pytest.fixture
def brokers(metadata: ClusterMetadata) -> Brokers:
    made = Brokers(metadata)
    for node_id in (1, 2):
        made.add(Node(node_id, cluster_metadata=metadata, partitions=Partitions.__new__(Partitions)))
    return made


def test_the_controller_is_the_first_that_runs(brokers: Brokers, metadata: ClusterMetadata) -> None:
    metadata.live_ids = {1, 2}
    assert brokers.controller_id == 1
    metadata.live_ids = {2}
    assert brokers.controller_id == 2
    metadata.live_ids = set()
    assert brokers.controller_id == -1


def test_where_a_broker_is(brokers: Brokers) -> None:
    listen(brokers.nodes[2], "h", 9093)
    assert brokers.endpoint("PLAINTEXT", 2) == (2, "h", 9093)
    assert brokers.endpoint("OTHER", 2) is None
    assert brokers.endpoint("PLAINTEXT", 3) is None
    brokers.nodes[2].listeners["PLAINTEXT"] = brokers.nodes[2].listeners["PLAINTEXT"]._replace(advertised=None)
    assert brokers.endpoint("PLAINTEXT", 2) is None


def test_one_more_and_one_that_could_not_be_started(brokers: Brokers, metadata: ClusterMetadata) -> None:
    third = Node(3, cluster_metadata=metadata, partitions=Partitions.__new__(Partitions))
    brokers.add(third)
    assert metadata.broker_ids == (1, 2, 3)
    brokers.remove(third)
    assert (metadata.broker_ids, list(brokers.nodes)) == ((1, 2), [1, 2])


# One of several brokers: where it is, and what it leads.


def test_it_has_an_address_for_clients(api) -> None:
    assert api.node.address() == "127.0.0.1:9092"
    assert api.node.endpoint("PLAINTEXT") == (1, "127.0.0.1", 9092)
    listen(api.node, "::1", 9092)
    assert api.node.address("PLAINTEXT") == "[::1]:9092"
    assert api.node.address("OTHER") == ""


@pytest.mark.parametrize(("broker", "first", "second"), [(1, "t-0", 6), (2, 6, "t-1")])
def test_it_hands_out_what_it_leads(make_api, broker, first, second) -> None:
    api = make_api(brokers=2)
    api.cluster.topics.create(NewTopic(name="t", partitions=2))
    node = api.cluster.brokers.nodes[broker]
    for number, expected in enumerate((first, second)):
        led = node.led("t", number)
        assert (led if isinstance(led, ErrorCode) else f"{led.name.topic}-{led.name.partition}") == expected
    assert node.led("t", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.led("t", -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.led("other", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_it_is_alive_while_the_catalogue_says_so(api) -> None:
    assert api.node.is_alive
    api.cluster.cluster_metadata.live_ids.clear()
    assert not api.node.is_alive


# Who leads instead, as bytes; that they are what kio reads is held by the tests of Fetch and Produce.


def test_the_leader_of_a_partition_is_a_section_of_one_tagged_field() -> None:
    out = Writer(flexible=True)
    pack_leader(out, 1, leader_id=3, leader_epoch=7)
    assert bytes(out.data) == b"\x01\x01\x09" + (3).to_bytes(4, "big") + (7).to_bytes(4, "big") + b"\0"


def test_each_leader_is_named_once_and_strangers_are_left_out() -> None:
    out = Writer(flexible=True)
    pack_endpoints(out, [2, 1, 2, 9], {1: Endpoint(1, "a", 5), 2: Endpoint(2, "b", 6)}.get)
    first = (1).to_bytes(4, "big") + b"\x02a" + (5).to_bytes(4, "big") + b"\0\0"
    second = (2).to_bytes(4, "big") + b"\x02b" + (6).to_bytes(4, "big") + b"\0\0"
    assert bytes(out.data) == bytes([1, 0, 1 + len(first + second), 3]) + first + second


def test_an_answer_that_names_no_leader_ends_empty() -> None:
    out = Writer(flexible=True)
    pack_endpoints(out, [9], {}.get)
    assert bytes(out.data) == b"\0"
