"""The offsets of a stream in Spark's checkpoint: JSON as of Spark's own Kafka source, with the topics' ids. Pure.

{"topic":{"0":23,"1":5},"#topic_ids":{"topic":"<22 letters>"}}: the next offset to read. No topic can be called "#topic_ids". Offsets
without ids, as the JVM connector writes them, are supported; then re-created topics are not detected.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.core.model import TopicPartition

TOPIC_IDS: Final = "#topic_ids"
MEMBER: Final = "#member"
"""In offsets of ottla.group.mode=member: see `member_offsets`."""
_SHOWN_MAX: Final = 500


class CheckpointError(Exception):
    """Offsets in a checkpoint that neither this source nor Spark's own wrote."""


class Offsets(NamedTuple):
    """The next offset of each partition, and the ids (Kafka's base64) of the topics as far as they are known."""

    by_partition: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]


def to_json(offsets: Offsets) -> dict[str, Any]:
    """The same text for the same offsets: Spark compares texts to detect new records."""
    value: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.by_partition.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    value[TOPIC_IDS] = {topic: offsets.topic_ids[topic] for topic in value if offsets.topic_ids.get(topic)}
    return value


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Offsets that `to_json` or the JVM connector wrote. Raises CheckpointError."""
    if MEMBER in value:
        raise CheckpointError(
            'this checkpoint is one of a query with "ottla.group.mode" = "member", which has the offsets of the partitions that the query'
            " owned, and not of the others: set that option, or give the query a new checkpointLocation and startingOffsets=group"
        )
    found: dict[TopicPartition, int] = {}
    try:
        ids = dict(value.get(TOPIC_IDS, {}))
        for topic, offsets in value.items():
            if topic != TOPIC_IDS:
                for partition, offset in offsets.items():
                    found[TopicPartition(topic, int(partition))] = _whole(offset)
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"these are no offsets of Kafka topics: {str(value)[:_SHOWN_MAX]} ({error}). Is the checkpoint one of another query?"
        ) from error
    return Offsets(found, ids)


def recreated(before: Offsets, now: Mapping[str, str]) -> list[str]:
    """Topics with another id now than before, sorted; a topic whose id is not known both times counts as the same."""
    return sorted(topic for topic, topic_id in before.topic_ids.items() if (now.get(topic) or topic_id) != topic_id)


def in_checkpoint(offsets: Offsets) -> Offsets:
    """Offsets as they come back from a checkpoint: without ids of topics that have no partitions."""
    return from_json(to_json(offsets))


def _whole(offset: object) -> int:
    if type(offset) is not int or not 0 <= offset < 2**63:
        raise ValueError(f"{offset!r} is no offset")
    return offset
