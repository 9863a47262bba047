"""The brokers of a process inside a running loop: start, stop, and changes while they run.

The embedded brokers and the command line use it. It reads no requests.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from socket import gaierror
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.leadership import CoordinatorPlace
from ottla.broker.cluster.node import Node
from ottla.broker.composition import Components
from ottla.broker.network.descriptors import check_limit, descriptor_limit, limit_accept_errors
from ottla.broker.network.server import Server
from ottla.core.config import BrokerConfig, ConfigError, GivenValue, shown
from ottla.core.errors import ApiError
from ottla.core.metadata.records import NO_LEADER
from ottla.core.metadata.topics import CONSUMER_OFFSETS
from ottla.core.model import GroupEvent
from ottla.storage.file_system import Files
from ottla.storage.files import OsFiles
from ottla.storage.memory_files import MemoryFiles

if TYPE_CHECKING:
    from ottla.broker.monitoring.group_sampler import GroupSampler
    from ottla.broker.monitoring.metrics_server import MetricsServer

log = logging.getLogger(__name__)

LOADING_S_MAX = 5.0
"""Groups are loaded when the first client connects; where loading takes longer, the response has COORDINATOR_LOAD_IN_PROGRESS."""
PORT_MAX = 65535
_PORT_DIGITS_MAX = 5
_HOST_CHARS_MAX = 253
BROKERS_MAX = 100
"""More in one process is a mistake."""
_NO_PORTS: Final[Mapping[int, int]] = {}


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where it is installed, asyncio's otherwise."""
    try:
        import uvloop
    except ImportError:
        loop = asyncio.new_event_loop()
        limit_accept_errors(loop)
        return loop
    return uvloop.new_event_loop()


def parse_listen(listen: str) -> tuple[str, int]:
    """`HOST:PORT` in two; raises ConfigError, which says what to write instead."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or "/" in host or not (port.isdecimal() and len(port) <= _PORT_DIGITS_MAX) or int(port) > PORT_MAX:
        raise ConfigError(f"cannot listen on {shown(listen)!r}: write HOST:PORT, for example 127.0.0.1:9092 (port 0 takes any free one)")
    host = host.strip("[]")
    try:
        is_name = "\0" not in host and bool(host.encode("idna"))
    except UnicodeError:
        is_name = False
    if not is_name or len(host) > _HOST_CHARS_MAX:
        what = f"a name has at most {_HOST_CHARS_MAX} characters, and 63 between two dots"
        raise ConfigError(f"cannot listen on {shown(listen)!r}: {shown(host)!r} is not a host name or address ({what})")
    return host, int(port)


def check_count(brokers: int, listen: str) -> None:
    """Raise ConfigError when so many brokers cannot listen there: each after the first takes the next port."""
    _, port = parse_listen(listen)
    if not 1 <= brokers <= BROKERS_MAX:
        raise ConfigError(f"{brokers} brokers in one process: write a number from 1 to {BROKERS_MAX}")
    if port and port + brokers - 1 > PORT_MAX:
        raise ConfigError(f"{brokers} brokers cannot listen on port {port} and those that follow: the last port is {PORT_MAX}")


def check_data_dir(data_dir: str | Path | None) -> None:
    """Raise ConfigError for the empty text, which would mean the working directory."""
    if data_dir == "":
        raise ConfigError("the data directory has no name: name one, or leave it out to keep the data in memory")


def _connectable(host: str) -> str:
    """No client can connect to a wildcard address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


class BrokerTask:
    """One broker, or several that share their storage: `start`, then `stop`. All methods belong to the loop."""

    def __init__(
        self,
        data_dir: str | Path | None,
        config: Mapping[str, GivenValue],
        listen: str,
        on_group_event: Callable[[GroupEvent], None] | None = None,
        files: Files | None = None,
        metrics: str | None = None,
        brokers: int = 1,
        ports: Mapping[int, int] = _NO_PORTS,
    ) -> None:
        """`ports`: where brokers listened before, by id: clients know these ports, so they listen there again."""
        check_count(brokers, listen)
        check_data_dir(data_dir)
        check_limit(descriptor_limit())
        self._listen = listen
        self._metrics_listen = None if metrics is None else parse_listen(metrics)
        self._metrics: MetricsServer | None = None
        self._group_sampler: GroupSampler | None = None
        self._files: Files = files or (MemoryFiles() if data_dir is None else OsFiles(data_dir))
        self.cluster = Components(self._files, BrokerConfig(config, brokers=brokers), brokers=brokers, on_group_event=on_group_event)
        self._servers: dict[int, Server] = {}
        for node in self.cluster.brokers.nodes.values():
            node.port = ports.get(node.id, 0)

    @property
    def ports(self) -> Mapping[int, int]:
        """The port of each broker, by id; that of a stopped one as well."""
        return {node.id: node.port for node in self.cluster.brokers.nodes.values()}

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` for clients, of every broker that runs, comma-separated."""
        return ",".join(node.address for node in self.cluster.brokers.nodes.values() if node.is_alive)

    @property
    def metrics_url(self) -> str | None:
        """Where the metrics are; None when they are not served."""
        if self._metrics is None or self._metrics_listen is None:
            return None
        host, port = _connectable(self._metrics_listen[0]), self._metrics.port
        return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"

    def address(self, broker_id: int) -> str:
        """`HOST:PORT` of one broker, also while it is stopped. Raises ConfigError when there is none of that id."""
        return self._node(broker_id).address

    def _serve_metrics(self) -> None:
        # Loaded here, since most brokers serve none.
        from ottla.broker.monitoring.group_aliases import alias_metrics
        from ottla.broker.monitoring.group_metrics import group_metrics
        from ottla.broker.monitoring.group_sampler import start_group_sampler
        from ottla.broker.monitoring.metrics_pages import pages
        from ottla.broker.monitoring.metrics_server import MetricsServer

        assert self._metrics_listen is not None
        cluster = self.cluster
        sampler = self._group_sampler = start_group_sampler(
            coordinators=cluster.coordinators.all,
            partitions=cluster.partitions,
            cluster_metadata=cluster.cluster_metadata,
            cluster_id=cluster.cluster_id,
            clock=cluster.clock,
            events=cluster.events,
        )
        served = pages(
            lambda: cluster.health.snapshot,
            cluster.clock,
            lambda: group_metrics(sampler.snapshot, cluster.clock()),
            aliases=lambda: alias_metrics(sampler.snapshot, cluster.health.snapshot.partitions),
        )
        self._metrics = MetricsServer(*self._metrics_listen, served)

    async def start(self) -> None:
        """Read back the data, then opens the listeners. Raises StorageError (also when another broker uses the directory) or OSError."""
        if isinstance(self._files, OsFiles):
            self._files.lock()
        try:
            self.cluster.open()
            self.cluster.log_manager.start()
            self.cluster.cleaner.start()
            self.cluster.health.start()
            self.cluster.directory_watch.start()
            if self._metrics_listen is not None:
                self._serve_metrics()
            await self.cluster.loaded(LOADING_S_MAX)
            for node in self.cluster.brokers.nodes.values():
                await self._open_listener(node)
        except BaseException:
            await self.stop()
            raise

    async def _open_listener(self, node: Node) -> None:
        """A broker that was stopped starts again on its old port, which clients know."""
        host, first_port = parse_listen(self._listen)
        port = node.port or (first_port + node.id - self.cluster.config.node_id if first_port else 0)
        server = self.cluster.server(node)
        try:
            port = await server.start(host, port)
        except gaierror as error:
            raise OSError(f"cannot listen on {host}: {error.strerror}") from error
        self._servers[node.id] = server
        node.host, node.listens_on, node.port = _connectable(host), host, port

    async def stop(self) -> None:
        """Close the listeners, reads no more requests, closes every log, cleanly, and then every connection. Raises StorageError."""
        servers = list(self._servers.values())
        for server in servers:
            # First of all: as long as there are requests there may always be one that waits for a sync.
            server.stop_reading()
        if self._metrics is not None:
            self._metrics.close()
        try:
            if self._group_sampler is not None:
                await self._group_sampler.stop()
            await self.cluster.directory_watch.stop()
            await self.cluster.health.stop()
            await self.cluster.cleaner.stop()
            await self.cluster.deletions.write()
            if servers:
                await self.cluster.events.open()
            await self.cluster.partitions.settle()
            self.cluster.close()
        finally:
            for server in servers:
                server.stop()
            if isinstance(self._files, OsFiles):
                self._files.unlock()
        await asyncio.sleep(0)

    # --- one broker of several

    async def stop_broker(self, broker_id: int) -> None:
        """Stop one: its connections are closed, and other replicas lead its partitions. Raises ConfigError for the last, StorageError."""
        node = self._node(broker_id)
        if not node.is_alive:
            return
        if len(self.cluster.cluster_metadata.live_ids) == 1:
            raise ConfigError(f"broker {broker_id} is the last one that runs: stop the whole cluster instead")
        self.cluster.leadership.broker_stopped(node)
        self._close_listener(node)

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker on its old port; it leads the partitions without another replica. Raises StorageError or OSError."""
        node = self._node(broker_id)
        if not node.is_alive:
            await self._begin(node)

    async def add_broker(self) -> int:
        """Add a broker; existing partitions do not move, new topics use it too. Raises ConfigError or OSError."""
        brokers = len(self.cluster.brokers.nodes) + 1
        check_count(brokers, self._listen)
        BrokerConfig(self.cluster.config.given, brokers=brokers)
        node = self.cluster.add_node()
        try:
            await self._begin(node)
        except BaseException:
            self.cluster.remove_node(node)
            raise
        return node.id

    async def _begin(self, node: Node) -> None:
        """All of it or none: a broker that leads no partition for want of a disk does not listen either."""
        await self._open_listener(node)
        try:
            self.cluster.leadership.broker_started(node)
        except BaseException:
            self._close_listener(node)
            raise

    def _close_listener(self, node: Node) -> None:
        server = self._servers.pop(node.id)
        server.stop_reading()
        server.stop()

    async def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make broker `to` the leader of a partition. Raises ConfigError when that cannot be, StorageError."""
        refused = self.cluster.leadership.move(topic, partition, to)
        if isinstance(refused, ApiError):
            raise ConfigError(refused.message)

    async def leader(self, topic: str, partition: int) -> int | None:
        """The leader of a partition, None when it has none. Raises ConfigError when there is no such partition."""
        known = self.cluster.cluster_metadata.topics.get(topic)
        if known is None or not 0 <= partition < len(known.leaders):
            raise ConfigError(f"there is no partition {topic}-{partition}")
        leader = known.leaders[partition]
        return None if leader == NO_LEADER else leader

    async def coordinator(self, group_id: str) -> CoordinatorPlace:
        """Where a group is coordinated. Raises StorageError when the offsets topic cannot be made."""
        return self.cluster.leadership.coordinator(group_id)

    async def move_coordinator(self, group_id: str, to: int) -> None:
        """Make broker `to` the coordinator of a group, and of all others in its partition. Raises ConfigError, StorageError."""
        await self.move_leader(CONSUMER_OFFSETS, self.cluster.leadership.coordinator(group_id).partition, to)

    def _node(self, broker_id: int) -> Node:
        node = self.cluster.brokers.nodes.get(broker_id)
        if node is None:
            raise ConfigError(f"there is no broker {broker_id}: the brokers are {', '.join(map(str, self.cluster.brokers.nodes))}")
        return node
