"""Connections as the settings say, to a broker of canned bytes. With TLS and SASL: tests/kafka/test_security.py."""

import socket
import threading
from typing import Any

import pytest

from ottla.client.addresses import Address
from ottla.client.errors import AuthenticationError, BrokerUnavailableError
from ottla.client.network.connector import connect
from ottla.client.security.properties import SecuritySettings
from ottla.client.settings import ClientSettings


def settings(**more: Any) -> ClientSettings:
    return ClientSettings(bootstrap_servers="unused:1", **more)


def test_a_plain_connection(canned_broker: Any) -> None:
    broker = canned_broker(lambda key, correlation: None)
    made = settings(client_id="me", receive_buffer_bytes=40_000, socket_connection_setup_timeout_ms=5_000)
    connection = connect(Address("127.0.0.1", broker.port), made, 7_000)
    assert connection.timeout_ms == 7_000, "the shorter time is for connecting alone"
    assert b"\x00\x02me" in broker.requests[0]
    assert connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 80_000, "Linux counts twice"
    connection.close()


def test_a_broker_without_sasl(canned_broker: Any) -> None:
    broker = canned_broker(lambda key, correlation: None)
    security = SecuritySettings(protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="u", password="p")
    opened: list[socket.socket] = []
    with pytest.raises(AuthenticationError, match=r"does not support SASL: security.protocol must be PLAINTEXT or SSL"):
        connect(Address("127.0.0.1", broker.port), settings(security=security), 5_000, opening=opened.append)
    assert [each.fileno() for each in opened] == [-1], "it is closed"


def test_a_port_without_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].close()).start()
        with pytest.raises(BrokerUnavailableError, match=r"does it speak TLS on this port|reset"):
            connect(Address(*listener.getsockname()), settings(security=SecuritySettings(protocol="SSL")), 5_000)


def test_a_tls_context_of_the_application(canned_broker: Any) -> None:
    broker = canned_broker(lambda key, correlation: None)

    class Context:
        def wrap_socket(self, plain: socket.socket, server_hostname: str, do_handshake_on_connect: bool) -> Any:
            wrapped.append(server_hostname)
            return plain

    wrapped: list[str] = []
    tls: Any = Context()
    address = Address("127.0.0.1", broker.port)
    connect(address, settings(security=SecuritySettings(protocol="SSL")), 5_000, tls=tls).close()
    assert wrapped == ["127.0.0.1"]
    connect(address, settings(), 5_000, tls=tls).close()
    assert len(wrapped) == 1, "the protocol says whether there is TLS"
