"""Values of the fetch machine: ranges and records, requests and responses, actions, and problems that end a read."""

from enum import Enum
from typing import Final, NamedTuple, Self

from ottla.client.fetch.leaders import NO_EPOCH, NO_LEADER, LeaderAndEpoch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

NO_CURRENT_LEADER: Final = LeaderAndEpoch(NO_LEADER, NO_EPOCH)
OPEN_END: Final = 2**63 - 1
"""The end of a range that goes on: whatever is appended belongs to it."""
BULK_BYTES: Final = 1024 * 1024
"""fetch.min.bytes of a bulk request: without it a broker answers with less."""
BULK_WAIT_MS: Final = 20
"""fetch.max.wait.ms of a bulk request: short, because the amount of data is only an estimate."""
NO_REPLICA: Final = -1
NO_SESSION: Final = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
"""The session epochs of requests that begin a session, and of those that end one or have none."""


class Need(Enum):
    """Whether a range is requested for now: only `NOW` is a reason for a request, and `WITH_OTHERS` is part of one that has a reason."""

    NOW = "now"
    WITH_OTHERS = "with others"
    NOT = "not"


class FetchPolicy(NamedTuple):
    """The settings of Fetch requests and retries; times in milliseconds (back-offs: the first, the longest), sizes in bytes.

    `rack`: client.rack, "" for none; `metadata_max_age_ms`: for so long a follower that the leader names is read (KIP-392).
    """

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 4 * 1024 * 1024
    is_read_committed: bool = False
    api_timeout_ms: int = 60_000
    retry_backoff_ms: tuple[int, int] = (100, 1_000)
    reconnect_backoff_ms: tuple[int, int] = (50, 1_000)
    rack: str = ""
    metadata_max_age_ms: int = 300_000

    def bulk(self) -> Self:
        """The policy of bulk requests, for large responses."""
        return self._replace(min_bytes=max(self.min_bytes, BULK_BYTES), max_wait_ms=min(self.max_wait_ms, BULK_WAIT_MS))


class FetchRange(NamedTuple):
    """The records of one partition with start <= offset < end. `topic_id` is Kafka's base64 text of 22 letters, "" if not known."""

    partition: TopicPartition
    start: int
    end: int = OPEN_END
    topic_id: str = ""


class FetchedRecords(NamedTuple):
    """Whole record batches (read-only bytes) that hold every record of `partition` with position <= offset < next_offset.

    They are as the broker sent them: the first one may begin before `position`, and the last ones may lie behind the requested range. A
    range has been read when `next_offset` reaches its end; where it holds no more records, `records` are empty. `aborted`: pairs
    of producer id and first offset of transactions that were aborted, in the order of their offsets; empty unless only committed records
    are read.
    """

    partition: TopicPartition
    position: int
    next_offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...] = ()


class PartitionFetch(NamedTuple):
    """One partition in a Fetch request; `topic_id` is "" where it is not known."""

    partition: TopicPartition
    offset: int
    leader_epoch: int
    topic_id: str


class PartitionResponse(NamedTuple):
    """One partition in a Fetch response; `records` are whole batches except the last, which may be cut.

    `current_leader`: the new leader that the broker names beside NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH (KIP-951);
    `preferred_replica`: the follower to read from, NO_REPLICA where the leader names none (KIP-392).
    """

    partition: TopicPartition
    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: memoryview = memoryview(b"")
    aborted: tuple[tuple[int, int], ...] = ()
    current_leader: LeaderAndEpoch = NO_CURRENT_LEADER
    preferred_replica: int = NO_REPLICA


class SessionFields(NamedTuple):
    """The session of a Fetch request (KIP-227): `sent` are the partitions that it names, `forgotten` those that the session loses."""

    session_id: int
    epoch: int
    sent: tuple[PartitionFetch, ...]
    forgotten: tuple[PartitionFetch, ...] = ()


class SendFetch(NamedTuple):
    """Action: send this Fetch to this broker; `fetches` are in the order of the request, grouped by topic.

    `is_bulk`: much data is expected, so ask for large responses.
    """

    broker_id: int
    fetches: tuple[PartitionFetch, ...]
    is_bulk: bool = False


class RefreshMetadata(NamedTuple):
    """Action: request Metadata of these topics from any broker."""

    topics: tuple[str, ...]


class OffsetOutOfRange(NamedTuple):
    """The broker does not hold `position`, or its log ends before the range does. The log's offsets are -1 where they are not known."""

    partition: TopicPartition
    position: int
    log_start_offset: int
    end_offset: int


class TopicRecreated(NamedTuple):
    """The topic has another id than expected; `found` is its id now, "" where that is not known."""

    topic: str
    expected: str
    found: str


class UnknownPartition(NamedTuple):
    """The topic or the partition does not exist."""

    partition: TopicPartition


class PartitionRefused(NamedTuple):
    """An error that is not retriable, or that lasted longer than the timeout."""

    partition: TopicPartition
    error: ErrorCode


class BrokersUnreachable(NamedTuple):
    """No broker could be reached within the timeout; `why` is a sentence."""

    why: str


Problem = OffsetOutOfRange | TopicRecreated | UnknownPartition | PartitionRefused | BrokersUnreachable
