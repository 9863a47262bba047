"""Which coordinator serves which group, and who waits for which answer: the way from an API to a coordinator and back (S0.4).

A coordinator begins by reading its partition of the offsets topic, in a worker thread; meanwhile it answers as one that loads does. Where
that log cannot be read the answer is COORDINATOR_NOT_AVAILABLE, and it is read again when somebody asks a while later.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.broker.api import Request
from ottla.broker.coordinator_loop import CoordinatorLoop
from ottla.broker.group_loading import load_groups
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, Topic
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.config import BrokerConfig
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.groups.commands import Command, ForgetTopics
from ottla.core.groups.commands import Request as GroupRequest
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Reply, Result
from ottla.core.groups.gate import CoordinatorStatus, error_result, refusal
from ottla.core.groups.log_fold import LoadedGroups, PlainFold
from ottla.core.groups.placement import coordinator_partition
from ottla.core.groups.settings import GroupSettings

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger("ottla.broker.groups")

RETRY_MS = 5_000
"""A partition that could not be read is read again so much later, when somebody asks."""


class Groups:
    """The coordinators of one broker: one for each partition of `__consumer_offsets` that it leads."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._topics = node.cluster.catalogue.topics
        self._settings = group_settings(node.cluster.config)
        self._loops: dict[int, CoordinatorLoop] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._retry_at_ms: dict[int, int] = {}
        self._waiting: dict[int, tuple[Callable[[Result], None], Request | None]] = {}
        self._last_token = 0

    def load(self) -> None:
        """Begins to load every partition that this broker leads, when the offsets topic is there already."""
        topic = self._node.cluster.topics.get(CONSUMER_OFFSETS)
        self.take([number for number in range(len(topic.leaders)) if self._node.leads(topic, number)] if topic else [])

    def partition_of(self, group_id: str) -> int | Refused:
        """The offsets partition whose leader coordinates the group; the topic is made if this is its first use (S2.2)."""
        topic = self._topics.get(CONSUMER_OFFSETS) or self._node.cluster.topics.ensure(CONSUMER_OFFSETS)
        return topic if isinstance(topic, Refused) else coordinator_partition(group_id, len(topic.leaders))

    def take(self, numbers: Sequence[int]) -> None:
        """Coordinates the groups of offsets partitions, once their logs are opened and read."""
        topic = self._node.cluster.topics.get(CONSUMER_OFFSETS)
        unopened = [number for number in numbers if topic and not self._node.cluster.partitions.is_ready(topic, number)]
        if topic and unopened:
            # All of them are read at the same time: how they are read depends on their sizes together.
            opening = asyncio.get_running_loop().create_task(self._open_and_take(topic, list(numbers), unopened))
            self._loading.update(dict.fromkeys(numbers, opening))
            return
        taken = [loop for number in numbers if (loop := self._take(number)) is not None]
        log_bytes = sum(loop.partition.log.size_bytes for loop in taken)
        for loop in taken:
            if loop.partition.log.size_bytes == 0:
                self._begin(loop, PlainFold().finish())
            else:
                number = loop.coordinator.partition
                self._loading[number] = asyncio.get_running_loop().create_task(self._load(number, loop, log_bytes))

    async def _open_and_take(self, topic: Topic, numbers: Sequence[int], unopened: Sequence[int]) -> None:
        await self._node.cluster.partitions.open_all([(topic, number) for number in unopened])
        mine = [number for number in numbers if self._loading.get(number) is asyncio.current_task()]
        for number in mine:
            del self._loading[number]
        if self._topics.get(CONSUMER_OFFSETS) is topic and self._node.is_alive:
            self.take([number for number in mine if self._node.leads(topic, number)])

    def _take(self, number: int) -> CoordinatorLoop | None:
        """A coordinator that has not read its log yet, None when that cannot be opened."""
        topic = self._node.cluster.catalogue.topics[CONSUMER_OFFSETS]
        try:
            partition = self._node.cluster.partitions.get(topic, number)
        except StorageError as error:
            self._cannot_serve(number, error)
            return None
        assert partition is not None
        log.info("%sElected as the group coordinator for partition %d in epoch %d.", self._log_prefix, number, topic.leader_epochs[number])
        loop = self._loops[number] = CoordinatorLoop(
            Coordinator(self._settings, partition=number, node_id=self._node.id),
            partition,
            clock=self._node.cluster.clock,
            timer_clock=self._node.cluster.timer_clock,
            reply=self._deliver,
            fail=self._fail,
            broken=self._is_broken,
            publish=self._node.cluster.events.publish,
            turn=self._node.cluster.turn,
        )
        return loop

    async def _load(self, number: int, loop: CoordinatorLoop, log_bytes: int) -> None:
        try:
            loaded = await asyncio.get_running_loop().run_in_executor(self._node.cluster.loading_executor, self._read, loop, log_bytes)
        except Exception as error:  # noqa: BLE001 - said in the log; it must not say for ever that it loads
            self._is_broken(loop, error)
            return
        finally:
            if self._loading.get(number) is asyncio.current_task():
                del self._loading[number]
        if self._loops.get(number) is loop:
            self._begin(loop, loaded)

    def _begin(self, loop: CoordinatorLoop, loaded: LoadedGroups) -> None:
        try:
            loop.begin(loaded)
            deleted = self._node.cluster.deleted_unserved.pop(loop.coordinator.partition, ())
            if deleted:
                loop.run(ForgetTopics(topics=tuple(deleted)))
        except Exception as error:  # noqa: BLE001 - said in the log
            self._is_broken(loop, error)

    def _read(self, loop: CoordinatorLoop, log_bytes: int) -> LoadedGroups:
        """Runs in a worker thread."""
        return load_groups(loop.partition.log, self._node.cluster.loading_lanes.choose(log_bytes))

    async def loaded(self) -> None:
        """Waits until every coordinator has read its log."""
        while self._loading:
            await asyncio.wait(list(self._loading.values()))

    def resign(self, number: int) -> None:
        """Coordinates the groups of an offsets partition no more: whoever waits is told to look for another coordinator."""
        loop = self._loops.get(number)
        if loop is not None:
            log.info("%sResigned as the group coordinator for partition %d.", self._log_prefix, number)
            with suppress(Exception):  # `_is_broken` has said it; whatever is going on here must go on
                loop.close()
            self._loops.pop(number, None)
        else:
            self._loading.pop(number, None)  # its log was not opened yet

    def loop(self, number: int) -> CoordinatorLoop | None:
        """The coordinator of an offsets partition; None when another broker leads it, or its log could not be read."""
        loop = self._loops.get(number)
        if loop is None and self._leads(number) and number not in self._loading and self._may_retry(number):
            self.take([number])
            loop = self._loops.get(number)
        return loop

    def loops(self) -> list[CoordinatorLoop]:
        """Every coordinator of this broker."""
        return list(self._loops.values())

    def wait_for(self, answer: Callable[[Result], None], request: Request | None = None) -> int:
        """A `reply_to` whose reply goes to `answer`; `request` is what ends if there will never be one, for a mistake of ours."""
        self._last_token += 1
        self._waiting[self._last_token] = answer, request
        return self._last_token

    def beat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """The answer to a Heartbeat, or None: then the coordinator must be asked."""
        number = self.partition_of(group_id)
        loop = self._loops.get(number) if isinstance(number, int) else None
        return None if loop is None else loop.beat(group_id, generation, member_id, instance_id)

    def ask(self, group_id: str, command: Command) -> None:
        """Hands a command to the group's coordinator; answers itself when that is another broker, or cannot be.

        Raises StorageError when the offsets topic cannot be made, and PeerError for a command that no record could hold.
        """
        try:
            number = self.partition_of(group_id)
            assert isinstance(number, int), "the offsets topic's own settings were refused"
            loop = self.loop(number)
            if loop is not None:
                loop.run(command)
            else:
                assert isinstance(command, GroupRequest), "the broker's own notices go to its own coordinators"
                self._refuse(command, number)
        except Exception:
            self._waiting.pop(getattr(command, "reply_to", 0), None)
            raise

    def forget_topics(self, names: tuple[str, ...]) -> set[int]:
        """Topics were deleted: their committed offsets go with them. Returns the offsets partitions in which they have gone."""
        done = set()
        for number, loop in tuple(self._loops.items()):
            if loop.coordinator.status is CoordinatorStatus.ACTIVE:
                with suppress(Exception):  # as in `resign`
                    loop.run(ForgetTopics(topics=names))
                    done.add(number)
        return done

    def drop(self) -> None:
        """The broker stops, or the offsets topic itself was deleted: every coordinator resigns."""
        for number in {*self._loops, *self._loading}:
            self.resign(number)

    def _may_retry(self, number: int) -> bool:
        return self._retry_at_ms.get(number, 0) <= self._node.cluster.clock()

    def _leads(self, number: int) -> bool:
        topic = self._node.cluster.topics.get(CONSUMER_OFFSETS)
        return topic is not None and self._node.leads(topic, number)

    def _refuse(self, command: GroupRequest, number: int) -> None:
        if not self._leads(number):
            result = refusal(command, CoordinatorStatus.RESIGNED, self._settings)
        elif number in self._loading:
            result = refusal(command, CoordinatorStatus.LOADING, self._settings)
        else:
            result = error_result(command, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert result is not None, "neither status lets a group decide"
        self._deliver(Reply(to=command.reply_to, result=result))

    def _is_broken(self, loop: CoordinatorLoop, error: Exception) -> None:
        """Nobody knows what this coordinator knows, if it knows anything: its log is read again when somebody asks a while later."""
        number = loop.coordinator.partition
        if self._loops.get(number) is loop:
            del self._loops[number]
            self._cannot_serve(number, error)

    def _cannot_serve(self, number: int, error: Exception) -> None:
        self._retry_at_ms[number] = self._node.cluster.clock() + RETRY_MS
        mistake = None if isinstance(error, StorageError) else error
        log.error("%s-%d: its groups are not served: %s", CONSUMER_OFFSETS, number, error, exc_info=mistake)

    @property
    def _log_prefix(self) -> str:
        return f"[GroupCoordinator id={self._node.id}] "

    def _deliver(self, reply: Reply) -> None:
        answer, request = self._waiting.pop(reply.to)
        try:
            answer(reply.result)
        except Exception as error:
            if request is None:
                raise
            request.fail(error)  # one answer that cannot be given must not keep the others from theirs

    def _fail(self, reply_to: int, error: Exception) -> None:
        _, request = self._waiting.pop(reply_to, (None, None))
        if request is not None:
            request.fail(error)


def group_settings(config: BrokerConfig) -> GroupSettings:
    """What the broker's settings say about groups."""
    return GroupSettings.from_config(config)
