"""The cluster's topics as consumer groups see them, and the hash by which a group notices that its topics changed (KIP-1101).

A hash, not the topics themselves, is stored with the group, so its bytes are Kafka's: XXH3 over UTF-16 strings and little-endian numbers.
"""

from collections.abc import Mapping, Sequence, Set
from struct import pack
from typing import Protocol

from ottla.text import java_order


class SubscribableTopic(Protocol):
    """One topic: `leaders` has an item for each partition."""

    @property
    def topic_id(self) -> bytes:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def leaders(self) -> Sequence[int]:
        """The leader of each partition."""
        ...


class ClusterTopics(Protocol):
    """All topics at this time. `topics_version` grows with every change of them, `topics_created_version` is that of the newest topic."""

    @property
    def topics(self) -> Mapping[str, SubscribableTopic]:
        """By name."""
        ...

    @property
    def topics_by_id(self) -> Mapping[bytes, SubscribableTopic]:
        """By id."""
        ...

    @property
    def topics_version(self) -> int:
        """Of the last change."""
        ...

    @property
    def topic_versions(self) -> Mapping[str, int]:
        """Of the last change of each topic, deleted ones included."""
        ...

    @property
    def topics_created_version(self) -> int:
        """Of the last change that created a topic."""
        ...


class NoTopics:
    """A cluster without topics: for coordinators of which only classic groups are used."""

    topics: Mapping[str, SubscribableTopic] = {}
    topics_by_id: Mapping[bytes, SubscribableTopic] = {}
    topics_version = 0
    topic_versions: Mapping[str, int] = {}
    topics_created_version = 0


def topic_hash(topic_id: bytes, name: str, racks: Sequence[Sequence[str]]) -> int:
    """The hash of one topic; `racks` are those of the replicas of each partition."""
    parts = [b"\0", topic_id[:8][::-1], topic_id[8:][::-1], _text(name), pack("<i", len(racks))]
    for number, of_replicas in enumerate(racks):
        parts.append(pack("<i", number))
        for rack in sorted(of_replicas, key=java_order):
            parts.append(pack("<i", len(java_order(rack)) // 2) + _text(rack))
    return _hash(b"".join(parts))


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """The hash of a group's topics, signed as records have it; 0 without topics."""
    if not topic_hashes:
        return 0
    ordered = [topic_hashes[name] for name in sorted(topic_hashes, key=java_order)]
    return _signed(_hash(pack(f"<{len(ordered)}Q", *ordered)))


def _hash(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # here: classic groups do without, and brokers start sooner

    return xxh3_64_intdigest(data)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


class TopicHashes:
    """The hashes of topics, computed again only when a topic changed. No broker has a rack here."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[bytes, int, int]] = {}

    def of_group(self, names: Set[str], topics: Mapping[str, SubscribableTopic]) -> int:
        """The hash of the topics of these names that exist."""
        if len(self._by_name) > len(topics):
            self._by_name = {name: known for name, known in self._by_name.items() if name in topics}
        hashes: dict[str, int] = {}
        for name in names & topics.keys():
            topic = topics[name]
            topic_id, count = topic.topic_id, len(topic.leaders)
            known = self._by_name.get(name)
            if known is None or known[:2] != (topic_id, count):
                known = self._by_name[name] = topic_id, count, topic_hash(topic_id, name, ((),) * count)
            hashes[name] = known[2]
        return group_hash(hashes)
