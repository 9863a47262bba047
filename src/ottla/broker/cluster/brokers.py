"""The brokers of a process by id, running or stopped, as the Metadata and DescribeCluster APIs show them."""

from ottla.broker.cluster.node import Node
from ottla.broker.protocol.current_leader import Leader
from ottla.core.metadata.cluster_metadata import ClusterMetadata


class Brokers:
    """`nodes` has every broker, in the order of their ids."""

    def __init__(self, cluster_metadata: ClusterMetadata) -> None:
        self.nodes: dict[int, Node] = {}
        self._cluster_metadata = cluster_metadata

    @property
    def controller_id(self) -> int:
        """The broker that clients take for the controller: the first that runs; -1 when none runs."""
        return next((node.id for node in self.nodes.values() if node.is_alive), -1)

    def endpoint(self, node_id: int) -> Leader | None:
        """Where a broker is, None when there is no such broker."""
        node = self.nodes.get(node_id)
        return None if node is None else node.endpoint

    def add(self, node: Node) -> None:
        """Add a broker that does not run yet."""
        self.nodes[node.id] = node
        self._cluster_metadata.broker_ids = tuple(self.nodes)

    def remove(self, node: Node) -> None:
        """Remove a broker that could not be started."""
        del self.nodes[node.id]
        self._cluster_metadata.broker_ids = tuple(self.nodes)
