"""What goes in and out of the fetch machine: questions for brokers, their answers, and problems that it cannot solve. Values only."""

from typing import Final, NamedTuple, Self

from ottla.core.consuming.cluster_view import NO_EPOCH, NO_LEADER, Leader
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

NO_MOVE: Final = Leader(NO_LEADER, NO_EPOCH)
BULK_BYTES: Final = 1024 * 1024
"""What an answer should hold at least where there is much to read: a broker may have reasons of its own to send less at once."""
BULK_WAIT_MS: Final = 20
"""How long a broker may look for so much: no longer, since it was only guessed that there is so much."""


class FetchPolicy(NamedTuple):
    """The settings that decide how is asked; times in milliseconds (waits: the first, the longest), sizes in bytes."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 4 * 1024 * 1024
    is_read_committed: bool = False
    api_timeout_ms: int = 60_000
    retry_backoff_ms: tuple[int, int] = (100, 1_000)
    reconnect_backoff_ms: tuple[int, int] = (50, 1_000)

    def bulk(self) -> Self:
        """The same for large answers."""
        return self._replace(min_bytes=max(self.min_bytes, BULK_BYTES), max_wait_ms=min(self.max_wait_ms, BULK_WAIT_MS))


class PartitionAsk(NamedTuple):
    """One partition in a Fetch request: from which offset on; `topic_id` "" where it is not known."""

    partition: TopicPartition
    offset: int
    leader_epoch: int
    topic_id: str


class PartitionAnswer(NamedTuple):
    """One partition's part of a Fetch answer; `records` are whole batches but for the last, which may be cut.

    `moved_to`: the leader that the broker names itself, with an error that says that it is not the one (KIP-951).
    """

    partition: TopicPartition
    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: memoryview = memoryview(b"")
    aborted: tuple[tuple[int, int], ...] = ()
    moved_to: Leader = NO_MOVE


class Send(NamedTuple):
    """To do: send this Fetch to this broker; `asks` are in the order of the request, each topic's together.

    `is_bulk`: so much is to come that a small answer is not worth its while.
    """

    broker_id: int
    asks: tuple[PartitionAsk, ...]
    is_bulk: bool = False


class Refresh(NamedTuple):
    """To do: ask any broker for Metadata about these topics."""

    topics: tuple[str, ...]


class OutOfRange(NamedTuple):
    """The broker does not hold `position`, or its log ends before the range does (then it says where: -1 is not told)."""

    partition: TopicPartition
    position: int
    log_start_offset: int
    end_offset: int


class Recreated(NamedTuple):
    """The topic is not the one with the id that was expected; `found` is the id it has now, "" where that is not known."""

    topic: str
    expected: str
    found: str


class Unknown(NamedTuple):
    """There is no such topic, or no such partition."""

    partition: TopicPartition


class Refused(NamedTuple):
    """An error that will not pass, or did not in its time."""

    partition: TopicPartition
    error: ErrorCode


class Unreachable(NamedTuple):
    """No broker could be asked in the time there is; `why` is a sentence."""

    why: str


Problem = OutOfRange | Recreated | Unknown | Refused | Unreachable
