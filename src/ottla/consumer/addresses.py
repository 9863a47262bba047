"""Where brokers listen: addresses, and the texts that name several of them. Nothing is looked up or connected to."""

from typing import NamedTuple


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


def parse_addresses(bootstrap_servers: str) -> list[Address]:
    """The addresses of a bootstrap list, "host:port,[::1]:port". Raises ValueError, naming the part that is none."""
    addresses = []
    for part in bootstrap_servers.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65536):
            raise ValueError(f"{part.strip()!r} is no host:port")
        addresses.append(Address(host.strip("[]"), int(port)))
    return addresses
