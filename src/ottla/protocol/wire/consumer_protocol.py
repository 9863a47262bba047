"""The consumer protocol in JoinGroup and SyncGroup: subscriptions (version 0 to 3) and assignments, as members write and others read them.

Members of a group may write other versions, newer ones too: of those the known part is read. A group may use any other protocol, so that
readers get bytes of that: they give PeerError. Source: Kafka's `ConsumerProtocol`; KIP-429 (owned partitions), KIP-792 (generation),
KIP-881 (rack).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Final

from ottla.protocol.errors import PeerError
from ottla.protocol.record_codec import Int32, Schema, Wire, record_class
from ottla.protocol.wire.primitives import Reader, Writer

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumers."""
NO_GENERATION: Final = -1
SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 3
OWNED_VERSION, GENERATION_VERSION, RACK_VERSION = 1, 2, 3
CACHED_BYTES_MAX: Final = 512
"""Larger subscriptions are not cached."""


@record_class
class TopicPartitionNumbers:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[Int32, ...]


@record_class
class SubscriptionMessage:
    """The bytes of a subscription as fields."""

    topics: tuple[str, ...]
    user_data: bytes | None
    owned_partitions: Annotated[tuple[TopicPartitionNumbers, ...], Wire(since=OWNED_VERSION)] = ()
    generation_id: Annotated[Int32, Wire(since=GENERATION_VERSION)] = NO_GENERATION
    rack_id: Annotated[str | None, Wire(since=RACK_VERSION)] = None


@record_class
class AssignmentMessage:
    """The bytes of an assignment as fields."""

    assigned_partitions: tuple[TopicPartitionNumbers, ...]
    user_data: bytes | None


SUBSCRIPTION: Final = Schema(SubscriptionMessage, version_max=SUBSCRIPTION_VERSION)
ASSIGNMENT: Final = Schema(AssignmentMessage, version_max=ASSIGNMENT_VERSION)

Partitions = Mapping[str, Sequence[int]]
"""Partition numbers by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants to read, and from version 1 to 3 on: what it owned, in which generation, and its rack."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    generation: int = NO_GENERATION
    rack: str | None = None


def encode_subscription(
    topics: Collection[str], *, owned: Partitions, generation: int, rack: str = "", user_data: bytes | None = None
) -> bytes:
    """A subscription of version 3."""
    message = SubscriptionMessage(
        topics=tuple(sorted(topics)),
        user_data=user_data,
        owned_partitions=_sorted(owned),
        generation_id=generation,
        rack_id=rack or None,
    )
    return SUBSCRIPTION.encode(Writer().int16(SUBSCRIPTION_VERSION), message, SUBSCRIPTION_VERSION).to_bytes()


def parse_subscription(metadata: bytes) -> Subscription:
    """A subscription of any version; PeerError if it is not one."""
    # A member repeats its subscription, and the members of a group mostly share it.
    return _parse_cached(metadata) if len(metadata) <= CACHED_BYTES_MAX else _parse(metadata)


def _parse(metadata: bytes) -> Subscription:
    reader = Reader(metadata)
    message = SUBSCRIPTION.decode(reader, _version(reader))
    return Subscription(
        topics=message.topics,
        user_data=message.user_data,
        owned=_by_topic(message.owned_partitions),
        generation=message.generation_id,
        rack=message.rack_id,
    )


_parse_cached = lru_cache(maxsize=4096)(_parse)


def parse_subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics, from the part that every version shares, as Kafka's coordinator reads it; PeerError if it is not one."""
    reader = Reader(metadata)
    _version(reader)
    return SUBSCRIPTION.decode(reader, 0).topics


def encode_assignment(partitions: Partitions, user_data: bytes | None = None, *, version: int = ASSIGNMENT_VERSION) -> bytes:
    """The assignment of one member, of the newest version for one that is newer still."""
    version = min(version, ASSIGNMENT_VERSION)
    message = AssignmentMessage(assigned_partitions=_sorted(partitions), user_data=user_data)
    return ASSIGNMENT.encode(Writer().int16(version), message, version).to_bytes()


def parse_assignment(assignment: bytes) -> dict[str, tuple[int, ...]]:
    """Partitions by topic of one member's assignment; empty for no bytes. PeerError if it is not one."""
    if not assignment:
        return {}
    reader = Reader(assignment)
    return _by_topic(ASSIGNMENT.decode(reader, _version(reader)).assigned_partitions)


def has_user_data(assignment: bytes) -> bool:
    """Whether an assignor of its own put data into the assignment; PeerError if it is not one."""
    if not assignment:
        return False
    reader = Reader(assignment)
    return bool(ASSIGNMENT.decode(reader, _version(reader)).user_data)


def protocol_version(metadata: bytes) -> int:
    """The version of the consumer protocol in which a member wrote its subscription; PeerError if it is none."""
    return _version(Reader(metadata))


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise PeerError(f"consumer protocol version {version}")
    return version


def _by_topic(entries: Iterable[TopicPartitionNumbers]) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = {}
    for entry in entries:
        if any(number < 0 for number in entry.partitions):
            raise PeerError(f"a partition of topic {entry.topic} has a negative number")
        partitions[entry.topic] = partitions.get(entry.topic, ()) + entry.partitions
    return partitions


def _sorted(partitions: Partitions) -> tuple[TopicPartitionNumbers, ...]:
    return tuple([TopicPartitionNumbers(topic=topic, partitions=tuple(sorted(partitions[topic]))) for topic in sorted(partitions)])
