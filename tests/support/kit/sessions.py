"""Sessions and addresses of brokers, for requests that come through no socket."""

from collections.abc import Callable

from ottla.broker.cluster.brokers import Node
from ottla.broker.network.request import Authorizer, Endpoint, Session
from ottla.config.listeners import ListenerConfig


def client_session(
    endpoint: Callable[[int], Endpoint | None] = lambda _: None, *, listener: str = "PLAINTEXT", authorizer: Authorizer | None = None
) -> Session:
    """A session that begins at 127.0.0.1, on a listener whose brokers are found with `endpoint`."""
    return Session(listener, endpoint, ("127.0.0.1", 50_000), authorizer)


def listen(node: Node, host: str, port: int, *, at: str | None = None) -> None:
    """Let clients find a broker at this address; it accepts connections `at` another host, if one is given."""
    node.listeners["PLAINTEXT"] = ListenerConfig("PLAINTEXT", at or host, port, (host, port))
