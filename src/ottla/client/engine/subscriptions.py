"""What a consumer reads: topics, patterns or partitions, and the state of each partition (Kafka: `SubscriptionState`).

It holds state and answers questions; it requests nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from ottla.client.backoff import backoff_ms
from ottla.client.engine.values import STORED, ConsumerSettings, OffsetAndMetadata, ResetByDuration
from ottla.client.fetch.leaders import LeaderAndEpoch
from ottla.protocol.model import TopicPartition


class PartitionState:
    """One assigned partition.

    `position`: the offset of the next record for the application, None while it is not known; `wants` says then how to find it: STORED, a
    timestamp, EARLIEST, LATEST or a duration (`tail`: so many records before that). `epoch`: the leader epoch of the last record, -1 where
    it is not known; `leader`: the leader whose log holds the position, None while no leader is known. `awaits_validation`: that leader is
    asked first whether its log does (KIP-320).
    `stored`: what the next commit without offsets commits. `is_ready`: the application knows of the assignment. `fetched_ms`: when the
    last response to a Fetch came; `taken`: how many records the application got; `start`: the offset with which
    it was assigned. `failures`: lookups in a row that failed, and offsets that the log refused; a Fetch that succeeds ends them.
    """

    __slots__ = (
        "awaits_validation",
        "committed",
        "end_reported",
        "epoch",
        "failures",
        "fetched_ms",
        "high_watermark",
        "is_paused",
        "is_ready",
        "last_stable_offset",
        "leader",
        "log_start_offset",
        "position",
        "retry_at_ms",
        "start",
        "stored",
        "tail",
        "taken",
        "wants",
    )

    def __init__(self) -> None:
        self.position: int | None = None
        self.wants: int | ResetByDuration = STORED
        self.tail = 0
        self.taken = 0
        self.start = STORED
        self.epoch = -1
        self.leader: LeaderAndEpoch | None = None
        self.awaits_validation = False
        self.stored: OffsetAndMetadata | None = None
        self.committed: int | None = None
        self.is_paused = False
        self.is_ready = True
        self.end_reported = -1
        self.retry_at_ms = 0.0
        self.failures = 0
        self.fetched_ms: float | None = None
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1

    def seek(self, position: int, epoch: int = -1, *, is_valid: bool = False) -> None:
        """Continue at an offset; the log is asked for an epoch, unless it has just given the position (`is_valid`)."""
        self.position, self.epoch, self.end_reported = position, epoch, -1
        self.leader, self.awaits_validation = None, epoch >= 0 and not is_valid
        self.retry_at_ms = 0.0

    def find(self, wants: int | ResetByDuration, tail: int = 0) -> None:
        """Find the position again."""
        self.position, self.wants, self.tail, self.end_reported = None, wants, tail, -1
        self.leader, self.awaits_validation = None, False
        self.retry_at_ms = 0.0

    def back_off(self, now_ms: float, settings: ConsumerSettings, rng: float, *, at_once: int = 0) -> None:
        """A lookup failed: count it, and wait before the next one. The first `at_once` failures in a row have no wait."""
        self.failures += 1
        waits = self.failures - at_once
        self.retry_at_ms = now_ms + (backoff_ms(waits, *settings.group.retry_backoff_ms, rng) if waits > 0 else 0)

    def end(self, *, is_read_committed: bool) -> int:
        """The offset behind the last record that can be read, as the last fetch saw it; -1 before that."""
        return self.last_stable_offset if is_read_committed else self.high_watermark

    def lag(self, *, is_read_committed: bool) -> int | None:
        """How many offsets there are behind the position, as the last fetch saw it; None when either is not known."""
        end = self.end(is_read_committed=is_read_committed)
        return None if self.position is None or end < 0 else max(end - self.position, 0)

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be requested."""
        return self.has_valid_position and self.is_ready and not self.is_paused

    @property
    def has_valid_position(self) -> bool:
        """Whether the position is known, and nothing has to be asked about it."""
        return self.position is not None and not self.awaits_validation


class Subscriptions:
    """A subscription to topics and patterns, or partitions that the application assigned, and the assigned partitions.

    `regex`: a pattern of which the coordinator knows what it matches, "" for none.
    """

    def __init__(self) -> None:
        self.topics: frozenset[str] | None = None
        self.patterns: tuple[re.Pattern[str], ...] = ()
        self.regex = ""
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.is_by_group = False

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a subscription nor an assignment."""
        return self.topics is None and not self.partitions

    def subscribe(self, topics: Iterable[str], patterns: Sequence[re.Pattern[str]], regex: str = "") -> None:
        """Replace the subscription. Assigned partitions stay until the next rebalance."""
        self.topics, self.patterns, self.regex = frozenset(topics), tuple(patterns), regex
        self.is_by_group = True

    def unsubscribe(self) -> None:
        """Forget subscription and assignment."""
        self.topics, self.patterns, self.regex, self.is_by_group = None, (), "", False
        self.partitions.clear()

    def matching(self, known: Iterable[str]) -> frozenset[str]:
        """The topics of the subscription: the named ones, and those of `known` that a pattern matches."""
        named = self.topics or frozenset()
        return named | {topic for topic in known if any(pattern.match(topic) for pattern in self.patterns)}

    def accepts(self, topic: str) -> bool:
        """Whether the subscription includes a topic."""
        return topic in (self.topics or ()) or any(pattern.match(topic) for pattern in self.patterns)

    def reads(self, topic: str) -> bool:
        """Whether records of an assigned partition are handed out: not those of a topic that the subscription no longer names.

        Source: Kafka's `SubscriptionState.isFetchableAndSubscribed`, which asks this of named topics alone.
        """
        return not self.is_by_group or bool(self.patterns or self.regex) or topic in (self.topics or ())

    def add(self, partitions: Iterable[TopicPartition], *, is_ready: bool) -> None:
        """Assign more partitions."""
        for partition in partitions:
            state = self.partitions[partition] = PartitionState()
            state.is_ready = is_ready

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions away."""
        for partition in partitions:
            self.partitions.pop(partition, None)

    def by_topic(self) -> Mapping[str, Sequence[int]]:
        """The assigned partitions by topic."""
        found: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            found.setdefault(topic, []).append(partition)
        return found

    def uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Stored offsets that are not committed yet."""
        return {
            partition: state.stored
            for partition, state in self.partitions.items()
            if state.stored is not None and state.stored.offset != state.committed
        }
