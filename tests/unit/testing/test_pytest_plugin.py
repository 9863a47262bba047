"""The fixtures that come with the package."""

import socket
from contextlib import closing

from ottla.testing import Broker
from tests.support.clients.raw_member import RawMember


def connects(address: str) -> bool:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=60):
        return True


def test_a_fresh_broker_for_one_test(ottla_broker) -> None:
    assert connects(ottla_broker.bootstrap_servers)


def test_one_broker_for_the_session(ottla_broker, ottla_broker_session) -> None:
    assert connects(ottla_broker_session.bootstrap_servers)
    assert ottla_broker_session.bootstrap_servers != ottla_broker.bootstrap_servers


def test_brokers_with_settings_of_their_own(ottla_broker_factory) -> None:
    events = []
    one = ottla_broker_factory({"num.partitions": 3}, on_group_event=events.append)
    two = ottla_broker_factory(brokers=2)
    assert one.bootstrap_servers not in two.bootstrap_servers
    assert len(two.bootstrap_servers.split(",")) == 2
    assert [repr(each) for each in (one, two)] == [f"<Broker {one.bootstrap_servers}>", f"<Cluster {two.bootstrap_servers}>"]
    assert (repr(Broker()), repr(one.group("g"))) == ("<Broker not running>", "<Group 'g'>")
    one.produce("orders", [b"a", b"b", b"c"])
    assert {record.partition for record in one.consume("orders", 3)} == {0, 1, 2}
    with closing(RawMember(one.bootstrap_servers, "g")) as member:
        member.join()
    assert {event.group for event in events} == {"g"}
