"""A group as its coordinator has it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from ottla.broker.composition import Components
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.testing import Broker
from ottla.testing.application.group_reading import NO_GROUP, GroupNow, coordinator_of, group_now
from tests.support.clients.raw_member import RawMember
from tests.support.kit.consumer_protocol import encode_assignment


def read(broker: Broker) -> GroupNow:
    return broker._call_in_loop(lambda components: group_now(components, "g", frozenset()))


@pytest.fixture
def member(ottla_broker: Broker) -> Iterator[RawMember]:
    ottla_broker.create_topic("flights", 2)
    with closing(RawMember(ottla_broker.bootstrap_servers, "g")) as member:
        yield member


def test_a_group_that_no_coordinator_has(ottla_broker: Broker) -> None:
    def find(components: Components) -> bool:
        return coordinator_of(components, "g") is None

    assert ottla_broker._call_in_loop(find)
    assert read(ottla_broker) == NO_GROUP


def test_the_lag_counts_subscribed_owned_and_committed_partitions(ottla_broker: Broker, member: RawMember) -> None:
    ottla_broker.create_topic("trains", 2)
    ottla_broker.produce("flights", [b"1", b"2", b"3"], partition=0)
    ottla_broker.produce("flights", [b"4"], partition=1)
    ottla_broker.produce("trains", [b"5"] * 10, partition=1)
    member.join()
    assert read(ottla_broker).lag == 4, "of the topic that it subscribes to"
    member.sync({member.member_id: encode_assignment({"flights": [0], "trains": [1]})})
    now = read(ottla_broker)
    assert (now.state, len(now.members), now.lag) == ("Stable", 1, 14)
    assert member.commit("flights", 0, 2) == ErrorCode.NONE
    assert member.commit("trains", 1, 8) == ErrorCode.NONE
    assert member.commit("trains", 0, 0) == ErrorCode.NONE
    now = read(ottla_broker)
    assert now.lag == 1 + 1 + 2
    assert now.committed == {("flights", 0): 2, TopicPartition("trains", 0): 0, TopicPartition("trains", 1): 8}


def test_a_group_that_only_commits_has_a_lag(ottla_broker: Broker, member: RawMember) -> None:
    ottla_broker.produce("flights", [b"1", b"2", b"3"], partition=0)
    assert read(ottla_broker).lag is None
    assert member.commit("flights", 0, 2) == ErrorCode.NONE
    assert read(ottla_broker).lag == 1


def test_a_lag_is_not_known_before_the_logs_are_open_again(ottla_broker: Broker, member: RawMember) -> None:
    ottla_broker.produce("flights", [b"1", b"2"], partition=0)
    member.join()
    member.sync()
    assert member.commit("flights", 0, 1) == ErrorCode.NONE
    ottla_broker.restart()
    ottla_broker.group("g").wait(lag=1)
    assert read(ottla_broker).lag == 1
    ottla_broker.produce("flights", [b"3"], partition=1)
    with pytest.raises(AssertionError, match="a lag of at most 0"):
        ottla_broker.group("g").wait(lag=0, timeout=0)
