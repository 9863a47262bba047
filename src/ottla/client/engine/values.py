"""Values of the consumer's engine: settings, positions, and the events that it reports.

Values of the consumer's engine: settings, requests to brokers, and their responses. Free of API versions.

What happens that the application gets in the place of a record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from ottla.client.fetch.fetch_values import NO_SESSION, FetchPolicy, PartitionFetch, PartitionResponse, SessionFields
from ottla.client.fetch.leaders import TopicMetadata
from ottla.client.membership.values import GroupRequest, GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
"""Timestamps that stand for a partition's start and end (ListOffsets)."""
STORED: Final = -1000
"""The offset that the group has committed (librdkafka: `RD_KAFKA_OFFSET_STORED`)."""


class ResetByDuration(NamedTuple):
    """auto.offset.reset=by_duration: the first record that is at most this old (KIP-1106)."""

    duration_ms: int


Reset = int | ResetByDuration | None
"""EARLIEST, LATEST, a duration, or None: without a committed offset the partition fails (auto.offset.reset=none)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The engine's settings; times in milliseconds.

    `prefetch_bytes_max`: above so many buffered bytes only partitions without buffered records are fetched (queued.max.messages.kbytes); so
    many decompressed bytes are held at a time, unless one batch is larger. `reports_ends`: enable.partition.eof; `creates_topics`:
    allow.auto.create.topics. `stores_resets`: commits include positions that were looked up and not read from yet, as in Java.
    """

    group: GroupSettings
    fetch: FetchPolicy = field(default_factory=FetchPolicy)
    reset: Reset = LATEST
    is_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    stores_offsets: bool = True
    stores_resets: bool = False
    reports_ends: bool = False
    creates_topics: bool = False
    api_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 300_000
    prefetch_bytes_max: int = 64 * 1024 * 1024


class Route(Enum):
    """Which connection a request takes. A broker answers the requests of a connection in order, so that long ones have their own."""

    ANY = "any broker"
    BROKER = "a broker"
    FETCH = "a broker, for Fetch alone"
    COORDINATOR = "the group's coordinator"


@dataclass(frozen=True, slots=True, eq=False)
class Metadata:
    """The brokers and these topics; None: all topics. `creates`: brokers may create those that are missing.

    `topic_ids`: topics of which only that is known, in the place of `topics`.
    """

    topics: tuple[str, ...] | None
    creates: bool = False
    topic_ids: tuple[str, ...] = ()


class OffsetAndMetadata(NamedTuple):
    """A committed offset, or one to commit: where reading continues (Kafka's class of this name)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class OffsetFetch:
    """The committed offsets of some partitions."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetCommit:
    """Commit offsets, as a member of `generation`, or with -1 and "" from outside of the group.

    `has_epoch`: the generation is a member's epoch (consumer protocol).
    """

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    has_epoch: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ListOffsets:
    """The first offset at or after each partition's timestamp."""

    timestamps: Mapping[TopicPartition, int]
    is_read_committed: bool


class LeaderEpoch(NamedTuple):
    """The leader epoch of a position, and the present one of the partition's leader."""

    leader_epoch: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetForLeaderEpoch:
    """The end offset of a leader epoch of each partition, from which a truncated log is detected (KIP-320)."""

    epochs: Mapping[TopicPartition, LeaderEpoch]


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """Records of some partitions of one broker; `session` has those that the request names. Without partitions it ends a session."""

    fetches: tuple[PartitionFetch, ...]
    policy: FetchPolicy
    session: SessionFields


Request = Metadata | OffsetFetch | OffsetCommit | ListOffsets | OffsetForLeaderEpoch | Fetch | GroupRequest


class Send(NamedTuple):
    """A request to send: `broker_id` is -1 for any broker. Without a response after `timeout_ms` the connection is closed."""

    request: Request
    route: Route
    broker_id: int
    timeout_ms: float


class Endpoint(NamedTuple):
    """A broker's address."""

    host: str
    port: int


class CoordinatorResponse(NamedTuple):
    """To FindCoordinator."""

    error: ErrorCode
    broker_id: int = -1
    endpoint: Endpoint = Endpoint("", 0)


class MetadataResponse(NamedTuple):
    """To Metadata."""

    endpoints: Mapping[int, Endpoint]
    topics: tuple[TopicMetadata, ...]


class FetchedOffset(NamedTuple):
    """One partition of an OffsetFetch; offset -1: nothing is committed."""

    error: ErrorCode
    offset: OffsetAndMetadata


class OffsetFetchResponse(NamedTuple):
    """To OffsetFetch."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, FetchedOffset]


class ListedOffset(NamedTuple):
    """One partition of a ListOffsets; offset -1: there is no such record."""

    error: ErrorCode
    offset: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """One partition of an OffsetForLeaderEpoch: the largest epoch up to the requested one, and where it ends; -1 where there is none."""

    error: ErrorCode
    leader_epoch: int
    end_offset: int


class FetchResponse(NamedTuple):
    """To Fetch. `endpoints`: of leaders that the response names; `error`: of the whole response; `session_id`: of the broker's session."""

    partitions: tuple[PartitionResponse, ...]
    endpoints: Mapping[int, Endpoint]
    error: ErrorCode = ErrorCode.NONE
    session_id: int = NO_SESSION


class PartitionEnd(NamedTuple):
    """The application has all records of a partition: the next one will have this offset."""

    partition: TopicPartition
    offset: int


class PartitionFailure(NamedTuple):
    """A partition cannot be read until the application seeks or assigns again."""

    partition: TopicPartition
    error: ErrorCode
    why: str


class TopicUnavailable(NamedTuple):
    """A topic that the subscription names does not exist, or may not be read. It is looked for, and read as soon as it can be."""

    topic: str
    error: ErrorCode


class LogTruncated(NamedTuple):
    """The leader's log does not hold a position, and auto.offset.reset is none: it cannot be read until the application seeks.

    `diverges`: the first offset at which the log may differ from the one that was read, None where that is not known (KIP-320).
    """

    partition: TopicPartition
    position: OffsetAndMetadata
    diverges: OffsetAndMetadata | None


class PollIntervalExceeded(NamedTuple):
    """The application polled too late, and the member has left the group."""

    interval_ms: int


Event = PartitionEnd | PartitionFailure | TopicUnavailable | LogTruncated | PollIntervalExceeded
