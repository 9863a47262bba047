"""One of several brokers: where it is, and what it leads."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.metadata.topics import NewTopic


def test_it_has_an_address_for_clients(api) -> None:
    assert api.node.address == "127.0.0.1:9092"
    assert api.node.endpoint == (1, "127.0.0.1", 9092)
    api.node.host = "::1"
    assert api.node.address == "[::1]:9092"


def test_it_listens_where_clients_may_not_connect_to(api) -> None:
    api.node.listens_on = "0.0.0.0"
    assert api.node.listener == "0.0.0.0:9092"
    api.node.listens_on = "::"
    assert api.node.listener == "[::]:9092"


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
