"""Brokers inside this Python process, with a thread and a loop of their own: the base of `Broker` and `Cluster`.

It runs work in that loop and waits for it; it makes no decisions.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.broker.monitoring.health import HealthSnapshot
from ottla.broker.network.descriptors import check_limit, descriptor_limit
from ottla.broker.running_brokers import BrokerTask, check_count, check_data_dir, new_event_loop, parse_listen
from ottla.broker.thread_errors import is_no_thread, no_thread
from ottla.core.config import BrokerConfig, GivenValue
from ottla.core.model import GroupEvent
from ottla.storage.file_system import Files
from ottla.storage.memory_files import MemoryFiles

T = TypeVar("T")

START_TIMEOUT_S = 60
"""Beyond this something is wrong, unless logs are being recovered after a crash: that takes as long as it takes."""


class Embedded:
    """Brokers of this process, from `start` to `stop`; see `Broker` and `Cluster` for what the arguments mean."""

    def __init__(
        self,
        data_dir: str | Path | None,
        config: Mapping[str, GivenValue] | None,
        listen: str,
        on_group_event: Callable[[GroupEvent], None] | None,
        metrics: str | None,
        brokers: int,
    ) -> None:
        check_count(brokers, listen)
        check_data_dir(data_dir)
        if metrics is not None:
            parse_listen(metrics)
        self._data_dir = data_dir
        self._config = BrokerConfig(config, brokers=brokers).given
        self._listen = listen
        self._on_group_event = on_group_event
        self._metrics = metrics
        self._brokers = brokers
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: BrokerTask | None = None
        self._starting: BrokerTask | None = None
        self._failure: BaseException | None = None
        self._ports: Mapping[int, int] = {}
        # Memory lives as long as the object: after stop() and start(), the data is still there.
        self._files: Files | None = MemoryFiles() if data_dir is None else None

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
        """`HOST:PORT`, for `bootstrap.servers` of any client. Raises RuntimeError before the start."""
        return self._running().bootstrap_servers

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
                self._data_dir, self._config, self._listen, self._on_group_event, self._files, self._metrics, self._brokers, self._ports
            )
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
