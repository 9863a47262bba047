"""The consumer protocol embedded in JoinGroup and SyncGroup (Kafka: `ConsumerProtocol`), as far as a coordinator reads it: topics that a
member subscribes to, and partitions that it owns or is assigned.

Members may use any protocol, so callers catch the `PeerError` for bytes of another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ottla.core.errors import PeerError
from ottla.core.wire.reader import Reader

CONSUMER_PROTOCOL_TYPE = "consumer"
RACK_VERSION = 3
CACHED_BYTES_MAX = 512
"""Larger subscriptions are not cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A member's metadata: its topics, from version 1 the partitions that it still owns, from version 3 its rack."""

    topics: tuple[str, ...]
    owned: Mapping[str, tuple[int, ...]]
    rack: str | None = None


def parse_subscription(metadata: bytes) -> Subscription:
    """Topics and owned partitions of a subscription of any version; PeerError if it is not one."""
    # A member repeats its subscription, and the members of a group mostly share it.
    return _parse_cached(metadata) if len(metadata) <= CACHED_BYTES_MAX else _parse(metadata)


def _parse(metadata: bytes) -> Subscription:
    reader = Reader(metadata)
    version = _version(reader)
    topics = _topics(reader)
    if version == 0:
        return Subscription(topics=topics, owned={})
    _skip_user_data(reader)
    owned = _partitions_by_topic(reader)
    if version < RACK_VERSION:
        return Subscription(topics=topics, owned=owned)
    reader.int32()  # the generation
    return Subscription(topics=topics, owned=owned, rack=reader.nullable_string())


_parse_cached = lru_cache(maxsize=4096)(_parse)


def parse_subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics, from the part that every version shares, as Kafka's coordinator reads it; PeerError if it is not one."""
    reader = Reader(metadata)
    _version(reader)
    topics = _topics(reader)
    _skip_user_data(reader)
    return topics


def parse_assignment(assignment: bytes) -> Mapping[str, tuple[int, ...]]:
    """Partitions by topic of one member's assignment; empty for no bytes. PeerError if it is not one."""
    if not assignment:
        return {}
    reader = Reader(assignment)
    _version(reader)
    return _partitions_by_topic(reader)


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise PeerError(f"consumer protocol version {version}")
    return version


def _topics(reader: Reader) -> tuple[str, ...]:
    return tuple(reader.string() for _ in range(reader.count(2)))


def _skip_user_data(reader: Reader) -> None:
    size_bytes = reader.int32()
    if size_bytes > 0:
        reader.skip(size_bytes)


def _partitions_by_topic(reader: Reader) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in range(reader.count(6)):
        topic = reader.string()
        numbers = tuple(reader.int32() for _ in range(reader.count(4)))
        partitions[topic] = partitions.get(topic, ()) + numbers
    return partitions
