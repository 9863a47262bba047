"""Brokers inside this Python process, with a thread and an event loop of their own: `Broker` is one, `Cluster` several with shared storage.

`Embedded`, the base of both, runs work in that loop and waits for it; it makes no decisions. What the brokers do is in `running_brokers`.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ottla.broker.cluster.leadership import CoordinatorPlace
from ottla.broker.monitoring.health import HealthSnapshot
from ottla.broker.network.limits import check_limit, descriptor_limit
from ottla.broker.network.listener_security import check_listeners
from ottla.broker.running_brokers import (
    BrokerTask,
    Ports,
    check_count,
    check_data_dir,
    listeners_of,
    new_event_loop,
    scram_users_of,
    with_listeners,
)
from ottla.config import BrokerConfig, GivenValue
from ottla.config.listeners import parse_listen
from ottla.groups.events import GroupEvent
from ottla.log.file_system import Files, MemoryFiles

_PYTHON_MESSAGE: Final = "can't start new thread"


def is_no_thread(error: BaseException) -> bool:
    """Whether an error means that no thread could be started."""
    return isinstance(error, RuntimeError) and _PYTHON_MESSAGE in str(error)


def no_thread(error: BaseException) -> OSError:
    """The same as an error of the operating system, with advice."""
    assert is_no_thread(error)
    return OSError("no thread can be started: raise the limits of processes and memory (ulimit -u, ulimit -v; of a container, its pids)")


T = TypeVar("T")

START_TIMEOUT_S = 60
"""Beyond this something is wrong, unless logs are being recovered after a crash: that takes as long as it takes."""


class Embedded:
    """Brokers of this process, from `start` to `stop`; see `Broker` and `Cluster` for what the arguments mean."""

    _topics_at_once = False

    def __init__(
        self,
        data_dir: str | Path | None,
        config: Mapping[str, GivenValue] | None,
        listen: str | None,
        on_group_event: Callable[[GroupEvent], None] | None,
        metrics: str | None,
        brokers: int,
        listeners: Sequence[str] = (),
        scram_users: Sequence[str] = (),
    ) -> None:
        check_count(brokers)
        check_data_dir(data_dir)
        self._data_dir = data_dir
        scram_users_of(scram_users)
        checked = BrokerConfig(with_listeners(config, listeners), brokers=brokers)
        check_listeners(listeners_of(checked, listen, brokers), None if metrics is None else parse_listen(metrics), checked)
        self._config = checked.given
        self._listen = listen
        self._on_group_event = on_group_event
        self._metrics = metrics
        self._brokers = brokers
        self._scram_users = tuple(scram_users)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: BrokerTask | None = None
        self._starting: BrokerTask | None = None
        self._failure: BaseException | None = None
        self._ports: Ports = {}
        # Memory lives as long as the object: after stop() and start(), the data is still there.
        self._files: Files | None = MemoryFiles() if data_dir is None else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'not running' if self._task is None else self.bootstrap_servers}>"

    def _running(self) -> BrokerTask:
        if self._task is None:
            name = type(self).__name__
            raise RuntimeError(f"the broker is not running: use `with {name}() as {name.lower()}:` or call start()")
        return self._task

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the brokers' loop and wait for it; its exceptions are raised here."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT`, for `bootstrap.servers` of any client; of several listeners, the first. Raises RuntimeError before the start."""
        return self._running().bootstrap_servers

    def bootstrap_servers_of(self, listener: str) -> str:
        """As `bootstrap_servers`, for clients of one of the `listeners`. Raises ConfigError when there is none of that name."""
        return self._running().bootstrap_servers_of(listener)

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds the metrics, /health being beside them; None without `metrics`. Raises RuntimeError before the start."""
        return self._running().metrics_url

    @property
    def health(self) -> HealthSnapshot:
        """The health as of a few seconds ago. Raises RuntimeError before the start."""
        return self._running().cluster.health.snapshot

    def start(self) -> Self:
        """Start the thread and return when clients can connect; after `stop`, on the same port as before.

        Raises ConfigError, StorageError or OSError when it cannot start.
        """
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        check_limit(descriptor_limit())
        ready = threading.Event()
        self._failure = None
        thread = threading.Thread(target=self._run, args=(ready,), name="ottla-broker", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise no_thread(error) from error
        self._thread = thread
        while not ready.wait(START_TIMEOUT_S):
            if self._starting is None or not self._starting.cluster.log_manager.is_recovering:
                raise TimeoutError(f"the broker was not ready after {START_TIMEOUT_S} s")
        self._raise_failure()
        return self

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            assert self._thread is not None
            self._thread.join()
            self._thread = None
            raise failure

    def stop(self) -> None:
        """Stop and wait for the thread; data on disk is closed cleanly. Does nothing when it is not running.

        Raises the error that ended the broker before, or that prevented a clean stop (StorageError): then the next start recovers.
        """
        if self._thread is None or self._loop is None:
            return
        with suppress(RuntimeError):  # the loop is closed when the broker has ended by itself
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._thread = self._loop = self._task = self._starting = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def restart(self) -> None:
        """`stop`, then `start`: on the same port, with the data and the groups as they were. Raises what these raise."""
        self.stop()
        self.start()

    def _run(self, ready: threading.Event) -> None:
        loop: asyncio.AbstractEventLoop | None = None
        try:
            self._loop = loop = new_event_loop()
            asyncio.set_event_loop(loop)
            task = self._starting = BrokerTask(
                self._data_dir,
                self._config,
                self._listen,
                self._on_group_event,
                self._files,
                self._metrics,
                self._brokers,
                self._ports,
                self._scram_users,
            )
            task.cluster.topics.are_shown_at_once = self._topics_at_once
            loop.run_until_complete(task.start())
            self._task = task
            ready.set()
            loop.run_forever()
            self._ports = task.ports
            loop.run_until_complete(task.stop())
        except BaseException as failure:  # noqa: BLE001 - it is raised again, in the thread that called start() or stop()
            self._failure = no_thread(failure) if is_no_thread(failure) else failure
            ready.set()
        finally:
            if loop is not None and not loop.is_running():
                loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        """`start` in another thread, so that the caller's event loop runs meanwhile."""
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.stop)


class Broker(Embedded):
    """A Kafka broker inside this process, with a thread and a loop of its own.

    `data_dir` None keeps everything in memory. `config` takes Kafka's own names, {"num.partitions": 3}: text, numbers, True or False.
    `listen` is HOST:PORT, port 0 for any free one (127.0.0.1:0); `listeners` may be several instead, ["TLS://127.0.0.1:0"], by Kafka's
    grammar. `scram_users` are there from the first start on: ["SCRAM-SHA-256=[name=alice,password=secret]"]. `metrics` is HOST:PORT
    for /metrics (Prometheus) and /health. `on_group_event` is called in the broker's thread with every GroupEvent. Raises ConfigError for
    invalid settings.

        with Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        config: Mapping[str, GivenValue] | None = None,
        listen: str | None = None,
        on_group_event: Callable[[GroupEvent], None] | None = None,
        metrics: str | None = None,
        listeners: Sequence[str] = (),
        scram_users: Sequence[str] = (),
    ) -> None:
        super().__init__(data_dir, config, listen, on_group_event, metrics, 1, listeners, scram_users)


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
        listen: str | None = None,
        on_group_event: Callable[[GroupEvent], None] | None = None,
        metrics: str | None = None,
        listeners: Sequence[str] = (),
        scram_users: Sequence[str] = (),
    ) -> None:
        super().__init__(data_dir, config, listen, on_group_event, metrics, brokers, listeners, scram_users)

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of all brokers, stopped ones too."""
        return tuple(self._running().cluster.brokers.nodes)

    @property
    def live_brokers(self) -> tuple[int, ...]:
        """The ids of those that run."""
        return tuple(node.id for node in self._running().cluster.brokers.nodes.values() if node.is_alive)

    def address(self, broker_id: int, listener: str | None = None) -> str:
        """`HOST:PORT` of one broker, on its first listener or the one that is named. Raises ConfigError when there is none."""
        return self._running().address(broker_id, listener)

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
