"""The consumer protocol embedded in JoinGroup and SyncGroup (kafka-groups 9.3), as far as a coordinator looks into it: which topics
a member subscribes to and owns, and what a plan gives it.

Members may use any protocol, so nothing here decides about them: bytes that do not fit are a `PeerError` for the caller to catch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ottla.core.errors import PeerError
from ottla.core.wire import Reader

CONSUMER_PROTOCOL_TYPE = "consumer"
KEPT_BYTES_MAX = 512
"""A larger subscription is read each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A member's metadata: its topics, and from version 1 the partitions that it still owns."""

    topics: tuple[str, ...]
    owned: Mapping[str, tuple[int, ...]]


def parse_subscription(metadata: bytes) -> Subscription:
    """Topics and owned partitions of a subscription of any version; PeerError when it is none."""
    # Members say the same again and again, and those of one group mostly the same.
    return _parse_and_keep(metadata) if len(metadata) <= KEPT_BYTES_MAX else _parse(metadata)


def _parse(metadata: bytes) -> Subscription:
    reader = Reader(metadata)
    version = _version(reader)
    topics = _topics(reader)
    if version == 0:
        return Subscription(topics=topics, owned={})
    _skip_user_data(reader)
    return Subscription(topics=topics, owned=_partitions_by_topic(reader))


_parse_and_keep = lru_cache(maxsize=4096)(_parse)


def parse_subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics, from the part that every version shares, as Kafka's coordinator reads it, user data too; PeerError when there is none."""
    reader = Reader(metadata)
    _version(reader)
    topics = _topics(reader)
    _skip_user_data(reader)
    return topics


def parse_assignment(assignment: bytes) -> Mapping[str, tuple[int, ...]]:
    """Partitions by topic of one member's part of a plan; no bytes at all mean nothing. PeerError when it is none."""
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
    return tuple(reader.string() for _ in range(reader.count(2, compact=False)))


def _skip_user_data(reader: Reader) -> None:
    size_bytes = reader.int32()
    if size_bytes > 0:
        reader.skip(size_bytes)


def _partitions_by_topic(reader: Reader) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in range(reader.count(6, compact=False)):
        topic = reader.string()
        numbers = tuple(reader.int32() for _ in range(reader.count(4, compact=False)))
        partitions[topic] = partitions.get(topic, ()) + numbers
    return partitions
