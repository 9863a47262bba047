"""The fixtures that come with the package."""

import socket


def connects(address: str) -> bool:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=5):
        return True


def test_a_fresh_broker_for_one_test(ottla_broker) -> None:
    assert connects(ottla_broker.bootstrap_servers)


def test_one_broker_for_the_session(ottla_broker, ottla_broker_session) -> None:
    assert connects(ottla_broker_session.bootstrap_servers)
    assert ottla_broker_session.bootstrap_servers != ottla_broker.bootstrap_servers
