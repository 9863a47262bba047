"""The group coordinators of one broker: started when it becomes the leader of their partitions, and resigned when another one does.

A coordinator first loads its partition of the offsets topic, in a worker thread; meanwhile requests get COORDINATOR_LOAD_IN_PROGRESS. If
its log cannot be read, they get COORDINATOR_NOT_AVAILABLE, and the first request after RETRY_MS has it read again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress

from ottla.broker.cluster.node import Node
from ottla.broker.cluster.topics import Topics
from ottla.broker.coordination.coordinator_loop import CoordinatorLoop
from ottla.broker.coordination.group_loading import load_groups
from ottla.broker.coordination.loading_backend import LoadingBackends
from ottla.broker.coordination.pending_replies import PendingReplies
from ottla.broker.coordination.unserved_deletions import UnservedDeletions
from ottla.broker.event_loop_batch import EventLoopBatch
from ottla.broker.logs.partitions import Partitions
from ottla.core.errors import StorageError
from ottla.core.groups.commands import ForgetTopics
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.log.reducer import LoadedGroups, ReferenceReducer
from ottla.core.groups.request_checks import CoordinatorStatus
from ottla.core.groups.settings import GroupSettings
from ottla.core.metadata.topics import CONSUMER_OFFSETS, Topic
from ottla.core.model import GroupEvent

log = logging.getLogger(__name__)

RETRY_MS = 5_000
"""How long after a failure a partition may be read again."""


class BrokerCoordinators:
    """The coordinators of one broker, by partition of `__consumer_offsets`: one for each partition that it leads."""

    def __init__(
        self,
        *,
        node: Node,
        topics: Topics,
        partitions: Partitions,
        settings: GroupSettings,
        clock: Callable[[], int],
        timer_clock: Callable[[], int],
        publish: Callable[[tuple[GroupEvent, ...]], None],
        replies: PendingReplies,
        event_loop_batch: EventLoopBatch,
        loading_executor: Executor,
        loading_backends: LoadingBackends,
        unserved_deletions: UnservedDeletions,
    ) -> None:
        self.by_partition: dict[int, CoordinatorLoop] = {}
        self._node = node
        self._topics = topics
        self._partitions = partitions
        self._settings = settings
        self._clock = clock
        self._timer_clock = timer_clock
        self._publish = publish
        self._replies = replies
        self._event_loop_batch = event_loop_batch
        self._loading_executor = loading_executor
        self._loading_backends = loading_backends
        self._unserved_deletions = unserved_deletions
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._retry_at_ms: dict[int, int] = {}
        self._log_prefix = f"[GroupCoordinator id={node.id}] "

    def start_all(self) -> None:
        """Start the coordinators of all partitions that this broker leads, if the offsets topic exists."""
        topic = self._topics.get(CONSUMER_OFFSETS)
        self.start([number for number in range(len(topic.leaders)) if self._node.leads(topic, number)] if topic else [])

    def start(self, numbers: Sequence[int]) -> None:
        """Start the coordinators of some partitions: they serve when their logs are opened and loaded."""
        topic = self._topics.get(CONSUMER_OFFSETS)
        unopened = [number for number in numbers if topic and not self._partitions.is_ready(topic, number)]
        if topic and unopened:
            # All are loaded at the same time: the size of all of them chooses the backend.
            opening = asyncio.get_running_loop().create_task(self._open_and_start(topic, list(numbers), unopened))
            self._loading.update(dict.fromkeys(numbers, opening))
            return
        created = [loop for number in numbers if (loop := self._create(number)) is not None]
        log_bytes = sum(loop.partition.log.size_bytes for loop in created)
        for loop in created:
            if loop.partition.log.size_bytes == 0:
                self._serve(loop, ReferenceReducer().finish())
            else:
                number = loop.coordinator.partition
                self._loading[number] = asyncio.get_running_loop().create_task(self._load(number, loop, log_bytes))

    async def _open_and_start(self, topic: Topic, numbers: Sequence[int], unopened: Sequence[int]) -> None:
        await self._partitions.open_all([(topic, number) for number in unopened])
        mine = [number for number in numbers if self._loading.get(number) is asyncio.current_task()]
        for number in mine:
            del self._loading[number]
        if self._topics.get(CONSUMER_OFFSETS) is topic and self._node.is_alive:
            self.start([number for number in mine if self._node.leads(topic, number)])

    def _create(self, number: int) -> CoordinatorLoop | None:
        """A coordinator whose log is not loaded yet; None if it cannot be opened."""
        topic = self._topics.by_name[CONSUMER_OFFSETS]
        try:
            partition = self._partitions.get(topic, number)
        except StorageError as error:
            self._retry_later(number, error)
            return None
        assert partition is not None
        log.info("%sElected as the group coordinator for partition %d in epoch %d.", self._log_prefix, number, topic.leader_epochs[number])
        loop = self.by_partition[number] = CoordinatorLoop(
            Coordinator(self._settings, partition=number, node_id=self._node.id),
            partition,
            clock=self._clock,
            timer_clock=self._timer_clock,
            reply=self._replies.deliver,
            fail=self._replies.fail,
            on_broken=self._remove_broken,
            publish=self._publish,
            event_loop_batch=self._event_loop_batch,
        )
        return loop

    async def _load(self, number: int, loop: CoordinatorLoop, log_bytes: int) -> None:
        try:
            loaded = await asyncio.get_running_loop().run_in_executor(self._loading_executor, self._read, loop, log_bytes)
        except Exception as error:  # noqa: BLE001 - it is logged; the coordinator must not stay in loading
            self._remove_broken(loop, error)
            return
        finally:
            if self._loading.get(number) is asyncio.current_task():
                del self._loading[number]
        if self.by_partition.get(number) is loop:
            self._serve(loop, loaded)

    def _read(self, loop: CoordinatorLoop, log_bytes: int) -> LoadedGroups:
        """Runs in a worker thread."""
        return load_groups(loop.partition.log, self._loading_backends.choose(log_bytes))

    def _serve(self, loop: CoordinatorLoop, loaded: LoadedGroups) -> None:
        try:
            loop.start(loaded)
            deleted = self._unserved_deletions.take(loop.coordinator.partition)
            if deleted:
                loop.run(ForgetTopics(topics=deleted))
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
            log.info("%sResigned as the group coordinator for partition %d.", self._log_prefix, number)
            with suppress(Exception):  # `_remove_broken` has logged it; the caller continues
                loop.resign()
            self.by_partition.pop(number, None)
        else:
            self._loading.pop(number, None)  # its log was not opened yet

    def resign_all(self) -> None:
        """Stop all coordinators: the broker stops, or the offsets topic was deleted."""
        for number in {*self.by_partition, *self._loading}:
            self.resign(number)

    def get(self, number: int) -> CoordinatorLoop | None:
        """The coordinator of a partition; None if another broker leads it, or its log could not be read."""
        loop = self.by_partition.get(number)
        if loop is None and self.leads(number) and number not in self._loading and self._may_retry(number):
            self.start([number])
            loop = self.by_partition.get(number)
        return loop

    def all(self) -> list[CoordinatorLoop]:
        """Every coordinator of this broker."""
        return list(self.by_partition.values())

    def leads(self, number: int) -> bool:
        """Whether this broker leads a partition of the offsets topic."""
        topic = self._topics.get(CONSUMER_OFFSETS)
        return topic is not None and self._node.leads(topic, number)

    def is_loading(self, number: int) -> bool:
        """Whether the log of a partition is being opened or loaded."""
        return number in self._loading

    def forget_topics(self, names: tuple[str, ...]) -> set[int]:
        """Delete the offsets of deleted topics. Returns the partitions in which they have been deleted."""
        done = set()
        for number, loop in tuple(self.by_partition.items()):
            if loop.coordinator.status is CoordinatorStatus.ACTIVE:
                with suppress(Exception):  # as in `resign`
                    loop.run(ForgetTopics(topics=names))
                    done.add(number)
        return done

    def _may_retry(self, number: int) -> bool:
        return self._retry_at_ms.get(number, 0) <= self._clock()

    def _remove_broken(self, loop: CoordinatorLoop, error: Exception) -> None:
        """Remove a coordinator whose state is unknown after an error: a request has its log read again, RETRY_MS later."""
        number = loop.coordinator.partition
        if self.by_partition.get(number) is loop:
            del self.by_partition[number]
            self._retry_later(number, error)

    def _retry_later(self, number: int, error: Exception) -> None:
        self._retry_at_ms[number] = self._clock() + RETRY_MS
        bug = None if isinstance(error, StorageError) else error
        log.error("%s-%d: its groups are not served: %s", CONSUMER_OFFSETS, number, error, exc_info=bug)
