"""Several embedded brokers, started from Python: each with its listener and node id, their storage shared.

There is nothing to replicate to: what one broker has written, every other one reads. Use it to see groups through leader and coordinator
moves and brokers that go; to survive the loss of a machine, use Apache Kafka.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.broker.cluster.leadership import CoordinatorPlace
from ottla.broker.embedded import Embedded
from ottla.core.config import GivenValue
from ottla.core.model import GroupEvent


class Cluster(Embedded):
    """`brokers` Kafka brokers inside this process, in one thread; their ids begin with `node.id` (1).

    The arguments are those of `Broker`. With `listen` on a port other than 0, each further broker listens on the next one. Topics with one
    replica have no leader while their broker is stopped, as with Apache Kafka; with more, another takes over. `default.replication.factor`
    is 1, that of the offsets topic is `offsets.topic.replication.factor` (3) or the number of brokers, if that is smaller.

        with Cluster(brokers=3) as cluster:
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
            cluster.move_coordinator("g", to=2)
    """

    def __init__(
        self,
        brokers: int = 3,
        data_dir: str | Path | None = None,
        *,
        config: Mapping[str, GivenValue] | None = None,
        listen: str = "127.0.0.1:0",
        on_group_event: Callable[[GroupEvent], None] | None = None,
        metrics: str | None = None,
    ) -> None:
        super().__init__(data_dir, config, listen, on_group_event, metrics, brokers)

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of all brokers, stopped ones too."""
        return tuple(self._running().cluster.brokers.nodes)

    @property
    def live_brokers(self) -> tuple[int, ...]:
        """The ids of those that run."""
        return tuple(node.id for node in self._running().cluster.brokers.nodes.values() if node.is_alive)

    def address(self, broker_id: int) -> str:
        """`HOST:PORT` of one broker. Raises ConfigError when there is none of that id."""
        return self._running().address(broker_id)

    def stop_broker(self, broker_id: int) -> None:
        """Stop one broker: its connections end, others that hold its partitions take over. Raises ConfigError, StorageError."""
        self._in_loop(self._running().stop_broker(broker_id))

    def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker, on its old port. Raises ConfigError, StorageError, OSError."""
        self._in_loop(self._running().start_broker(broker_id))

    def add_broker(self) -> int:
        """Start one broker more, and return its id. Raises ConfigError, OSError."""
        return self._in_loop(self._running().add_broker())

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader of a partition, None when it has none. Raises ConfigError when there is no such partition."""
        return self._in_loop(self._running().leader(topic, partition))

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make broker `to` the leader of a partition. Raises ConfigError when that cannot be, StorageError."""
        self._in_loop(self._running().move_leader(topic, partition, to))

    def coordinator(self, group_id: str) -> CoordinatorPlace:
        """Where a group is coordinated. Raises StorageError when the offsets topic cannot be made."""
        return self._in_loop(self._running().coordinator(group_id))

    def move_coordinator(self, group_id: str, to: int) -> None:
        """Make broker `to` the coordinator of a group, and of all others in its partition. Raises ConfigError, StorageError."""
        self._in_loop(self._running().move_coordinator(group_id, to))
