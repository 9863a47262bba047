"""max.connections.per.ip.overrides: `host:connections` pairs, comma-separated, as Kafka reads them."""

from collections.abc import Mapping
from re import compile as pattern
from typing import Final

_HOST: Final = pattern(r"[0-9a-zA-Z\-%._:]+")
_NAME: Final = "max.connections.per.ip.overrides"


def connection_overrides(text: str) -> Mapping[str, int]:
    """The most connections by host name or address. Raises ValueError with a sentence for other text."""
    overrides: dict[str, int] = {}
    for pair in text.split(","):
        if not pair.strip():
            continue
        host, colon, count = (part.strip() for part in pair.rpartition(":"))
        if not colon or not _HOST.fullmatch(host):
            raise ValueError(f"{_NAME} contains invalid addresses: {pair.strip()!r}; write HOST:CONNECTIONS, comma-separated")
        if not (count.isascii() and count.isdigit()):
            raise ValueError(f"{_NAME}: {count!r} is not a number of connections for {host}")
        overrides[host] = int(count)
    return overrides
