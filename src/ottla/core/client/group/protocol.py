"""The consumer protocol's bytes, as a member writes and reads them: subscriptions (version 0 to 3) and assignments.

Members of a group may write other versions, newer ones too: of those the known part is read. Any bytes give a value or PeerError.
Source: Kafka's `ConsumerProtocol`; KIP-429 (owned partitions), KIP-792 (generation), KIP-881 (rack).
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from ottla.core.client.group.values import NO_GENERATION, Partitions
from ottla.core.errors import PeerError
from ottla.core.wire.reader import Reader
from ottla.core.wire.writer import Writer

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants to read, and what it owned in `generation`."""

    topics: frozenset[str]
    user_data: bytes | None = None
    owned: Partitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    rack: str | None = None


def encode_subscription(
    topics: Collection[str], *, owned: Partitions, generation: int, rack: str = "", user_data: bytes | None = None
) -> bytes:
    """A subscription of version 3."""
    out = Writer().int16(SUBSCRIPTION_VERSION).array(len(topics))
    for topic in sorted(topics):
        out.string(topic)
    _put_user_data(out, user_data)
    _put_partitions(out, owned)
    return out.int32(generation).nullable_string(rack or None).to_bytes()


def decode_subscription(data: bytes) -> Subscription:
    """A subscription of any version."""
    reader = Reader(data)
    version = _version(reader)
    topics = frozenset(reader.string() for _ in range(reader.count(2)))
    user_data = _user_data(reader)
    owned = _partitions(reader) if version >= 1 else {}
    generation = reader.int32() if version >= 2 else NO_GENERATION
    rack = reader.nullable_string() if version >= 3 else None
    return Subscription(topics=topics, user_data=user_data, owned=owned, generation=generation, rack=rack)


def encode_assignment(partitions: Partitions, user_data: bytes | None = None) -> bytes:
    """The assignment of one member."""
    out = Writer().int16(ASSIGNMENT_VERSION)
    _put_partitions(out, partitions)
    _put_user_data(out, user_data)
    return out.to_bytes()


def decode_assignment(data: bytes) -> dict[str, tuple[int, ...]]:
    """The partitions of an assignment; none for no bytes."""
    if not data:
        return {}
    reader = Reader(data)
    _version(reader)
    return _partitions(reader)


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise PeerError(f"consumer protocol version {version}")
    return version


def _put_partitions(out: Writer, partitions: Partitions) -> None:
    out.array(len(partitions))
    for topic in sorted(partitions):
        out.string(topic).int32s(sorted(partitions[topic]))


def _partitions(reader: Reader) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in range(reader.count(6)):
        topic = reader.string()
        numbers = tuple(reader.int32() for _ in range(reader.count(4)))
        partitions[topic] = partitions.get(topic, ()) + numbers
    return partitions


def _put_user_data(out: Writer, user_data: bytes | None) -> None:
    if user_data is None:
        out.octets_length(-1)
    else:
        out.octets(user_data)


def _user_data(reader: Reader) -> bytes | None:
    size_bytes = reader.int32()
    if size_bytes < 0:
        return None
    return reader.raw(size_bytes)
