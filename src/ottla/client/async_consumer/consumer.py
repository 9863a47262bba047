"""`ottla.AsyncConsumer`: aiokafka's consumer, on the engine of `ottla.Consumer`.

Its methods check what they are given; `shell` has the engine in the event loop, `reader` the records, `offsets` positions and commits.
"""

import asyncio
import re
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import TracebackType
from typing import Any, Final, Self, Unpack

from ottla.client.async_consumer.arguments import ConsumerArguments, parse_arguments
from ottla.client.async_consumer.errors import ConsumerStoppedError, IllegalStateError
from ottla.client.async_consumer.offsets import Lookups, Offsets
from ottla.client.async_consumer.reader import Many, Reader
from ottla.client.async_consumer.record import ConsumerRecord, OffsetAndTimestamp, record_maker
from ottla.client.async_consumer.shell import Shell
from ottla.client.consumer.message import key, keys
from ottla.client.engine.subscriptions import PartitionState
from ottla.client.engine.values import EARLIEST, LATEST
from ottla.protocol.model import TopicPartition

_UNSUBSCRIBED: Final = "the consumer unsubscribed from all topics"
_CLOSED: Final = "the consumer is being closed"
_MIXED: Final = "Subscription to topics, partitions and pattern are mutually exclusive"


class AsyncConsumer:
    """A consumer of a group, or without one, in the running event loop. `topics`: a subscription; `arguments`: as aiokafka has them.

    For the thread of its loop alone. Raises ValueError for an argument that is wrong or not supported. Methods raise the errors of
    `ottla.client.async_consumer.errors`, and ConsumerStoppedError after `stop`.
    """

    def __init__(self, *topics: str, loop: asyncio.AbstractEventLoop | None = None, **arguments: Unpack[ConsumerArguments]) -> None:
        for name, given in (("loop", loop), ("api_version", arguments.get("api_version"))):
            if given is not None:
                warnings.warn(f"The {name} argument does nothing: leave it out", DeprecationWarning, stacklevel=2)
        parsed = parse_arguments(arguments)
        self._shell = Shell(parsed, asyncio.get_running_loop())
        self._engine = self._shell.engine
        self._reader = Reader(self._shell, record_maker(parsed.key_deserializer, parsed.value_deserializer))
        self._lookups = Lookups(parsed.client, connect=parsed.connect, timeout_ms=parsed.client.default_api_timeout_ms)
        self._offsets = Offsets(self._shell, self._lookups)
        self._records_max = parsed.records_max
        self._kind = ""
        self._topics: frozenset[str] = frozenset()
        if topics:
            self.subscribe(topics)

    def __repr__(self) -> str:
        return f"<AsyncConsumer {self._engine.described()}{', stopped' if self._shell.is_stopped else ''}>"

    async def start(self) -> None:
        """Connect, and with a subscription to topics join the group: until it has given partitions. Raises KafkaConnectionError."""
        if self._shell.is_started:
            raise IllegalStateError("start() was called already")
        try:
            await self._shell.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Commit (with enable_auto_commit), leave the group, and close all connections. Calls that wait end with ConsumerStoppedError."""
        if self._shell.is_stopped:
            return
        try:
            await self._shell.stop(_CLOSED)
        finally:
            await self._lookups.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.stop()

    # Subscriptions and assignments.

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None) -> None:
        """Subscribe to topics, or to all whose names match `pattern`, in place of an earlier subscription.

        With `group_protocol="consumer"` the coordinator knows what matches: in RE2's syntax, and the whole name of a topic.
        `listener` has `on_partitions_revoked` and `on_partitions_assigned`, which may be coroutines.
        """
        if isinstance(topics, str) or not all(isinstance(topic, str) for topic in topics):
            raise TypeError(f"topics must be a list of names, not {topics!r}")
        named = list(topics)
        if bool(named) == (pattern is not None):
            raise TypeError("You should provide either `topics` or `pattern`")
        if listener is not None and not (hasattr(listener, "on_partitions_revoked") and hasattr(listener, "on_partitions_assigned")):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        is_sent = self._engine.membership.sends_patterns
        try:
            patterns = [] if pattern is None or is_sent else [re.compile(pattern)]
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
        regex = pattern if is_sent and pattern is not None else ""
        self._set_kind("topics" if pattern is None else "pattern")
        self._topics = frozenset(named)

        def subscribe() -> None:
            self._shell.notifier.listener = listener
            self._engine.settle()
            self._engine.subscribe(named, patterns, regex)
            self._shell.driver.wake()

        self._shell.after_leaving(subscribe)

    def unsubscribe(self) -> None:
        """Give up subscription and assignment, and leave the group. The listener is not called."""
        self._kind = ""
        self._shell.leave(_UNSUBSCRIBED)

    def subscription(self) -> frozenset[str]:
        """The topics of the subscription; of a pattern, those that match now; of assigned partitions, theirs."""
        if self._kind != "pattern":
            return self._topics if self._kind == "topics" else frozenset(partition.topic for partition in self.assignment())
        if self._engine.membership.sends_patterns:  # only those that the coordinator gives partitions of are known
            return frozenset(partition.topic for partition in self.assignment())
        cluster = self._engine.cluster
        return self._engine.subscriptions.matching(cluster.partitions.keys() - cluster.internal)

    def assign(self, partitions: Iterable[Any]) -> None:
        """Read exactly these partitions, each from its committed offset."""
        wanted = keys(partitions)
        self._set_kind("partitions")

        def assign() -> None:
            self._engine.settle()
            self._engine.assign(dict.fromkeys(wanted))
            self._shell.driver.wake()

        self._shell.after_leaving(assign)

    def assignment(self) -> AbstractSet[TopicPartition]:
        """The partitions that are assigned now. As in aiokafka, a `set` where nothing is subscribed, which prints as one."""
        return frozenset(self._engine.subscriptions.partitions) if self._kind else set()

    # Records.

    async def getone(self, *partitions: Any) -> ConsumerRecord:
        """The next record, of these partitions or of any; it is waited for. A call that is cancelled loses none."""
        if not partitions and (record := self._reader.next_of_run()) is not None:
            return record
        return await self._reader.one(_among(partitions))

    async def getmany(self, *partitions: Any, timeout_ms: float = 0, max_records: int | None = None) -> Many:
        """Records by partition, of these partitions or of all; empty after `timeout_ms`. A call that is cancelled loses none.

        They are sequences that make each record when it is read; with deserializers, lists.
        `max_records` (else `max_poll_records`) bounds their number; without one a call returns 20,000 at most.
        """
        if max_records is not None and (not isinstance(max_records, int) or max_records < 1):
            raise ValueError(f"max_records must be a positive whole number, not {max_records!r}")
        return await self._reader.many(_among(partitions), timeout_ms, max_records or self._records_max)

    def __aiter__(self) -> Self:
        if self._shell.is_stopped:
            raise ConsumerStoppedError
        return self

    async def __anext__(self) -> ConsumerRecord:
        if (record := self._reader.next_of_run()) is not None:
            return record
        try:
            return await self._reader.one(None)
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    def pause(self, *partitions: Any) -> None:
        """Hand out no records of these partitions until `resume`, or until they are assigned again."""
        self._pause(partitions, True)

    def resume(self, *partitions: Any) -> None:
        """End `pause`."""
        self._pause(partitions, False)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {partition for partition, state in self._engine.subscriptions.partitions.items() if state.is_paused}

    def _pause(self, partitions: Sequence[Any], is_paused: bool) -> None:
        wanted = keys(partitions)
        for partition in wanted:
            self._shell.state(partition)
        self._engine.pause(wanted, is_paused)
        self._shell.driver.wake()

    # Positions and offsets.

    async def position(self, partition: Any) -> int:
        """The offset of the next record; it is waited for where it is not known yet."""
        return await self._offsets.position(key(partition))

    def seek(self, partition: Any, offset: int) -> None:
        """Continue an assigned partition at an offset."""
        if not isinstance(offset, int) or offset < 0:
            raise ValueError(f"Offset must be a positive integer, not {offset!r}")
        self._offsets.seek(key(partition), offset)

    async def seek_to_beginning(self, *partitions: Any) -> bool:
        """Continue at the first offsets of these partitions, or of all: whether they were found in time."""
        return await self._offsets.seek_to(self._sought(partitions), EARLIEST)

    async def seek_to_end(self, *partitions: Any) -> bool:
        """Continue at the ends of these partitions, or of all: whether they were found in time."""
        return await self._offsets.seek_to(self._sought(partitions), LATEST)

    async def seek_to_committed(self, *partitions: Any) -> dict[TopicPartition, int | None]:
        """Continue at the committed offsets of these partitions, or of all, where there are some; they are returned."""
        return await self._offsets.seek_to_committed(self._sought(partitions))

    async def commit(self, offsets: Mapping[Any, Any] | None = None) -> None:
        """Commit `offsets` (an offset, or an offset and metadata, by partition), or the positions of all assigned partitions.

        Raises CommitFailedError when the group has rebalanced without this member.
        """
        await self._offsets.commit(offsets)

    async def committed(self, partition: Any) -> int | None:
        """The committed offset of a partition, None without one."""
        return await self._offsets.committed(key(partition))

    async def beginning_offsets(self, partitions: Iterable[Any]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._offsets.list_offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[Any]) -> dict[TopicPartition, int]:
        """The offset behind the end of each partition; with read_committed, the last stable offset."""
        return await self._offsets.list_offsets(partitions, LATEST)

    async def offsets_for_times(self, timestamps: Mapping[Any, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (milliseconds since 1970), None where there is none."""
        return await self._offsets.offsets_for_times(timestamps)

    def highwater(self, partition: Any) -> int | None:
        """The offset behind the end of an assigned partition as the last fetch had it, None before the first one."""
        state = self._fetched(partition)
        return None if state is None else state.high_watermark

    def last_stable_offset(self, partition: Any) -> int | None:
        """The last stable offset as the last fetch had it, None before the first one; brokers give it to read_committed alone, else -1."""
        state = self._fetched(partition)
        return None if state is None else state.last_stable_offset

    def last_poll_timestamp(self, partition: Any) -> int | None:
        """When the last fetch of a partition was answered, in milliseconds since 1970; None before the first one."""
        state = self._fetched(partition)
        if state is None or state.fetched_ms is None:
            return None
        return time.time_ns() // 1_000_000 - int(self._shell.now_ms() - state.fetched_ms)

    # The cluster.

    async def topics(self) -> set[str]:
        """Every topic that the consumer may see, without internal ones."""
        found = await self._lookups.ask(lambda admin: admin.list_topics())
        return {name for name, topic in found.items() if not topic.is_internal}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of a topic's partitions, None where the consumer does not know the topic yet."""
        count = self._engine.cluster.partitions.get(topic)
        return None if count is None else set(range(count))

    def metrics(self) -> dict[str, float]:
        """Numbers of this consumer by the names that `ottla.Consumer.metrics` has, too (docs/consumer.md)."""
        return self._shell.driver.metrics()

    # What the methods share.

    def _set_kind(self, kind: str) -> None:
        if self._shell.is_stopped:
            raise ConsumerStoppedError
        if self._kind and self._kind != kind:
            raise IllegalStateError(_MIXED)
        self._kind = kind

    def _sought(self, partitions: Sequence[Any]) -> list[TopicPartition]:
        wanted = keys(partitions) if partitions else sorted(self.assignment())
        if not wanted:
            raise IllegalStateError("No partitions are currently assigned")
        return wanted

    def _fetched(self, partition: Any) -> PartitionState | None:
        state = self._shell.state(key(partition))
        return None if state.fetched_ms is None else state


def _among(partitions: Sequence[Any]) -> frozenset[TopicPartition] | None:
    return frozenset(keys(partitions)) if partitions else None
