"""The consumer protocol in JoinGroup and SyncGroup: subscriptions (version 0 to 3) and assignments, as members write and others read them.

Members of a group may write other versions, newer ones too: of those the known part is read. A group may use any other protocol, so that
readers get bytes of that: they give PeerError. Source: Kafka's `ConsumerProtocol`; KIP-429 (owned partitions), KIP-792 (generation),
KIP-881 (rack).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.wire.reader import Reader
from ottla.core.wire.writer import Writer

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumers."""
NO_GENERATION: Final = -1
SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 3
OWNED_VERSION, GENERATION_VERSION, RACK_VERSION = 1, 2, 3
CACHED_BYTES_MAX: Final = 512
"""Larger subscriptions are not cached."""

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
    out = Writer().int16(SUBSCRIPTION_VERSION).array(len(topics))
    for topic in sorted(topics):
        out.string(topic)
    _put_user_data(out, user_data)
    _put_partitions(out, owned)
    return out.int32(generation).nullable_string(rack or None).to_bytes()


def parse_subscription(metadata: bytes) -> Subscription:
    """A subscription of any version; PeerError if it is not one."""
    # A member repeats its subscription, and the members of a group mostly share it.
    return _parse_cached(metadata) if len(metadata) <= CACHED_BYTES_MAX else _parse(metadata)


def _parse(metadata: bytes) -> Subscription:
    reader = Reader(metadata)
    version = _version(reader)
    return Subscription(
        topics=_topics(reader),
        user_data=_user_data(reader),
        owned=_partitions(reader) if version >= OWNED_VERSION else {},
        generation=reader.int32() if version >= GENERATION_VERSION else NO_GENERATION,
        rack=reader.nullable_string() if version >= RACK_VERSION else None,
    )


_parse_cached = lru_cache(maxsize=4096)(_parse)


def parse_subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics, from the part that every version shares, as Kafka's coordinator reads it; PeerError if it is not one."""
    reader = Reader(metadata)
    _version(reader)
    topics = _topics(reader)
    _user_data(reader)
    return topics


def encode_assignment(partitions: Partitions, user_data: bytes | None = None) -> bytes:
    """The assignment of one member."""
    out = Writer().int16(ASSIGNMENT_VERSION)
    _put_partitions(out, partitions)
    _put_user_data(out, user_data)
    return out.to_bytes()


def parse_assignment(assignment: bytes) -> dict[str, tuple[int, ...]]:
    """Partitions by topic of one member's assignment; empty for no bytes. PeerError if it is not one."""
    if not assignment:
        return {}
    reader = Reader(assignment)
    _version(reader)
    return _partitions(reader)


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise PeerError(f"consumer protocol version {version}")
    return version


def _topics(reader: Reader) -> tuple[str, ...]:
    return tuple(reader.string() for _ in range(reader.count(2)))


def _user_data(reader: Reader) -> bytes | None:
    size_bytes = reader.int32()
    return None if size_bytes < 0 else reader.raw(size_bytes)


def _put_user_data(out: Writer, user_data: bytes | None) -> None:
    if user_data is None:
        out.octets_length(-1)
    else:
        out.octets(user_data)


def _partitions(reader: Reader) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in range(reader.count(6)):
        topic = reader.string()
        numbers = tuple(reader.int32() for _ in range(reader.count(4)))
        partitions[topic] = partitions.get(topic, ()) + numbers
    return partitions


def _put_partitions(out: Writer, partitions: Partitions) -> None:
    out.array(len(partitions))
    for topic in sorted(partitions):
        out.string(topic).int32s(sorted(partitions[topic]))
