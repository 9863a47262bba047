"""The brokers of a process inside a running loop: their life, and what may be done to them while they run.

The embedded brokers and the command line are shells around it. It decides nothing about messages.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from socket import gaierror
from typing import TYPE_CHECKING

from ottla.broker.cluster_state import ClusterState
from ottla.broker.descriptors import check_limit, descriptor_limit, limit_accept_errors
from ottla.broker.leadership import CoordinatorPlace
from ottla.broker.node import Node
from ottla.broker.server import Server, listen
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS
from ottla.core.catalogue.records import NO_LEADER
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.config import BrokerConfig, ConfigError, GivenValue, shown
from ottla.core.model import GroupEvent
from ottla.storage.files import Files, OsFiles
from ottla.storage.memory_files import MemoryFiles

if TYPE_CHECKING:
    from ottla.broker.group_watch import GroupWatch
    from ottla.broker.metrics_server import MetricsServer

log = logging.getLogger("ottla.broker")

LOADING_S_MAX = 5.0
"""Groups are there when the first client connects; where there are so many that it takes longer, clients hear that they are loading."""
PORT_MAX = 65535
_PORT_DIGITS_MAX = 5
_HOST_CHARS_MAX = 253
BROKERS_MAX = 100
"""More in one process is a mistake."""


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
    """`HOST:PORT` in two; raises ConfigError with what to write instead."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not (port.isdecimal() and len(port) <= _PORT_DIGITS_MAX) or int(port) > PORT_MAX:
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
    """Raises ConfigError when so many brokers cannot listen there: each after the first takes the next port."""
    _, port = parse_listen(listen)
    if not 1 <= brokers <= BROKERS_MAX:
        raise ConfigError(f"{brokers} brokers in one process: write a number from 1 to {BROKERS_MAX}")
    if port and port + brokers - 1 > PORT_MAX:
        raise ConfigError(f"{brokers} brokers cannot listen on port {port} and those that follow: the last port is {PORT_MAX}")


def check_data_dir(data_dir: str | Path | None) -> None:
    """Raises ConfigError for the empty text, which would mean the working directory."""
    if data_dir == "":
        raise ConfigError("the data directory has no name: name one, or leave it out to keep the data in memory")


def _connectable(host: str) -> str:
    """A wildcard address is nothing a client could connect to."""
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
    ) -> None:
        check_count(brokers, listen)
        check_data_dir(data_dir)
        check_limit(descriptor_limit())
        self._listen = listen
        self._metrics_listen = None if metrics is None else parse_listen(metrics)
        self._metrics: MetricsServer | None = None
        self._group_watch: GroupWatch | None = None
        self._files: Files = files or (MemoryFiles() if data_dir is None else OsFiles(data_dir))
        self.cluster = ClusterState(self._files, BrokerConfig(config, brokers=brokers), brokers=brokers, on_group_event=on_group_event)
        self._servers: dict[int, tuple[Server, asyncio.AbstractServer]] = {}

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` for clients, of every broker that runs, comma-separated."""
        return ",".join(node.address for node in self.cluster.nodes.values() if node.is_alive)

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
        from ottla.broker.group_aliases import alias_metrics
        from ottla.broker.group_metrics import group_metrics
        from ottla.broker.group_watch import watch_groups
        from ottla.broker.metrics import pages
        from ottla.broker.metrics_server import MetricsServer

        assert self._metrics_listen is not None
        cluster = self.cluster
        watch = self._group_watch = watch_groups(cluster)
        served = pages(
            lambda: cluster.health.view,
            cluster.clock,
            lambda: group_metrics(watch.picture, cluster.clock()),
            aliases=lambda: alias_metrics(watch.picture, cluster.health.view.partitions),
        )
        self._metrics = MetricsServer(*self._metrics_listen, served)

    async def start(self) -> None:
        """Reads back the data, then opens the listeners. Raises StorageError (also when another broker uses the directory) or OSError."""
        if isinstance(self._files, OsFiles):
            self._files.lock()
        try:
            self.cluster.open()
            self.cluster.log_manager.begin()
            self.cluster.cleaner.begin()
            self.cluster.health.begin()
            self.cluster.directory_watch.begin()
            if self._metrics_listen is not None:
                self._serve_metrics()
            await self.cluster.loaded(LOADING_S_MAX)
            for node in self.cluster.nodes.values():
                await self._open_listener(node)
        except BaseException:
            await self.stop()
            raise

    async def _open_listener(self, node: Node) -> None:
        """A broker that was stopped comes back to its port, since clients know it by that."""
        host, first_port = parse_listen(self._listen)
        port = node.port or (first_port + node.id - self.cluster.config.node_id if first_port else 0)
        try:
            server, sockets, port = await listen(node, host, port)
        except gaierror as error:
            raise OSError(f"cannot listen on {host}: {error.strerror}") from error
        self._servers[node.id] = server, sockets
        node.host, node.port = _connectable(host), port

    async def stop(self) -> None:
        """Closes the listeners, reads no more requests, closes every log, cleanly, and then every connection. Raises StorageError."""
        servers = list(self._servers.values())
        for server, sockets in servers:
            sockets.close()
            # First of all: as long as there are requests there may always be one that waits for a sync.
            server.stop_reading()
        if self._metrics is not None:
            self._metrics.close()
        try:
            if self._group_watch is not None:
                await self._group_watch.stop()
            await self.cluster.directory_watch.stop()
            await self.cluster.health.stop()
            await self.cluster.cleaner.stop()
            await self.cluster.deletions.write()
            if servers:
                await self.cluster.events.open()
            await self.cluster.partitions.settle()
            self.cluster.close()
        finally:
            for server, _ in servers:
                server.close()
            if isinstance(self._files, OsFiles):
                self._files.unlock()
        await asyncio.sleep(0)

    # --- one broker of several

    async def stop_broker(self, broker_id: int) -> None:
        """Stops one: its connections end, and others lead what it led, if they hold it. Raises ConfigError for the last, StorageError."""
        node = self._node(broker_id)
        if not node.is_alive:
            return
        if len(self.cluster.catalogue.live_ids) == 1:
            raise ConfigError(f"broker {broker_id} is the last one that runs: stop the whole cluster instead")
        self.cluster.leadership.gone(node)
        self._close_listener(node)

    async def start_broker(self, broker_id: int) -> None:
        """Starts one that was stopped, on its old port; it leads what nobody else could. Raises StorageError or OSError."""
        node = self._node(broker_id)
        if not node.is_alive:
            await self._begin(node)

    async def add_broker(self) -> int:
        """One more broker; what is there stays where it is, new topics use it too. Raises ConfigError or OSError."""
        brokers = len(self.cluster.nodes) + 1
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
        """All of it or nothing: a broker that leads nothing for want of a disk does not listen either."""
        await self._open_listener(node)
        try:
            self.cluster.leadership.back(node)
        except BaseException:
            self._close_listener(node)
            raise

    def _close_listener(self, node: Node) -> None:
        server, sockets = self._servers.pop(node.id)
        sockets.close()
        server.stop_reading()
        server.close()

    async def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Makes broker `to` the leader of a partition. Raises ConfigError when that cannot be, StorageError."""
        refused = self.cluster.leadership.move(topic, partition, to)
        if isinstance(refused, Refused):
            raise ConfigError(refused.message)

    async def leader(self, topic: str, partition: int) -> int | None:
        """Who leads a partition, None when nobody does. Raises ConfigError when there is no such partition."""
        known = self.cluster.catalogue.topics.get(topic)
        if known is None or not 0 <= partition < len(known.leaders):
            raise ConfigError(f"there is no partition {topic}-{partition}")
        leader = known.leaders[partition]
        return None if leader == NO_LEADER else leader

    async def coordinator(self, group_id: str) -> CoordinatorPlace:
        """Who coordinates a group (S0.4). Raises StorageError when the offsets topic cannot be made."""
        return self.cluster.leadership.coordinator(group_id)

    async def move_coordinator(self, group_id: str, to: int) -> None:
        """Makes broker `to` the coordinator of a group, and of all others in its partition. Raises ConfigError, StorageError."""
        await self.move_leader(CONSUMER_OFFSETS, self.cluster.leadership.coordinator(group_id).partition, to)

    def _node(self, broker_id: int) -> Node:
        node = self.cluster.nodes.get(broker_id)
        if node is None:
            raise ConfigError(f"there is no broker {broker_id}: the brokers are {', '.join(map(str, self.cluster.nodes))}")
        return node
