"""Which coordinator serves which group, and who waits for which answer: the way from an API to a coordinator and back (S0.4)."""

import logging
from collections.abc import Callable

from ottla.broker.coordinator_loop import CoordinatorLoop
from ottla.broker.partitions import Partitions
from ottla.broker.topics import Topics
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, Refused
from ottla.core.config import BrokerConfig
from ottla.core.errors import PeerError, StorageError
from ottla.core.groups.commands import Command, ForgetTopics
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Reply, Result
from ottla.core.groups.placement import coordinator_partition
from ottla.core.groups.settings import GroupSettings
from ottla.core.model import GroupEvent

log = logging.getLogger("ottla.broker.groups")


class Groups:
    """The coordinators of this broker: one for each partition of `__consumer_offsets` that it leads."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        partitions: Partitions,
        clock: Callable[[], int],
        publish: Callable[[tuple[GroupEvent, ...]], None],
    ) -> None:
        self._config = config
        self._topics = topics
        self._partitions = partitions
        self._clock = clock
        self._publish = publish
        self._loops: dict[int, CoordinatorLoop] = {}
        self._waiting: dict[int, Callable[[Result], None]] = {}
        self._last_token = 0

    def load(self) -> None:
        """Loads every coordinator, when the offsets topic is there already. One whose log cannot be read is tried again when asked for."""
        topic = self._topics.get(CONSUMER_OFFSETS)
        for number in range(len(topic.leaders) if topic else 0):
            try:
                self.loop(number)
            except StorageError as error:
                log.error("%s-%d: its groups are not served: %s", CONSUMER_OFFSETS, number, error)

    def partition_of(self, group_id: str) -> int | Refused:
        """The offsets partition whose leader coordinates the group; the topic is made if this is its first use (S2.2)."""
        topic = self._topics.ensure(CONSUMER_OFFSETS)
        return topic if isinstance(topic, Refused) else coordinator_partition(group_id, len(topic.leaders))

    def loop(self, number: int) -> CoordinatorLoop:
        """The coordinator of an offsets partition, loaded. Raises StorageError when its log cannot be read."""
        loop = self._loops.get(number)
        if loop is None:
            partition = self._partitions.by_name(CONSUMER_OFFSETS, number)
            assert partition is not None
            loop = CoordinatorLoop(
                Coordinator(self._settings(), partition=number, node_id=self._config.node_id),
                partition,
                clock=self._clock,
                reply=self._deliver,
                publish=self._publish,
            )
            loop.load()
            self._loops[number] = loop
        return loop

    def loops(self) -> list[CoordinatorLoop]:
        """Every coordinator of this broker."""
        return list(self._loops.values())

    def wait_for(self, answer: Callable[[Result], None]) -> int:
        """A `reply_to` whose reply goes to `answer`."""
        self._last_token += 1
        self._waiting[self._last_token] = answer
        return self._last_token

    def ask(self, group_id: str, command: Command) -> None:
        """Hands a command to the group's coordinator.

        Raises StorageError when the offsets topic cannot be made, and PeerError for a command that no record could hold.
        """
        try:
            number = self.partition_of(group_id)
            assert isinstance(number, int), "the offsets topic's own settings were refused"
            self.loop(number).run(command)
        except (PeerError, StorageError):
            self._waiting.pop(getattr(command, "reply_to", 0), None)
            raise

    def forget_topics(self, names: tuple[str, ...]) -> None:
        """Topics were deleted: their committed offsets go with them."""
        for loop in self.loops():
            loop.run(ForgetTopics(topics=names))

    def drop(self) -> None:
        """The offsets topic itself was deleted: every coordinator resigns."""
        for loop in self.loops():
            loop.close()
        self._loops.clear()

    def _deliver(self, reply: Reply) -> None:
        self._waiting.pop(reply.to)(reply.result)

    def _settings(self) -> GroupSettings:
        number = self._config.number
        return GroupSettings(
            group_min_session_timeout_ms=number("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=number("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            group_max_size=number("group.max.size"),
            offset_metadata_bytes_max=number("offset.metadata.max.bytes"),
        )
