"""Who sends the requests of one connection, through which listener, and what they may do.

A session is created with its connection. Each request refers to it, so that handlers find there what is not in the request: the client's
address and software, its principal, where it finds brokers, and whether it may use a resource. The client id is in each request's own
header. What counts by client, such as quotas, belongs to the session.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple, Protocol

from ottla.security.access import ANONYMOUS, CLUSTER_NAME, Operation, Principal, Resource, ResourceType


class Endpoint(NamedTuple):
    """A broker, and where clients of one listener find it."""

    node_id: int
    host: str
    port: int


class Authorizer(Protocol):
    """Decides what sessions may do."""

    def authorize(self, session: "Session", operation: Operation, resource: Resource) -> bool:
        """Whether the session's principal may do this."""
        ...


class Session:
    """One connection as its requests' handlers see it.

    `listener` is the name of the listener; `endpoint` gives the address of a broker on it, by id: None where it has none there. Without
    an `authorizer` everything is allowed. `client_host` and `client_port` are where the connection comes from, as Kafka prints it, `/` and
    0 where that is not known; `software_name` and `software_version` are empty until the client has sent them with ApiVersions.
    """

    __slots__ = (
        "address", "authorizer", "client_host", "client_port", "endpoint", "listener", "principal", "software_name", "software_version",
    )  # fmt: skip

    def __init__(
        self,
        listener: str,
        endpoint: Callable[[int], Endpoint | None],
        peer: tuple[str, int] | None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.listener = listener
        self.endpoint = endpoint
        self.authorizer = authorizer
        self.address, self.client_port = peer[:2] if peer else ("", 0)
        self.client_host = java_address(self.address) if peer else "/"
        self.principal: Principal = ANONYMOUS
        self.software_name = self.software_version = ""

    def may(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may do this."""
        return self.authorizer is None or self.authorizer.authorize(self, operation, Resource(kind, name))


def java_address(address: str) -> str:
    """An address as Java prints an InetAddress, which is how Kafka shows a member's host: `/127.0.0.1`, `/0:0:0:0:0:0:0:1`."""
    parsed = ip_address(address)
    if parsed.version == 4:
        return f"/{address}"
    if parsed.ipv4_mapped is not None:
        return f"/{parsed.ipv4_mapped}"
    words = ":".join(f"{int.from_bytes(parsed.packed[at : at + 2]):x}" for at in range(0, 16, 2))
    return f"/{words}%{parsed.scope_id}" if parsed.scope_id else f"/{words}"
