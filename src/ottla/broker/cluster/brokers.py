"""The brokers of the process, running or stopped: ids, addresses, what each leads; and how Fetch and Produce name leaders (KIP-951).

Requests that name partitions which may have to be opened first wait for worker threads, and are answered in pieces. Order within a
connection is kept, since a connection has one request under way. The API's own file decides the response.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

from ottla.broker.network.request import Endpoint, Request, nothing
from ottla.broker.network.scheduling import Background, RequestScheduler, Work
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.config.listeners import ListenerConfig
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.primitives import Writer

_LEADER: Final = Struct(">BBBiiB")
_LEADER_BYTES, _ENDPOINTS_TAG = 9, 0

_CHECKED_PER_PIECE: Final = 256


def pack_leader(out: Writer, tag: int, leader_id: int, leader_epoch: int) -> None:
    """The tagged section of a partition, with nothing but its leader."""
    out.data += _LEADER.pack(1, tag, _LEADER_BYTES, leader_id, leader_epoch, 0)


def pack_endpoints(out: Writer, leader_ids: Iterable[int], leader_of: Callable[[int], Endpoint | None]) -> None:
    """The end of the response: where the leaders are that it names. `leader_of` knows brokers by id."""
    leaders = [leader for each in sorted(set(leader_ids)) if (leader := leader_of(each)) is not None]
    if not leaders:
        out.end()
        return
    endpoints = Writer(flexible=True).array(len(leaders))
    for leader in leaders:
        endpoints.int32(leader.node_id).string(leader.host).int32(leader.port).nullable_string(None).end()
    out.tagged_fields({_ENDPOINTS_TAG: endpoints.data})


class Node:
    """One broker. `listeners`, by name, are where it accepts connections and where clients of each find it; they have their ports once it
    listens. It runs while the cluster metadata says so.
    """

    def __init__(self, node_id: int, *, cluster_metadata: ClusterMetadata, partitions: Partitions) -> None:
        self.id = node_id
        self.listeners: dict[str, ListenerConfig] = {}
        self._cluster_metadata = cluster_metadata
        self._partitions = partitions

    @property
    def is_alive(self) -> bool:
        """Whether it runs: a stopped broker leads nothing, and is not named to clients."""
        return self.id in self._cluster_metadata.live_ids

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where clients of a listener find it; None where it does not advertise that listener."""
        known = self.listeners.get(listener)
        return None if known is None or known.advertised is None else Endpoint(self.id, *known.advertised)

    def address(self, listener: str | None = None) -> str:
        """`HOST:PORT` for clients of a listener, without a name of the first that is advertised; "" when there is none."""
        names = self.listeners if listener is None else (listener,)
        endpoint = next((endpoint for name in names if (endpoint := self.endpoint(name)) is not None), None)
        return "" if endpoint is None else address_text(endpoint.host, endpoint.port)

    def led(self, topic: str, number: int) -> Partition | ErrorCode:
        """The partition, if this broker leads it. Raises StorageError when its log cannot be opened."""
        known = self._cluster_metadata.topics.get(topic)
        if known is None or not 0 <= number < len(known.leaders):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not self.leads(known, number):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = self._partitions.get(known, number)
        assert partition is not None, "a number below the topic's partitions"
        return partition

    def leads(self, topic: Topic, number: int) -> bool:
        """Whether this broker leads a partition that exists."""
        return topic.leaders[number] == self.id


def address_text(host: str, port: int) -> str:
    """`HOST:PORT`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Brokers:
    """`nodes` has every broker, in the order of their ids."""

    def __init__(self, cluster_metadata: ClusterMetadata) -> None:
        self.nodes: dict[int, Node] = {}
        self._cluster_metadata = cluster_metadata

    @property
    def controller_id(self) -> int:
        """The broker that clients take for the controller: the first that runs; -1 when none runs."""
        return next((node.id for node in self.nodes.values() if node.is_alive), -1)

    def endpoint(self, listener: str, node_id: int) -> Endpoint | None:
        """Where clients of a listener find a broker; None when there is no such broker, or it does not advertise that listener."""
        node = self.nodes.get(node_id)
        return None if node is None else node.endpoint(listener)

    def add(self, node: Node) -> None:
        """Add a broker that does not run yet."""
        self.nodes[node.id] = node
        self._cluster_metadata.broker_ids = tuple(self.nodes)

    def remove(self, node: Node) -> None:
        """Remove a broker that could not be started."""
        del self.nodes[node.id]
        self._cluster_metadata.broker_ids = tuple(self.nodes)


class PartitionOpening:
    """The partitions that one broker leads."""

    def __init__(
        self,
        *,
        node: Node,
        cluster_metadata: ClusterMetadata,
        partitions: Partitions,
        scheduler: RequestScheduler,
        background: Background,
    ) -> None:
        self._node = node
        self._cluster_metadata = cluster_metadata
        self._partitions = partitions
        self._scheduler = scheduler
        self._background = background

    def then(self, request: Request, named: Iterable[tuple[str, int]], answer: Callable[[], Work | None]) -> None:
        """Call `answer` when the partitions of `named` that this broker leads are open, offline or gone: at once when they are already.

        `answer` may return the rest of its work.
        """
        self._scheduler.run(request, self._open_then_answer(request, named, answer))

    def _open_then_answer(self, request: Request, named: Iterable[tuple[str, int]], answer: Callable[[], Work | None]) -> Work:
        topics, partitions = self._cluster_metadata.topics, self._partitions
        unopened: list[tuple[Topic, int]] = []
        for count, (name, number) in enumerate(named, 1):
            topic = topics.get(name)
            is_led = topic is not None and 0 <= number < len(topic.leaders) and self._node.leads(topic, number)
            if topic is not None and is_led and not partitions.is_ready(topic, number):
                unopened.append((topic, number))
            if count % _CHECKED_PER_PIECE == 0:
                yield
        if not unopened:
            yield from answer() or ()
            return

        async def open_then_answer() -> None:
            await partitions.open_all(unopened)
            request.on_disconnect = nothing
            work = answer()
            if work is not None:
                self._scheduler.run(request, work)

        task = self._background.start(request, open_then_answer())

        def on_disconnect() -> None:
            task.cancel()

        request.on_disconnect = on_disconnect
