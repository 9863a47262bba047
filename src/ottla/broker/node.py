"""One broker of the process: who it is, the groups that it coordinates, its readers' sessions, and what it leads.

Several brokers of a process share one loop, one catalogue and the logs (`cluster`); only what tells them apart is here.
"""

import uuid
from typing import TYPE_CHECKING

from ottla.broker.current_leader import Leader
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.groups import Groups
from ottla.broker.partition import Partition
from ottla.core.catalogue.catalogue import Topic
from ottla.core.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.cluster_state import ClusterState


class Node:
    """One broker. `host` and `port` are what clients are told; it is alive while the catalogue says so."""

    def __init__(self, node_id: int, cluster: "ClusterState") -> None:
        self.id = node_id
        self.cluster = cluster
        self.host = ""
        self.port = 0
        self.groups = Groups(self)
        sessions_max = cluster.config.number("max.incremental.fetch.session.cache.slots")
        self.fetch_sessions = FetchSessions(sessions_max, lambda: uuid.uuid4().int % (2**31 - 1) + 1)

    @property
    def is_alive(self) -> bool:
        """Whether it runs: a stopped broker leads nothing, and nobody is told of it."""
        return self.id in self.cluster.catalogue.live_ids

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> Leader:
        """Where clients find it."""
        return Leader(self.id, self.host, self.port)

    def led(self, topic: str, number: int) -> Partition | ErrorCode:
        """The partition, if this broker leads it. Raises StorageError when its log cannot be opened."""
        known = self.cluster.catalogue.topics.get(topic)
        if known is None or not 0 <= number < len(known.leaders):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not self.leads(known, number):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = self.cluster.partitions.get(known, number)
        assert partition is not None, "a number below the topic's partitions"
        return partition

    def leads(self, topic: Topic, number: int) -> bool:
        """Whether this broker leads a partition that is there."""
        return topic.leaders[number] == self.id
