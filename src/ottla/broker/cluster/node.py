"""One broker of the process: its id, its address, and what it leads. What it serves belongs to other classes."""

from ottla.broker.logs.partition import Partition
from ottla.broker.logs.partitions import Partitions
from ottla.broker.protocol.current_leader import Leader
from ottla.core.errors import ErrorCode
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.topics import Topic


class Node:
    """One broker. Clients find it at `host` and `port`; it runs while the cluster metadata says so.

    It accepts connections at `listens_on`, a host or an address, which may be one that clients cannot connect to (0.0.0.0).
    """

    def __init__(self, node_id: int, *, cluster_metadata: ClusterMetadata, partitions: Partitions) -> None:
        self.id = node_id
        self.host = self.listens_on = ""
        self.port = 0
        self._cluster_metadata = cluster_metadata
        self._partitions = partitions

    @property
    def is_alive(self) -> bool:
        """Whether it runs: a stopped broker leads nothing, and is not named to clients."""
        return self.id in self._cluster_metadata.live_ids

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return _address(self.host, self.port)

    @property
    def listener(self) -> str:
        """`HOST:PORT` that it accepts connections at."""
        return _address(self.listens_on, self.port)

    @property
    def endpoint(self) -> Leader:
        """Where clients find it."""
        return Leader(self.id, self.host, self.port)

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


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
