"""A topic of a cluster: its id, its partitions, their offsets."""

from typing import NamedTuple

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, DescribedTopic
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.migration.values import Extent, MigrationError


class Shape(NamedTuple):
    """A topic: its name, its id ("": not known) and its number of partitions."""

    name: str
    topic_id: str
    partitions: int


def find(admin: AdminClient, topic: str) -> Shape | None:
    """The topic; None where it does not exist. Raises MigrationError where it cannot be described, ClientError."""
    found = admin.describe_topics([topic])[topic]
    if isinstance(found, DescribedTopic):
        return Shape(topic, found.topic_id, len(found.leaders))
    if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    raise MigrationError(f"topic {topic} cannot be described: {found.message or found.code.name}")


def extents(admin: AdminClient, topic: Shape) -> dict[int, Extent]:
    """The offsets of every partition, up to the end at the client's isolation level. Raises ClientError."""
    places = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    starts, ends = admin.list_offsets(places, EARLIEST), admin.list_offsets(places, LATEST)
    return {place.partition: Extent(starts[place], max(ends[place], starts[place])) for place in places}
