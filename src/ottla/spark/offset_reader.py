"""Asks the brokers, for the driver: which partitions a query has, where they begin and end, and which offsets belong to a time or a group.

It holds the driver's one connection to a broker, tries again as fetchOffset.numRetries says, and plans nothing.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.consumer.admin.client import AdminClient
from ottla.consumer.admin.values import DescribedTopic, Failure
from ottla.consumer.errors import AuthenticationError, ClientError, RequestFailedError, UnknownTopicError
from ottla.consumer.retrying import OutOfTimeError
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.group_start import committed_offsets, starting_offsets
from ottla.spark.offset_options import EARLIEST, LATEST, Edge, GroupOffsets, Position, SpecificOffsets, Timestamp, Timestamps, listed, named
from ottla.spark.option_values import OptionError
from ottla.spark.options import LATEST as UNMATCHED_IS_LATEST
from ottla.spark.options import SourceOptions
from ottla.spark.stream_offsets import Offsets, recreated
from ottla.spark.subscription import Assign, SubscribePattern

log = logging.getLogger("ottla.spark")

T = TypeVar("T")
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class OffsetReader:
    """For one query; not for two threads at once. `connect` and `pause` (seconds) are for tests."""

    def __init__(
        self, options: SourceOptions, *, connect: Callable[..., AdminClient] = AdminClient, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._options = options
        self._connect = connect
        self._pause = pause
        self._admin: AdminClient | None = None

    def close(self) -> None:
        """Close the connections; another question opens new ones."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def partitions(self, *, missing_allowed: Iterable[str] = ()) -> Offsets:
        """The query's partitions (each with offset -1: nobody asked) and the ids of their topics.

        Raises UnknownTopicError for a topic that is named and not there, unless it is one of `missing_allowed`, or ClientError.
        """
        return self._again(lambda: self._partitions(frozenset(missing_allowed)))

    def latest(self, known: Offsets | None = None) -> Offsets:
        """The end of every partition. `known` is where a running query is: its topics may be gone, and ends before it are asked for again.

        Raises as `partitions` does.
        """
        allowed = self._allowed_to_be_gone(known)
        for attempt in range(self._options.offset_attempts_max):
            if attempt:
                self._pause(self._options.offset_retry_ms / 1000)
            found = self._again(lambda: self._at_edge(self._partitions(allowed), LATEST))
            behind = _behind(known, found) if known is not None else {}
            if not behind:
                break
            log.warning("The latest offsets of some partitions lie before what was read: %s", listed(behind))
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition that exists. Raises ClientError."""
        wanted = set(partitions)
        if not wanted:
            return {}

        def ask() -> dict[TopicPartition, int]:
            there = self._partitions({partition.topic for partition in wanted}).by_partition
            return self._list({partition: EARLIEST for partition in wanted if partition in there})

        return self._again(ask)

    def at_edge(self, edge: int, partitions: Offsets) -> Offsets:
        """Where these partitions begin (EARLIEST) or end (LATEST). Raises ClientError."""
        return self._again(lambda: self._at_edge(partitions, edge))

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics as far as these exist ("": the broker has none). Raises ClientError."""
        described = self._again(lambda: self._client().describe_topics(topics))
        return {name: topic.topic_id for name, topic in described.items() if isinstance(topic, DescribedTopic)}

    def resolve(self, position: Position, *, is_start: bool) -> tuple[Offsets, bool]:
        """The offsets that a position means now, and whether any of them is simply the end, so that it would be another one later.

        Raises OptionError where the options do not fit the partitions or no record is late enough, or ClientError.
        """

        def ask() -> tuple[Offsets, bool]:
            there = self._partitions(frozenset())
            unresolved = self._unresolved(position, set(there.by_partition), is_start)
            edges = {partition: offset for partition, offset in unresolved.items() if offset < 0}
            moves = LATEST in edges.values()
            return Offsets({**unresolved, **self._list(edges)}, there.topic_ids), moves

        return self._again(ask)

    def _allowed_to_be_gone(self, known: Offsets | None) -> frozenset[str]:
        """Topics whose absence is a loss of data for planning to tell; of others that are named it is a mistake, in a new query always."""
        if known is None:
            return frozenset()
        subscription = self._options.subscription
        if not self._options.fail_on_data_loss and not isinstance(subscription, SubscribePattern):
            return frozenset(subscription.topics)
        return frozenset(known.topic_ids) | {partition.topic for partition in known.by_partition}

    def _unresolved(self, position: Position, partitions: set[TopicPartition], is_start: bool) -> Mapping[TopicPartition, int]:
        """Offsets, -1 and -2 among them."""
        if isinstance(position, Edge):
            return dict.fromkeys(partitions, position.value)
        if isinstance(position, SpecificOffsets):
            _check_partitions(position.offsets, partitions, "startingOffsets" if is_start else "endingOffsets")
            return position.offsets
        if isinstance(position, GroupOffsets):
            committed = committed_offsets(self._client(), position.group_id)
            return starting_offsets(position.group_id, committed, partitions, position.reset)
        if isinstance(position, Timestamps):
            _check_partitions(position.timestamps_ms, partitions, "startingOffsetsByTimestamp" if is_start else "endingOffsetsByTimestamp")
        times = dict.fromkeys(partitions, position.timestamp_ms) if isinstance(position, Timestamp) else position.timestamps_ms
        return self._at_times(times, is_start)

    def _at_times(self, times: Mapping[TopicPartition, int], is_start: bool) -> dict[TopicPartition, int]:
        found = self._list(times)
        for partition, offset in sorted(found.items()):
            if offset < 0 and is_start and self._options.unmatched_start != UNMATCHED_IS_LATEST:
                raise OptionError(
                    f"No offset matched from request of topic-partition {named(partition)} and timestamp {times[partition]}."
                    ' To start such partitions at their end, set the option "startingOffsetsByTimestampStrategy" to latest.'
                )
        # The time -1 stands for the end, which moves.
        return {partition: LATEST if offset < 0 or times[partition] == LATEST else offset for partition, offset in found.items()}

    def _partitions(self, missing_allowed: Iterable[str]) -> Offsets:
        subscription = self._options.subscription
        if isinstance(subscription, SubscribePattern):
            visible = {name: topic for name, topic in self._client().list_topics().items() if not topic.is_internal}
            chosen = {name: visible[name] for name in subscription.matching(visible)}
        else:
            chosen = self._described(subscription.topics, missing_allowed)
        found = {TopicPartition(name, number): -1 for name, topic in chosen.items() for number in topic.leaders}
        if isinstance(subscription, Assign):
            found = {partition: -1 for partition in subscription.partitions if partition in found}
        return Offsets(found, {name: topic.topic_id for name, topic in chosen.items() if topic.topic_id})

    def _described(self, topics: Iterable[str], missing_allowed: Iterable[str]) -> dict[str, DescribedTopic]:
        found = {}
        for name, topic in self._client().describe_topics(topics).items():
            if isinstance(topic, DescribedTopic):
                found[name] = topic
            elif topic.code not in _GONE:
                raise RequestFailedError(_in_words(name, topic), topic.code)
            elif name not in missing_allowed:
                raise UnknownTopicError(f"topic {name} does not exist")
        return found

    def _at_edge(self, partitions: Offsets, edge: int) -> Offsets:
        return Offsets(self._list(dict.fromkeys(partitions.by_partition, edge)), partitions.topic_ids)

    def _list(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {partition: listed.offset for partition, listed in self._client().offsets_for_times(times).items()} if times else {}

    def _client(self) -> AdminClient:
        if self._admin is None:
            self._admin = self._connect(self._options.client)
        return self._admin

    def _again(self, ask: Callable[[], T]) -> T:
        """What `ask` gives, tried again with new connections; what has taken its whole time already, or is not allowed, is not."""
        for attempt in range(1, self._options.offset_attempts_max + 1):
            try:
                return ask()
            except (OutOfTimeError, AuthenticationError):
                raise
            except ClientError as error:
                if attempt == self._options.offset_attempts_max:
                    raise
                log.warning("Error in attempt %d getting Kafka offsets: %s", attempt, error)
                self.close()
                self._pause(self._options.offset_retry_ms / 1000)
        raise AssertionError("offset_attempts_max is at least 1")


def _behind(known: Offsets, found: Offsets) -> dict[TopicPartition, int]:
    """Partitions that end before what is known of them, though they are still the same."""
    again = recreated(known, found.topic_ids)
    return {
        partition: offset
        for partition, offset in found.by_partition.items()
        if offset < known.by_partition.get(partition, 0) and partition.topic not in again
    }


def _check_partitions(specified: Mapping[TopicPartition, int], assigned: set[TopicPartition], name: str) -> None:
    if set(specified) != assigned:
        raise OptionError(
            f"If {name} contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for earliest."
            f" Specified: {listed(specified)}. Assigned: {listed(assigned)}."
        )


def _in_words(name: str, failure: Failure) -> str:
    return f"topic {name}: {failure.message or failure.code.name}"
