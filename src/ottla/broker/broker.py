"""The broker as people start it: embedded in a Python process with its own thread and loop, or run in the foreground by the command line.

It wires rooms together and owns their life: start, ready, stop. It decides nothing about messages.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.broker.cluster import Cluster
from ottla.broker.health import HealthView
from ottla.broker.server import Server, listen
from ottla.core.config import BrokerConfig, ConfigError
from ottla.core.model import GroupEvent
from ottla.storage.files import Files, OsFiles
from ottla.storage.memory_files import MemoryFiles

if TYPE_CHECKING:
    from ottla.broker.metrics_server import MetricsServer

log = logging.getLogger("ottla.broker")

START_TIMEOUT_S = 60
"""Beyond this something is wrong, unless logs are being recovered after a crash: that takes as long as it takes."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where it is installed, asyncio's otherwise."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def parse_listen(listen: str) -> tuple[str, int]:
    """`HOST:PORT` in two; raises ConfigError with what to write instead."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"cannot listen on {listen!r}: write HOST:PORT, for example 127.0.0.1:9092 (port 0 takes any free one)")
    return host.strip("[]"), int(port)


def _connectable(host: str) -> str:
    """A wildcard address is nothing a client could connect to."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


class BrokerTask:
    """A broker inside a running loop: `start`, then `stop`. The embedded broker and the command line are two shells around it."""

    def __init__(
        self,
        data_dir: str | Path | None,
        config: Mapping[str, str],
        listen: str,
        on_group_event: Callable[[GroupEvent], None] | None = None,
        files: Files | None = None,
        metrics: str | None = None,
    ) -> None:
        self._listen = parse_listen(listen)
        self._metrics_listen = None if metrics is None else parse_listen(metrics)
        self._metrics: MetricsServer | None = None
        self._files: Files = files or (MemoryFiles() if data_dir is None else OsFiles(data_dir))
        self.cluster = Cluster(self._files, BrokerConfig(dict(config)), on_group_event=on_group_event)
        self._server: Server | None = None
        self._sockets: asyncio.AbstractServer | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` for clients."""
        host = f"[{self.cluster.host}]" if ":" in self.cluster.host else self.cluster.host
        return f"{host}:{self.cluster.port}"

    @property
    def metrics_url(self) -> str | None:
        """Where the metrics are; None when they are not served."""
        if self._metrics is None or self._metrics_listen is None:
            return None
        host, port = _connectable(self._metrics_listen[0]), self._metrics.port
        return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"

    def _serve_metrics(self) -> None:
        # Loaded here, since most brokers serve none.
        from ottla.broker.metrics import pages
        from ottla.broker.metrics_server import MetricsServer

        assert self._metrics_listen is not None
        cluster = self.cluster
        self._metrics = MetricsServer(*self._metrics_listen, pages(lambda: cluster.health.view, cluster.clock))

    async def start(self) -> None:
        """Reads back the data, then opens the listener. Raises StorageError (also when another broker uses the directory) or OSError."""
        if isinstance(self._files, OsFiles):
            self._files.lock()
        host, port = self._listen
        try:
            self.cluster.open()
            self.cluster.log_manager.begin()
            self.cluster.cleaner.begin()
            self.cluster.health.begin()
            if self._metrics_listen is not None:
                self._serve_metrics()
            self._server, self._sockets, port = await listen(self.cluster, host, port)
        except BaseException:
            await self.stop()
            raise
        self.cluster.host, self.cluster.port = _connectable(host), port

    async def stop(self) -> None:
        """Closes the listener, reads no more requests, closes every log, cleanly, and then every connection. Raises StorageError."""
        if self._sockets is not None:
            self._sockets.close()
        if self._server is not None:
            # First of all: as long as there are requests there may always be one that waits for a sync.
            self._server.stop_reading()
        if self._metrics is not None:
            self._metrics.close()
        try:
            await self.cluster.health.stop()
            await self.cluster.cleaner.stop()
            await self.cluster.deletions.write()
            await self.cluster.partitions.settle()
            self.cluster.close()
        finally:
            if self._server is not None:
                self._server.close()
            if isinstance(self._files, OsFiles):
                self._files.unlock()
        await asyncio.sleep(0)


class Broker:
    """A Kafka broker inside this process, with a thread and a loop of its own.

    `data_dir` None keeps everything in memory. `config` takes Kafka's own names ("num.partitions": "3"); `listen` is HOST:PORT, port 0 for
    any free one. `metrics` is HOST:PORT for /metrics (Prometheus) and /health. `on_group_event` is called in the broker's thread with every
    GroupEvent. Raises ConfigError for settings that cannot be.

        with Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        config: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1:0",
        on_group_event: Callable[[GroupEvent], None] | None = None,
        metrics: str | None = None,
    ) -> None:
        parse_listen(listen)
        if metrics is not None:
            parse_listen(metrics)
        BrokerConfig(dict(config or {}))
        self._data_dir = data_dir
        self._config = dict(config or {})
        self._listen = listen
        self._on_group_event = on_group_event
        self._metrics = metrics
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: BrokerTask | None = None
        self._starting: BrokerTask | None = None
        self._failure: BaseException | None = None
        # Memory is the broker's, not the run's: stop() and start() again find what was written.
        self._files: Files | None = MemoryFiles() if data_dir is None else None

    def _running(self) -> BrokerTask:
        if self._task is None:
            raise RuntimeError("the broker is not running: use `with Broker() as broker:` or call start()")
        return self._task

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT`, for `bootstrap.servers` of any client. Raises RuntimeError before the start."""
        return self._running().bootstrap_servers

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds the metrics, /health being beside them; None without `metrics`. Raises RuntimeError before the start."""
        return self._running().metrics_url

    @property
    def health(self) -> HealthView:
        """The broker's health as of a few seconds ago. Raises RuntimeError before the start."""
        return self._running().cluster.health.view

    def start(self) -> Self:
        """Starts the thread and returns when clients can connect. Raises StorageError or OSError when it cannot start."""
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        ready = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="ottla-broker", daemon=True)
        self._thread.start()
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
        """Stops and waits for the thread; data on disk is closed cleanly. Does nothing when it is not running.

        Raises what made the broker end before, or kept it from a clean end (StorageError): then the next start recovers.
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

    def _run(self, ready: threading.Event) -> None:
        self._loop = loop = new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            task = self._starting = BrokerTask(self._data_dir, self._config, self._listen, self._on_group_event, self._files, self._metrics)
            loop.run_until_complete(task.start())
            self._task = task
            ready.set()
            loop.run_forever()
            loop.run_until_complete(task.stop())
        except BaseException as failure:  # noqa: BLE001 - it is raised again, in the thread that called start() or stop()
            self._failure = failure
            ready.set()
        finally:
            loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
