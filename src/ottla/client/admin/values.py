"""Results of admin requests: groups, members, offsets and topics.

Assignments of classic members stay bytes, which belong to the members' own protocol; `partitions` reads those of the consumer protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.addresses import BrokerEndpoint
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import parse_assignment

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
