"""What happens once when a data directory is opened: may these brokers serve what lies there, and what must the catalogue's log say first.

It decides over a catalogue that has been replayed, and gives sentences or records; it changes nothing itself.
"""

from collections.abc import Collection

from ottla.core.catalogue.catalogue import DIRECTORIES_SINCE, METADATA_VERSION, RESERVED_TOPICS, Catalogue, Home
from ottla.core.catalogue.records import CatalogueRecord, FeatureLevelRecord, PartitionChangeRecord

FIRST_FEATURES = {METADATA_VERSION: 25, "group.version": 1, "transaction.version": 2}
"""Of a new directory: those of Apache Kafka 4.0, so that every later version opens it (`kafka-features upgrade` raises them there)."""
_ELIGIBLE_LEADERS_SINCE = 23
_RESERVED_IDS = 100  # the lowest directory ids mean "not known", "not yet placed" and "lost"


def problem(catalogue: Catalogue, directory_id: bytes, voters: Collection[int]) -> str | None:
    """Why the catalogue's brokers cannot serve the directory alone, as a sentence that ends with what to do; None when they can."""
    node_ids = catalogue.broker_ids
    others = sorted(set(voters) - {node_ids[0]})
    if others:
        named = ", ".join(map(str, sorted(voters)))
        return (
            f"the directory belongs to a cluster whose controllers are the nodes {named}: only a node that is broker and single controller"
            " at once can be opened here"
        )
    for name in sorted(RESERVED_TOPICS & catalogue.topics.keys()):
        return (
            f"the cluster has a topic {name}, whose files would be the metadata log itself: nothing was changed; restore the directory"
            " from a copy that is older than this topic"
        )
    for topic in catalogue.topics.values():
        for number, (replicas, directories) in enumerate(topic.homes):
            if not replicas or not set(replicas).issubset(node_ids):
                where = ", ".join(map(str, replicas)) or "no broker"
                here = f"node {node_ids[0]} alone" if len(node_ids) == 1 else f"the nodes {', '.join(map(str, node_ids))}"
                return (
                    f"partition {topic.name}-{number} lies on {where}, and this is {here}: a directory of several Ottla brokers opens with"
                    f" as many (--brokers {_brokers_needed(catalogue)}); of a cluster of Apache Kafka, move every partition to this node"
                    " with replication factor 1 (kafka-reassign-partitions) and stop the others first"
                )
            if any(other != directory_id and int.from_bytes(other) >= _RESERVED_IDS for other in directories):
                return f"partition {topic.name}-{number} lies in another one of the node's log.dirs: only nodes with one are opened here"
    return None


def _brokers_needed(catalogue: Catalogue) -> int:
    """So many brokers, from the first on, hold every partition."""
    last = max((each for topic in catalogue.topics.values() for home in topic.homes for each in home.replicas), default=0)
    return max(last - catalogue.broker_ids[0] + 1, 1)


def first_records(catalogue: Catalogue) -> list[CatalogueRecord]:
    """What the log must say before anything else, when it does not yet: the versions of the cluster's features."""
    if catalogue.metadata_version:
        return []
    return [FeatureLevelRecord(name=name, level=level) for name, level in FIRST_FEATURES.items()]


def take_over(catalogue: Catalogue, *, after_crash: bool) -> list[CatalogueRecord]:
    """Every partition is led by one of the brokers that hold it: the records that say so, where the log does not say it.

    After a crash they are written for every partition, because records may be lost that clients have read: the new leader epoch lets them
    find out (KIP-320), as when Apache Kafka starts.
    """
    has_eligible = catalogue.metadata_version >= _ELIGIBLE_LEADERS_SINCE
    return [
        PartitionChangeRecord(
            topic_id=topic.topic_id,
            partition=number,
            leader=leader if leader in catalogue.live_ids else topic.homes[number].replicas[0],
            in_sync=topic.homes[number].replicas,
            eligible_leaders=() if has_eligible else None,
            last_known_leaders=() if has_eligible else None,
            directories=_directories(catalogue, topic.homes[number]),
        )
        for topic in catalogue.topics.values()
        for number, leader in enumerate(topic.leaders)
        if leader not in catalogue.live_ids or after_crash
    ]


def _directories(catalogue: Catalogue, home: Home) -> tuple[bytes, ...] | None:
    """This directory, where the log may say it and does not."""
    here = (catalogue.directory_id,) * len(home.replicas)
    return here if catalogue.metadata_version >= DIRECTORIES_SINCE and home.directories != here else None
