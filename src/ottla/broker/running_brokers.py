"""The brokers of a process inside a running loop: start, stop, and changes while they run.

The embedded brokers and the command line use it. It reads no requests.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from socket import gaierror
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.brokers import Node
from ottla.broker.cluster.leadership import CoordinatorPlace
from ottla.broker.composition import Components
from ottla.broker.network.connection import Server
from ottla.broker.network.limits import check_limit, descriptor_limit, limit_accept_errors
from ottla.broker.network.listener_security import check_listeners, warn_of_listeners
from ottla.config import BrokerConfig, ConfigError, GivenValue, shown
from ottla.config.listeners import ListenerConfig, broker_listeners, connectable, parse_listen
from ottla.groups.events import GroupEvent
from ottla.log.file_system import Files, MemoryFiles
from ottla.log.files import OsFiles
from ottla.metadata.records import NO_LEADER
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.errors import ApiError
from ottla.security.scram_words import ScramUser, parse_scram_user

if TYPE_CHECKING:
    from ottla.broker.clock import Sampler
    from ottla.broker.monitoring.metrics_server import MetricsServer


LOADING_S_MAX = 5.0
"""Groups are loaded when the first client connects; where loading takes longer, the response has COORDINATOR_LOAD_IN_PROGRESS."""
LISTEN: Final = "127.0.0.1:0"
"""Where a broker listens that is told nothing: clients of this machine, any free port."""
SALT_BYTES: Final = 18
BROKERS_MAX = 100
"""More in one process is a mistake."""
Ports = Mapping[int, Mapping[str, int]]
"""The ports of each broker, by id and listener."""
_NO_PORTS: Final[Ports] = {}


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where it is installed, asyncio's otherwise."""
    try:
        import uvloop
    except ImportError:
        loop = asyncio.new_event_loop()
        limit_accept_errors(loop)
        return loop
    return uvloop.new_event_loop()


def check_count(brokers: int) -> None:
    """Raise ConfigError for a number of brokers that is none."""
    if not 1 <= brokers <= BROKERS_MAX:
        raise ConfigError(f"{brokers} brokers in one process: write a number from 1 to {BROKERS_MAX}")


def listeners_of(config: BrokerConfig, listen: str | None, brokers: int) -> tuple[ListenerConfig, ...]:
    """Where the first broker listens: at `listen`, or where the setting `listeners` says. Raises ConfigError where both are given."""
    if listen is not None and config.text("listeners"):
        raise ConfigError(f"the address is given twice: as {shown(listen)!r} (--listen, Broker(listen=...)), and with listeners")
    return broker_listeners(config.text, LISTEN if listen is None else listen, brokers)


def with_listeners(config: Mapping[str, GivenValue] | None, listeners: Sequence[str]) -> Mapping[str, GivenValue] | None:
    """The settings with `listeners`, each `NAME://HOST:PORT`. Raises ConfigError where the setting is there already."""
    if not listeners:
        return config
    if isinstance(listeners, str):
        raise ConfigError(f"listeners are several texts: [{shown(listeners)!r}]")
    if config and "listeners" in config:
        raise ConfigError("the listeners are given twice: with the setting listeners as well")
    return {**(config or {}), "listeners": ",".join(listeners)}


def scram_users_of(texts: Sequence[str]) -> list[ScramUser]:
    """Users in the words of `--add-scram`. Raises ConfigError."""
    try:
        return [parse_scram_user(text, secrets.token_bytes(SALT_BYTES)) for text in texts]
    except ValueError as error:
        raise ConfigError(f"a user of SCRAM: {error}") from error


def check_data_dir(data_dir: str | Path | None) -> None:
    """Raise ConfigError for the empty text, which would mean the working directory."""
    if data_dir == "":
        raise ConfigError("the data directory has no name: name one, or leave it out to keep the data in memory")


class BrokerTask:
    """One broker, or several that share their storage: `start`, then `stop`. All methods belong to the loop."""

    def __init__(
        self,
        data_dir: str | Path | None,
        config: Mapping[str, GivenValue],
        listen: str | None,
        on_group_event: Callable[[GroupEvent], None] | None = None,
        files: Files | None = None,
        metrics: str | None = None,
        brokers: int = 1,
        ports: Ports = _NO_PORTS,
        scram_users: Sequence[str] = (),
    ) -> None:
        """`ports`: where brokers listened before, by id: clients know these ports, so they listen there again. `scram_users`: users that
        there are from the first start on, in the words of `--add-scram` (`ottla.security.scram_words`).
        """
        check_count(brokers)
        checked = BrokerConfig(config, brokers=brokers)
        self._listeners = listeners_of(checked, listen, brokers)
        check_data_dir(data_dir)
        check_limit(descriptor_limit())
        self._listen = listen
        self._ports = {node_id: dict(by_listener) for node_id, by_listener in ports.items()}
        self._metrics_listen = None if metrics is None else parse_listen(metrics)
        check_listeners(self._listeners, self._metrics_listen, checked)
        warn_of_listeners(self._listeners, checked)
        self._metrics: MetricsServer | None = None
        self._samplers: tuple[Sampler, ...] = ()
        self._files: Files = files or (MemoryFiles() if data_dir is None else OsFiles(data_dir))
        self.cluster = Components(self._files, checked, brokers=brokers, on_group_event=on_group_event)
        self._servers: dict[int, list[Server]] = {}
        self._scram_users = scram_users_of(scram_users)

    @property
    def ports(self) -> Ports:
        """The ports of each broker; those of a stopped one as well."""
        return self._ports

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` for clients of the first listener, of every broker that runs, comma-separated."""
        return self.bootstrap_servers_of(None)

    def bootstrap_servers_of(self, listener: str | None) -> str:
        """As `bootstrap_servers`, of one listener. Raises ConfigError when there is none of that name, or it is not advertised."""
        self._check_listener(listener)
        return ",".join(node.address(listener) for node in self.cluster.brokers.nodes.values() if node.is_alive)

    def _check_listener(self, listener: str | None) -> None:
        advertised = [each.name for each in self._listeners if each.advertised is not None]
        if listener is not None and listener not in advertised:
            raise ConfigError(f"there is no listener {shown(listener)} that is advertised: those are {', '.join(advertised)}")

    @property
    def metrics_url(self) -> str | None:
        """Where the metrics are; None when they are not served."""
        if self._metrics is None or self._metrics_listen is None:
            return None
        host, port = connectable(self._metrics_listen[0]), self._metrics.port
        return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"

    def address(self, broker_id: int, listener: str | None = None) -> str:
        """`HOST:PORT` of one broker on a listener (the first), also while it is stopped. Raises ConfigError when there is none."""
        self._check_listener(listener)
        return self._node(broker_id).address(listener)

    def _serve_metrics(self) -> None:
        # Loaded here, since most brokers serve none.
        from ottla.broker.monitoring.group_metrics import alias_metrics, group_metrics
        from ottla.broker.monitoring.group_sampler import start_group_sampler
        from ottla.broker.monitoring.metrics_server import MetricsServer, pages
        from ottla.broker.monitoring.transaction_metrics import TransactionSampler, transaction_metrics

        assert self._metrics_listen is not None
        cluster = self.cluster
        sampler = start_group_sampler(
            coordinators=cluster.coordinators.all,
            partitions=cluster.partitions,
            cluster_metadata=cluster.cluster_metadata,
            cluster_id=cluster.cluster_id,
            clock=cluster.clock,
            events=cluster.events,
        )
        transactions = TransactionSampler(
            coordinators=cluster.transaction_coordinators,
            transactional_ids=cluster.transactional_ids,
            markers=cluster.markers,
            partitions=cluster.partitions,
            max_timeout_ms=cluster.config.number("transaction.max.timeout.ms"),
            clock=cluster.clock,
        )
        transactions.start()
        self._samplers = (sampler, transactions)
        served = pages(
            lambda: cluster.health.snapshot,
            cluster.clock,
            lambda: group_metrics(sampler.snapshot, cluster.clock()),
            lambda: transaction_metrics(transactions.snapshot, cluster.clock()),
            aliases=lambda: alias_metrics(sampler.snapshot, cluster.health.snapshot.partitions),
        )
        self._metrics = MetricsServer(*self._metrics_listen, served, cluster.metrics_access())

    async def start(self) -> None:
        """Read back the data, then opens the listeners. Raises StorageError (also when another broker uses the directory) or OSError."""
        if isinstance(self._files, OsFiles):
            self._files.lock()
        try:
            self.cluster.open()
            self.cluster.add_scram_users(self._scram_users)
            self.cluster.log_manager.start()
            self.cluster.cleaner.start()
            self.cluster.health.start()
            self.cluster.directory_watch.start()
            if self._metrics_listen is not None:
                self._serve_metrics()
            await self.cluster.loaded(LOADING_S_MAX)
            for node in self.cluster.brokers.nodes.values():
                await self._open_listeners(node)
        except BaseException:
            await self.stop()
            raise

    async def _open_listeners(self, node: Node) -> None:
        """All or none. A broker that was stopped starts again on its old ports, which clients know."""
        place = node.id - self.cluster.config.node_id
        servers = self.cluster.servers(node, self._listeners)
        ports = self._ports.setdefault(node.id, {})
        started: list[Server] = []
        try:
            for name, host, first_port, advertised, protocol in self._listeners:
                port = ports.get(name) or (first_port + place if first_port else 0)
                ports[name] = port = await servers[name].start(host, port)
                started.append(servers[name])
                if advertised is not None:
                    advertised = advertised[0], advertised[1] + place if advertised[1] else port
                node.listeners[name] = ListenerConfig(name, host, port, advertised, protocol)
        except OSError as error:
            for server in started:
                server.stop_reading()
                server.stop()
            if isinstance(error, gaierror):
                raise OSError(f"cannot listen on {host}: {error.strerror}") from error
            raise
        self._servers[node.id] = started

    async def stop(self) -> None:
        """Close the listeners, reads no more requests, closes every log, cleanly, and then every connection. Raises StorageError."""
        servers = [server for by_listener in self._servers.values() for server in by_listener]
        for server in servers:
            # First of all: as long as there are requests there may always be one that waits for a sync.
            server.stop_reading()
        if self._metrics is not None:
            self._metrics.close()
        try:
            for sampler in self._samplers:
                await sampler.stop()
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
        self._close_listeners(node)

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker on its old port; it leads the partitions without another replica. Raises StorageError or OSError."""
        node = self._node(broker_id)
        if not node.is_alive:
            await self._begin(node)

    async def add_broker(self) -> int:
        """Add a broker; existing partitions do not move, new topics use it too. Raises ConfigError or OSError."""
        brokers = len(self.cluster.brokers.nodes) + 1
        check_count(brokers)
        listeners_of(BrokerConfig(self.cluster.config.given, brokers=brokers), self._listen, brokers)
        node = self.cluster.add_node()
        try:
            await self._begin(node)
        except BaseException:
            self.cluster.remove_node(node)
            self._ports.pop(node.id, None)
            raise
        return node.id

    async def _begin(self, node: Node) -> None:
        """All of it or none: a broker that leads no partition for want of a disk does not listen either."""
        await self._open_listeners(node)
        try:
            self.cluster.leadership.broker_started(node)
        except BaseException:
            self._close_listeners(node)
            raise

    def _close_listeners(self, node: Node) -> None:
        for server in self._servers.pop(node.id):
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
