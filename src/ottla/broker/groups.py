"""Which coordinator serves which group, and who waits for which answer: the way from an API to a coordinator and back (S0.4)."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.coordinator_loop import CoordinatorLoop
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, Refused
from ottla.core.config import BrokerConfig
from ottla.core.errors import PeerError, StorageError
from ottla.core.groups.commands import Command, ForgetTopics, Request
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Reply, Result
from ottla.core.groups.gate import CoordinatorStatus, refusal
from ottla.core.groups.placement import coordinator_partition
from ottla.core.groups.settings import GroupSettings

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger("ottla.broker.groups")


class Groups:
    """The coordinators of one broker: one for each partition of `__consumer_offsets` that it leads."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._settings = group_settings(node.cluster.config)
        self._loops: dict[int, CoordinatorLoop] = {}
        self._waiting: dict[int, Callable[[Result], None]] = {}
        self._last_token = 0

    def load(self) -> None:
        """Takes every partition that this broker leads, when the offsets topic is there already.

        One whose log cannot be read is tried again when asked for.
        """
        topic = self._node.cluster.topics.get(CONSUMER_OFFSETS)
        for number in range(len(topic.leaders) if topic else 0):
            assert topic is not None
            if self._node.leads(topic, number):
                try:
                    self.take(number)
                except StorageError as error:
                    log.error("%s-%d: its groups are not served: %s", CONSUMER_OFFSETS, number, error)

    def partition_of(self, group_id: str) -> int | Refused:
        """The offsets partition whose leader coordinates the group; the topic is made if this is its first use (S2.2)."""
        topic = self._node.cluster.topics.ensure(CONSUMER_OFFSETS)
        return topic if isinstance(topic, Refused) else coordinator_partition(group_id, len(topic.leaders))

    def take(self, number: int) -> CoordinatorLoop:
        """Coordinates the groups of an offsets partition, once its log is read. Raises StorageError when that cannot be."""
        partition = self._node.cluster.partitions.by_name(CONSUMER_OFFSETS, number)
        assert partition is not None
        loop = CoordinatorLoop(
            Coordinator(self._settings, partition=number, node_id=self._node.id),
            partition,
            clock=self._node.cluster.clock,
            reply=self._deliver,
            publish=self._node.cluster.events.publish,
        )
        loop.load()
        self._loops[number] = loop
        return loop

    def resign(self, number: int) -> None:
        """Coordinates the groups of an offsets partition no more: whoever waits is told to look for another coordinator."""
        loop = self._loops.pop(number, None)
        if loop is not None:
            loop.close()

    def loop(self, number: int) -> CoordinatorLoop | None:
        """The coordinator of an offsets partition, None when another broker leads it. Raises StorageError when its log cannot be read."""
        loop = self._loops.get(number)
        if loop is None:
            topic = self._node.cluster.topics.get(CONSUMER_OFFSETS)
            loop = self.take(number) if topic is not None and self._node.leads(topic, number) else None
        return loop

    @property
    def is_loading(self) -> bool:
        """Whether a coordinator still reads its log."""
        return any(loop.coordinator.status is CoordinatorStatus.LOADING for loop in self._loops.values())

    def loops(self) -> list[CoordinatorLoop]:
        """Every coordinator of this broker."""
        return list(self._loops.values())

    def wait_for(self, answer: Callable[[Result], None]) -> int:
        """A `reply_to` whose reply goes to `answer`."""
        self._last_token += 1
        self._waiting[self._last_token] = answer
        return self._last_token

    def ask(self, group_id: str, command: Command) -> None:
        """Hands a command to the group's coordinator; when that is another broker, answers so.

        Raises StorageError when the offsets topic cannot be made, and PeerError for a command that no record could hold.
        """
        try:
            number = self.partition_of(group_id)
            assert isinstance(number, int), "the offsets topic's own settings were refused"
            loop = self.loop(number)
            if loop is None:
                self._send_elsewhere(command)
            else:
                loop.run(command)
        except (PeerError, StorageError):
            self._waiting.pop(getattr(command, "reply_to", 0), None)
            raise

    def forget_topics(self, names: tuple[str, ...]) -> None:
        """Topics were deleted: their committed offsets go with them."""
        for loop in self.loops():
            loop.run(ForgetTopics(topics=names))

    def drop(self) -> None:
        """The broker stops, or the offsets topic itself was deleted: every coordinator resigns."""
        for number in list(self._loops):
            self.resign(number)

    def _send_elsewhere(self, command: Command) -> None:
        assert isinstance(command, Request), "the broker's own notices go to its own coordinators"
        result = refusal(command, CoordinatorStatus.RESIGNED, self._settings)
        assert result is not None, "who has resigned refuses everything"
        self._deliver(Reply(to=command.reply_to, result=result))

    def _deliver(self, reply: Reply) -> None:
        self._waiting.pop(reply.to)(reply.result)


def group_settings(config: BrokerConfig) -> GroupSettings:
    """What the broker's settings say about groups."""
    return GroupSettings.from_config(config)
