"""Results of admin requests: groups, members, offsets, topics and transactions.

Assignments of classic members stay bytes, which belong to the members' own protocol; `partitions` reads those of the consumer protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ottla.client.addresses import BrokerEndpoint
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import parse_assignment
from ottla.text import printable

EARLIEST: Final = -2
LATEST: Final = -1
"""Timestamps that stand for a partition's start and end (ListOffsets)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for one group, topic or partition: the broker's code, and its message if it sent one."""

    code: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group in a ListGroups response; `kind` is "classic", "consumer", ..., "" where the broker is too old to send it."""

    group_id: str
    protocol_type: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member. A classic one has `assignment_bytes` and `subscription_bytes` (empty while its group is not stable).

    One of a KIP-848 group has `topics` (those that it names), `rack`, `assigned`, `target` (topic to partitions) and an epoch.
    `is_upgraded`: whether a member of a KIP-848 group speaks the new protocol; None where the broker does not send it.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment_bytes: bytes = b""
    subscription_bytes: bytes = b""
    topics: tuple[str, ...] = ()
    rack: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    target: Mapping[str, tuple[int, ...]] | None = None
    epoch: int | None = None
    is_upgraded: bool | None = None

    @property
    def partitions(self) -> Mapping[str, tuple[int, ...]]:
        """What it is assigned, by topic; bytes of a classic member that are no assignment of the consumer protocol assign nothing."""
        if self.assigned is not None:
            return self.assigned
        try:
            return parse_assignment(self.assignment_bytes)
        except PeerError:
            return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group as its coordinator describes it; the epochs are those of KIP-848 groups, None in classic ones."""

    group_id: str
    kind: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: BrokerEndpoint
    members: tuple[DescribedMember, ...]
    group_epoch: int | None = None
    target_epoch: int | None = None

    @property
    def partitions(self) -> set[TopicPartition]:
        """What its members are assigned."""
        return {
            TopicPartition(topic, number) for member in self.members for topic, numbers in member.partitions.items() for number in numbers
        }


class CommittedOffset(NamedTuple):
    """A committed offset (-1: none), and what was committed with it: the leader epoch (-1: none) and a text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ListedOffset(NamedTuple):
    """The offset for a timestamp, and the record's own timestamp (milliseconds since 1970); -1 where there is none.

    The timestamp is -1 for EARLIEST and LATEST, too. `leader_epoch`: of the record, -1 where it is not known.
    """

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


class DescribedPartition(NamedTuple):
    """A partition: the broker ids of its leader (None without one), of its replicas, and of those that are in sync."""

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class DescribedCluster(NamedTuple):
    """A cluster: its id ("" where brokers send none), its controller (-1: none), its brokers, and partitions by topic, or the failure."""

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, BrokerEndpoint]
    topics: Mapping[str, Mapping[int, DescribedPartition] | Failure]


class DescribedTopic(NamedTuple):
    """A topic's partitions with the broker ids of their leaders (None while a partition has none), and its id as 22 letters of base64.

    `topic_id` is "" where the broker is too old to have any (KIP-516: 2.8); `is_internal`: Kafka's own, as __consumer_offsets.
    `racks`: those of a partition's replicas; partitions without any are left out.
    """

    name: str
    leaders: Mapping[int, int | None]
    topic_id: str = ""
    is_internal: bool = False
    racks: Mapping[int, frozenset[str]] = {}


class ListedTransaction(NamedTuple):
    """A transactional id in a ListTransactions response; `coordinator` is the id of the broker that sent it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """A transactional id as its coordinator has it. `state`: Empty, Ongoing, PrepareCommit, ...; `start_ms`: None where none is open.

    While markers are written, Apache Kafka names in `partitions` those that have none yet.
    """

    transactional_id: str
    coordinator: BrokerEndpoint
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ActiveProducer(NamedTuple):
    """A producer as a partition's leader has it (DescribeProducers). Times are those of records, in milliseconds since 1970.

    `coordinator_epoch`: -1 before its first marker; `last_sequence`: -1 without a batch; `transaction_start_offset`: None where no
    transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None


class PartitionTransaction(NamedTuple):
    """An open transaction in one partition. `transaction`: what a coordinator has of its producer; None where none knows the producer."""

    partition: TopicPartition
    start_offset: int
    producer: ActiveProducer
    transaction: DescribedTransaction | None

    @property
    def is_hanging(self) -> bool:
        """Whether no coordinator will ever end it: none has the partition in a transaction of the producer (KIP-664)."""
        return self.transaction is None or self.partition not in self.transaction.partitions

    @property
    def transactional_id(self) -> str | None:
        """The id of its producer, where a coordinator knows it."""
        return None if self.transaction is None else self.transaction.transactional_id

    @property
    def since_ms(self) -> int:
        """When it began, in milliseconds since 1970; of a hanging one the time of its last record, which the client has set."""
        start_ms = None if self.transaction is None or self.is_hanging else self.transaction.start_ms
        return self.producer.last_timestamp_ms if start_ms is None else start_ms

    def in_words(self, now_ms: int) -> str:
        """Who holds readers of committed records back in the partition, and for how long; a sentence."""
        where = f"{printable(self.partition.topic)}-{self.partition.partition}"
        producer = f"producer {self.producer.producer_id}, epoch {self.producer.producer_epoch}"
        name = "" if self.transactional_id is None else f"transactional id {printable(self.transactional_id)} ("
        who = f"{name}{producer}{')' if name else ''}"
        wait = f"readers with isolation.level=read_committed wait at offset {self.start_offset}"
        if self.partition.topic == CONSUMER_OFFSETS:
            wait = "groups wait for their pending offsets (UNSTABLE_OFFSET_COMMIT)"
        held = f"{where}: {wait} for {who}"
        age = f"{span_text(now_ms - self.since_ms)} ago ({_time_text(self.since_ms)})"
        if self.transaction is None or self.is_hanging:
            hint = f"ottla transactions abort --topic {printable(self.partition.topic)} --partition {self.partition.partition}"
            return (
                f"{held}, whose transaction hangs there: no coordinator will end it. Its last record is of {age};"
                f" {hint} --start-offset {self.start_offset} ends it"
            )
        if self.transaction.state != "Ongoing":
            return f"{held}, whose transaction began {age} and is ending ({self.transaction.state}): the marker is not written yet"
        left_ms = self.since_ms + self.transaction.timeout_ms - now_ms
        when = f"in {span_text(left_ms)}" if left_ms > 0 else "soon"
        timeout = f"transaction.timeout.ms={self.transaction.timeout_ms}"
        return f"{held}, whose transaction began {age}; unless it ends, it is aborted {when} ({timeout})"


def span_text(milliseconds: int) -> str:
    """A span of time in its largest unit: "42 s", "3 min", "2 h", "5 days"."""
    seconds = max(milliseconds, 0) // 1_000
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _time_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at_ms >= 0 else "no time"
