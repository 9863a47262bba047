"""Addresses of brokers, and bootstrap lists. It resolves no names and opens no connections."""

from typing import NamedTuple


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int


class BrokerEndpoint(NamedTuple):
    """A broker's id and address (Kafka's Node)."""

    broker_id: int
    host: str
    port: int


def parse_addresses(bootstrap_servers: str) -> list[Address]:
    """The addresses of a bootstrap list, "host:port,[::1]:port". Raises ValueError that names the malformed part."""
    addresses = []
    for part in bootstrap_servers.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65536):
            raise ValueError(f"{part.strip()!r} is no host:port")
        addresses.append(Address(host.strip("[]"), int(port)))
    return addresses
