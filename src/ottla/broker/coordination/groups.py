"""What a broker does for groups: commands to their coordinators, heartbeats without a command, bulk loading, the publishing of events.

Commands of API handlers are routed by their keys, and the replies back: each request has a number, `reply_to`. The router knows no group.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic

from ottla.broker.cluster.topics import Topics
from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.broker.coordination.coordinators import BrokerCoordinators
from ottla.broker.network.request import Request
from ottla.broker.partitions.partitions import NotOpen, Partitions
from ottla.config import BrokerConfig
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.coordinator.effects import Reply
from ottla.coordinator.loading import ReducerFactory
from ottla.coordinator.loop import CoordinatorT
from ottla.coordinator.placement import coordinator_partition
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import GroupEvent, event_json
from ottla.groups.log.replayed_state import ReferenceReducer, ReplayedState
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import GROUP_EVENTS
from ottla.protocol.errors import ApiError, ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.text import printable

log = logging.getLogger(__name__)

COMPILED_BYTES_MIN: Final = 4 << 20
"""The reference backend reads less in the time that loading the compiled code takes; a million compressed commits are some 14 MB."""


def serves_consumer_groups(config: BrokerConfig, cluster_metadata: ClusterMetadata) -> bool:
    """Whether consumer groups (KIP-848) are on: by `group.coordinator.rebalance.protocols` and by the cluster's group.version."""
    return cluster_metadata.group_version > 0 and "consumer" in config.items("group.coordinator.rebalance.protocols")


class PendingReplies:
    """The pending replies of one broker's requests, by `reply_to`."""

    def __init__(self) -> None:
        self._pending: dict[int, tuple[Callable[[Any], None], Request | None]] = {}
        self._last_reply_to = 0

    def __len__(self) -> int:
        return len(self._pending)

    def expect(self, answer: Callable[[Any], None], request: Request | None = None) -> int:
        """Return a `reply_to` whose result goes to `answer`. If a bug of ours prevents the reply, `request` fails."""
        self._last_reply_to += 1
        self._pending[self._last_reply_to] = answer, request
        return self._last_reply_to

    def deliver(self, reply: Reply[Any]) -> None:
        """Pass a reply on."""
        answer, request = self._pending.pop(reply.to)
        try:
            answer(reply.result)
        except Exception as error:
            if request is None:
                raise
            request.fail(error)  # one response that cannot be sent must not prevent the others

    def fail(self, reply_to: int, error: Exception) -> None:
        """End the connection of a request that will get no reply."""
        _, request = self._pending.pop(reply_to, (None, None))
        if request is not None:
            request.fail(error)

    def cancel(self, reply_to: int) -> None:
        """Forget a reply: its command was refused with an error that the caller handles."""
        self._pending.pop(reply_to, None)


class CoordinatorRouter(Generic[CoordinatorT]):
    """The coordinators of one kind of one broker, as its API handlers reach them. `expect_reply` gives the `reply_to` of a command."""

    def __init__(self, *, topics: Topics, coordinators: BrokerCoordinators[CoordinatorT], replies: PendingReplies) -> None:
        self.coordinators = coordinators
        self.replies = replies
        self.expect_reply = replies.expect
        self._topics = topics
        self._topic_name = coordinators.service.coordinator_type.topic
        # The mappings themselves, not method calls: every request reads them.
        self._topics_by_name = topics.by_name
        self._by_partition = coordinators.by_partition

    def partition_of(self, key: str) -> int | ApiError:
        """The partition whose leader coordinates the key; the topic is created at its first use."""
        topic = self._topics_by_name.get(self._topic_name) or self._topics.ensure(self._topic_name)
        return topic if isinstance(topic, ApiError) else coordinator_partition(key, len(topic.leaders))

    def run(self, key: str, command: Any) -> None:
        """Pass a command to the key's coordinator; without one here, reply with the error.

        Raises StorageError when the topic cannot be created, and PeerError for a command that no record could hold.
        """
        try:
            number = self.partition_of(key)
            assert isinstance(number, int), "the topic's own settings were refused"
            loop = self._by_partition.get(number) or self.coordinators.get(number)
            if loop is not None:
                loop.run(command)
            else:
                self._refuse(command, number)
        except Exception:
            self.replies.cancel(getattr(command, "reply_to", 0))
            raise

    def _refuse(self, command: Any, number: int) -> None:
        service = self.coordinators.service
        if not self.coordinators.leads(number):
            result = service.refusal(command, CoordinatorStatus.RESIGNED)
        elif self.coordinators.is_loading(number):
            result = service.refusal(command, CoordinatorStatus.LOADING)
        else:
            result = service.error_result(command, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert result is not None, "only a coordinator that serves decides"
        self.replies.deliver(Reply(to=command.reply_to, result=result))


class LoadingBackends:
    """Chooses what loads groups: compiled code for large logs, where it is ready; else the reference. One of a process; thread-safe."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.groups.log.arrow.loading", "ottla.groups.log.arrow.loading", start)

    def choose(self, log_bytes: int) -> ReducerFactory[ReplayedState]:
        """The backend for logs of `log_bytes` in total. Blocks only the calling thread while code is loaded."""
        if log_bytes < COMPILED_BYTES_MIN or not self._code.is_compiled():
            return ReferenceReducer
        from ottla.groups.log.arrow.loading import CompiledReducer

        return CompiledReducer

    def close(self) -> None:
        """End the process that compiles, if there is one."""
        self._code.close()


class GroupRouter(CoordinatorRouter[GroupCoordinator]):
    """The groups of one broker."""

    def fast_heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """The result of a Heartbeat, without a command; None where it needs one (`run`)."""
        number = self.partition_of(group_id)
        loop = self._by_partition.get(number) if isinstance(number, int) else None
        if loop is None or loop.coordinator.has_pending(group_id):
            return None
        timer_ms = self.coordinators.timer_clock()
        error = loop.coordinator.fast_heartbeat(group_id, generation, member_id, instance_id, timer_ms=timer_ms)
        if error is not None:
            loop.set_timer()
        return error

    def fast_consumer_heartbeat(
        self, group_id: str, member_id: str, epoch: int, instance_id: str | None, client_id: str, client_host: str
    ) -> int | None:
        """The heartbeat interval in ms for a ConsumerGroupHeartbeat that says nothing new, without a command; None where it needs one."""
        number = self.partition_of(group_id)
        loop = self._by_partition.get(number) if isinstance(number, int) else None
        if loop is None or loop.coordinator.has_pending(group_id):
            return None
        timer_ms = self.coordinators.timer_clock()
        interval_ms = loop.coordinator.fast_consumer_heartbeat(
            group_id, member_id, epoch, instance_id, client_id, client_host, timer_ms=timer_ms
        )
        if interval_ms is not None:
            loop.set_timer()
        return interval_ms


class GroupEvents:
    """Publishes events: to listeners (a Python callback, the metrics), and as one JSON record each to `__ottla_group_events`.

    Publishing never delays a response (those of one iteration of the loop are written when it is next free) and never fails a group: events
    that cannot be written are lost, with a log line.
    """

    def __init__(
        self, topics: Topics, partitions: Partitions, clock: Callable[[], int], callback: Callable[[GroupEvent], None] | None
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._clock = clock
        self._listeners = [] if callback is None else [callback]
        self._pending: list[GroupEvent] = []

    def add_listener(self, listener: Callable[[GroupEvent], None]) -> None:
        """Call `listener` with every event from now on, on the loop."""
        self._listeners.append(listener)

    def publish(self, events: tuple[GroupEvent, ...]) -> None:
        """Take events; they are written when the loop is next free."""
        if not self._pending:
            asyncio.get_running_loop().call_soon(self.flush)
        self._pending += events

    async def open(self) -> None:
        """Open the topic, if it exists: events that are published while the broker stops cannot wait for that."""
        topic = self._topics.get(GROUP_EVENTS)
        if topic is not None:
            with suppress(StorageError):  # `flush` says so, if there is anything to write
                await self._partitions.open(topic, 0)

    def flush(self) -> None:
        """Write the pending events and pass them to the listeners."""
        events, self._pending = self._pending, []
        if not events:
            return
        try:
            self._append(events)
        except NotOpen as error:  # the first events after a start: those that follow meanwhile are written with them
            self._pending = events
            error.opening.add_done_callback(lambda _: self.flush())
            return
        except StorageError as error:
            log.error("%d group events are lost: %s", len(events), error)
        for listener in self._listeners:
            for event in events:
                self._notify(listener, event)

    def _append(self, events: list[GroupEvent]) -> None:
        topic = self._topics.ensure(GROUP_EVENTS)
        assert not isinstance(topic, ApiError)
        partition = self._partitions.get(topic, 0)
        assert partition is not None
        records = [Record(0, event.at_ms, event.group.encode(), event_json(event)) for event in events]
        partition.append_records(records, now_ms=self._clock())

    @staticmethod
    def _notify(listener: Callable[[GroupEvent], None], event: GroupEvent) -> None:
        try:
            listener(event)
        except Exception:
            log.exception("the group event callback failed on %s of group %s", event.kind, printable(event.group))
