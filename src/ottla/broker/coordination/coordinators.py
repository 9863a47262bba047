"""The coordinators of one kind: started where their partitions are led, loaded, and resigned when another broker leads them.

A coordinator first loads its partition of the topic, in a worker thread; meanwhile requests get COORDINATOR_LOAD_IN_PROGRESS. If its log
cannot be read, they get COORDINATOR_NOT_AVAILABLE, and the first request after RETRY_MS has it read again.
"""

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final, Generic, NamedTuple

from ottla.broker.cluster.brokers import Node
from ottla.broker.cluster.topics import Topics
from ottla.broker.network.scheduling import EventLoopBatch
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.coordinator.loading import Loaded, load
from ottla.coordinator.loop import CoordinatorLoop, CoordinatorService, CoordinatorT, Handle, Replies
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic
from ottla.protocol.errors import StorageError

log = logging.getLogger(__name__)

RETRY_MS = 5_000
"""How long after a failure a partition may be read again."""


def call_later(delay_s: float, call: Callable[[], None]) -> Handle:
    """Call a function later, on the running loop."""
    return asyncio.get_running_loop().call_later(delay_s, call)


class GcPause:
    """Pauses Python's cyclic garbage collector, in the whole process, while a million objects are created that are no garbage.

    The collector would traverse all of them again and again as they grow in number, which takes longer than creating them. Reference
    counting continues.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._was_enabled = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Pause the collector until the last holder leaves; then it is enabled if it was before. Any thread."""
        with self._lock:
            if not self._holders:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders and self._was_enabled:
                    gc.enable()


GC_PAUSE: Final = GcPause()
"""The one of this process. A caller that loads many logs holds it around all of them."""


class UndeliveredCommands:
    """The broker's own commands that a partition's coordinator gets when one runs. One for all brokers of a process."""

    def __init__(self) -> None:
        self._by_partition: dict[int, dict[Any, None]] = {}

    def __len__(self) -> int:
        """The number of partitions that have commands."""
        return len(self._by_partition)

    def add(self, number: int, command: Any) -> None:
        """Add a command that was to run while the partition had no coordinator; it runs once, however often it is added."""
        self._by_partition.setdefault(number, {})[command] = None

    def take(self, number: int) -> list[Any]:
        """Return the commands of a partition in the order in which they were added, and forget them."""
        return list(self._by_partition.pop(number, ()))

    def clear(self) -> None:
        """Forget all commands: the topic itself was deleted."""
        self._by_partition.clear()


class LoadTimes(NamedTuple):
    """How long loading took, of all partitions that were loaded since the start."""

    times: int = 0
    sum_ms: int = 0
    max_ms: int = 0

    def plus(self, took_ms: int) -> "LoadTimes":
        """These and one more."""
        return LoadTimes(self.times + 1, self.sum_ms + took_ms, max(self.max_ms, took_ms))

    @property
    def average_ms(self) -> float:
        """0 before the first."""
        return self.sum_ms / self.times if self.times else 0.0


class BrokerCoordinators(Generic[CoordinatorT]):
    """The coordinators of one kind of one broker, by partition of their topic: one for each partition that it leads."""

    def __init__(
        self,
        *,
        service: CoordinatorService[CoordinatorT],
        node: Node,
        topics: Topics,
        partitions: Partitions,
        clock: Callable[[], int],
        timer_clock: Callable[[], int],
        publish: Callable[[tuple[Any, ...]], None],
        replies: Replies,
        event_loop_batch: EventLoopBatch,
        loading_executor: Executor,
        undelivered: UndeliveredCommands,
    ) -> None:
        self.by_partition: dict[int, CoordinatorLoop[CoordinatorT]] = {}
        self.load_times = LoadTimes()
        self.service = service
        self.timer_clock = timer_clock
        self._topic_name = service.coordinator_type.topic
        self._kind = service.coordinator_type.kind
        self._node = node
        self._topics = topics
        self._partitions = partitions
        self._clock = clock
        self._publish = publish
        self._replies = replies
        self._event_loop_batch = event_loop_batch
        self._loading_executor = loading_executor
        self._undelivered = undelivered
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._retry_at_ms: dict[int, int] = {}
        self._log_prefix = f"[{self._kind.capitalize()}Coordinator id={node.id}] "

    def start_all(self) -> None:
        """Start the coordinators of all partitions that this broker leads, if the topic exists."""
        topic = self._topics.get(self._topic_name)
        self.start([number for number in range(len(topic.leaders)) if self._node.leads(topic, number)] if topic else [])

    def start(self, numbers: Sequence[int]) -> None:
        """Start the coordinators of some partitions: they serve when their logs are opened and loaded."""
        topic = self._topics.get(self._topic_name)
        unopened = [number for number in numbers if topic and not self._partitions.is_ready(topic, number)]
        if topic and unopened:
            # All are loaded at the same time: the size of all of them chooses the reducer.
            opening = asyncio.get_running_loop().create_task(self._open_and_start(topic, list(numbers), unopened))
            self._loading.update(dict.fromkeys(numbers, opening))
            return
        created = [loop for number in numbers if (loop := self._create(number)) is not None]
        log_bytes = sum(loop.partition.log.size_bytes for loop in created)
        for loop in created:
            if loop.partition.log.size_bytes == 0:
                self._serve(loop, self.service.reducer(0).finish())
            else:
                number = loop.coordinator.partition
                self._loading[number] = asyncio.get_running_loop().create_task(self._load(number, loop, log_bytes))

    async def _open_and_start(self, topic: Topic, numbers: Sequence[int], unopened: Sequence[int]) -> None:
        await self._partitions.open_all([(topic, number) for number in unopened])
        mine = [number for number in numbers if self._loading.get(number) is asyncio.current_task()]
        for number in mine:
            del self._loading[number]
        if self._topics.get(self._topic_name) is topic and self._node.is_alive:
            self.start([number for number in mine if self._node.leads(topic, number)])

    def _create(self, number: int) -> CoordinatorLoop[CoordinatorT] | None:
        """A coordinator whose log is not loaded yet; None if it cannot be opened."""
        topic = self._topics.by_name[self._topic_name]
        try:
            partition = self._partitions.get(topic, number)
        except StorageError as error:
            self._retry_later(number, error)
            return None
        assert partition is not None
        elected = "%sElected as the %s coordinator for partition %d in epoch %d."
        log.info(elected, self._log_prefix, self._kind, number, topic.leader_epochs[number])
        loop = self.by_partition[number] = CoordinatorLoop(
            self.service.create(partition=number, node_id=self._node.id, leader_epoch=topic.leader_epochs[number]),
            partition,
            codec=self.service.codec,
            clock=self._clock,
            timer_clock=self.timer_clock,
            call_later=call_later,
            batch=self._event_loop_batch,
            replies=self._replies,
            publish=self._publish,
            on_broken=self._remove_broken,
            log=log,
        )
        return loop

    async def _load(self, number: int, loop: CoordinatorLoop[CoordinatorT], log_bytes: int) -> None:
        began_ms = self.timer_clock()
        try:
            loaded = await asyncio.get_running_loop().run_in_executor(self._loading_executor, self._read, loop, log_bytes)
        except Exception as error:  # noqa: BLE001 - it is logged; the coordinator must not stay in loading
            self._remove_broken(loop, error)
            return
        finally:
            if self._loading.get(number) is asyncio.current_task():
                del self._loading[number]
        self.load_times = self.load_times.plus(self.timer_clock() - began_ms)
        if self.by_partition.get(number) is loop:
            self._serve(loop, loaded)

    def _read(self, loop: CoordinatorLoop[CoordinatorT], log_bytes: int) -> Loaded[Any]:
        """Runs in a worker thread."""
        with GC_PAUSE.held():
            return load(loop.partition.log, lambda: self.service.reducer(log_bytes))

    def _serve(self, loop: CoordinatorLoop[CoordinatorT], loaded: Loaded[Any]) -> None:
        try:
            loop.start(loaded)
            for command in self._undelivered.take(loop.coordinator.partition):
                loop.run(command)
        except Exception as error:  # noqa: BLE001 - it is logged
            self._remove_broken(loop, error)

    async def loaded(self) -> None:
        """Wait until every coordinator has loaded its log."""
        while self._loading:
            await asyncio.wait(list(self._loading.values()))

    def resign(self, number: int) -> None:
        """Stop the coordinator of a partition: parked requests are answered with NOT_COORDINATOR."""
        loop = self.by_partition.get(number)
        if loop is not None:
            log.info("%sResigned as the %s coordinator for partition %d.", self._log_prefix, self._kind, number)
            with suppress(Exception):  # `_remove_broken` has logged it; the caller continues
                loop.resign()
            self.by_partition.pop(number, None)
        else:
            self._loading.pop(number, None)  # its log was not opened yet

    def resign_all(self) -> None:
        """Stop all coordinators: the broker stops, or the topic was deleted."""
        for number in {*self.by_partition, *self._loading}:
            self.resign(number)

    def get(self, number: int) -> CoordinatorLoop[CoordinatorT] | None:
        """The coordinator of a partition; None if another broker leads it, or its log could not be read."""
        loop = self.by_partition.get(number)
        if loop is None and self.leads(number) and number not in self._loading and self._may_retry(number):
            self.start([number])
            loop = self.by_partition.get(number)
        return loop

    def all(self) -> list[CoordinatorLoop[CoordinatorT]]:
        """Every coordinator of this broker."""
        return list(self.by_partition.values())

    def leads(self, number: int) -> bool:
        """Whether this broker leads a partition of the topic."""
        topic = self._topics.get(self._topic_name)
        return topic is not None and self._node.leads(topic, number)

    def is_loading(self, number: int) -> bool:
        """Whether the log of a partition is being opened or loaded."""
        return number in self._loading

    def run_everywhere(self, command: Any) -> set[int]:
        """Run one of the broker's own commands at every coordinator that serves. Returns their partitions."""
        done = set()
        for number, loop in tuple(self.by_partition.items()):
            if loop.coordinator.status is CoordinatorStatus.ACTIVE:
                with suppress(Exception):  # as in `resign`
                    loop.run(command)
                    done.add(number)
        return done

    def _may_retry(self, number: int) -> bool:
        return self._retry_at_ms.get(number, 0) <= self._clock()

    def _remove_broken(self, loop: CoordinatorLoop[CoordinatorT], error: Exception) -> None:
        """Remove a coordinator whose state is unknown after an error: a request has its log read again, RETRY_MS later."""
        number = loop.coordinator.partition
        if self.by_partition.get(number) is loop:
            del self.by_partition[number]
            self._retry_later(number, error)

    def _retry_later(self, number: int, error: Exception) -> None:
        self._retry_at_ms[number] = self._clock() + RETRY_MS
        bug = None if isinstance(error, StorageError) else error
        log.error("%s-%d: its %ss are not served: %s", self._topic_name, number, self._kind, error, exc_info=bug)


class ClusterCoordinators(Generic[CoordinatorT]):
    """The coordinators of one kind of all brokers of a process, by broker id. Numbers are those of partitions of their topic."""

    def __init__(self, topic: str, *, cluster_metadata: ClusterMetadata) -> None:
        self.by_broker: dict[int, BrokerCoordinators[CoordinatorT]] = {}
        self.undelivered = UndeliveredCommands()
        self._topic = topic
        self._cluster_metadata = cluster_metadata

    def all(self) -> list[tuple[int, CoordinatorT]]:
        """Every coordinator, with its broker's id."""
        return [(broker_id, loop.coordinator) for broker_id, loops in self.by_broker.items() for loop in loops.all()]

    def start_all(self) -> None:
        """Start every coordinator, each on the broker that leads its partition."""
        for loops in self.by_broker.values():
            loops.start_all()

    async def loaded(self) -> None:
        """Wait until every coordinator has read its log."""
        await asyncio.gather(*(loops.loaded() for loops in self.by_broker.values()))

    def start(self, numbers: Sequence[int]) -> None:
        """Start the coordinators of some partitions, each on the broker that leads it."""
        for loops in self.by_broker.values():
            loops.start([number for number in numbers if loops.leads(number)])

    def resign(self, number: int) -> None:
        """Stop the coordinator of a partition."""
        for loops in self.by_broker.values():
            loops.resign(number)

    def resign_broker(self, broker_id: int) -> None:
        """Stop all coordinators of one broker."""
        self.by_broker[broker_id].resign_all()

    def resign_all(self) -> None:
        """Stop every coordinator: the process stops, or the topic was deleted."""
        self.undelivered.clear()
        for loops in self.by_broker.values():
            loops.resign_all()

    def run_everywhere(self, command: Any) -> None:
        """Run one of the broker's own commands at every coordinator; where none serves, when one does."""
        topic = self._cluster_metadata.topics.get(self._topic)
        served = {number for loops in self.by_broker.values() for number in loops.run_everywhere(command)}
        for number in range(len(topic.leaders)) if topic else ():
            if number not in served:
                self.undelivered.add(number, command)
