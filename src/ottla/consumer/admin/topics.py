"""Topics as an administrator needs them: their partitions, leaders and ids (Metadata), and offsets by time (ListOffsets, from the leaders).

Nothing is created by asking.
"""

from collections.abc import Iterable, Mapping

from kio.schema.list_offsets.v6.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from ottla.consumer.admin.values import DescribedTopic, Failure, ListedOffset, Node
from ottla.consumer.brokers import Brokers
from ottla.consumer.errors import RequestFailedError, UnknownTopicError
from ottla.consumer.retrying import MAY_PASS, Deadline, raise_for
from ottla.core.consuming.cluster_view import NO_LEADER, TopicView
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition


def describe_topics(brokers: Brokers, topics: Iterable[str]) -> dict[str, DescribedTopic | Failure]:
    """Each topic with its partitions and their leaders; a topic that does not exist is a Failure. Raises OutOfTimeError."""
    names = list(dict.fromkeys(topics))

    def attempt(deadline: Deadline) -> dict[str, DescribedTopic | Failure]:
        found: dict[str, DescribedTopic | Failure] = {}
        for topic in brokers.metadata(names, deadline):
            if topic.error in MAY_PASS:
                raise_for(topic.error, f"topic {topic.name}")
            found[topic.name] = _described(topic) if topic.error is ErrorCode.NONE else Failure(topic.error)
        return {name: found.get(name, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for name in names}

    return brokers.persist("describeTopics", attempt) if names else {}


def list_topics(brokers: Brokers) -> dict[str, DescribedTopic]:
    """Every topic that may be seen, by its name; topics that are just being made or deleted are left out. Raises OutOfTimeError."""

    def attempt(deadline: Deadline) -> dict[str, DescribedTopic]:
        return {topic.name: _described(topic) for topic in brokers.metadata(None, deadline) if topic.error is ErrorCode.NONE}

    return brokers.persist("listTopics", attempt)


def _described(topic: TopicView) -> DescribedTopic:
    # All of them, whatever is wrong with one: whoever reads the topic must not take a partition for one that is not there.
    leaders = {
        number: None if view.leader.broker_id == NO_LEADER else view.leader.broker_id for number, view in sorted(topic.partitions.items())
    }
    return DescribedTopic(topic.name, leaders, topic.topic_id, topic.is_internal)


def broker_of(brokers: Brokers, broker_id: int) -> Node:
    """Where a broker listens. Raises OutOfTimeError, or RequestFailedError when the cluster has none of this id."""

    def attempt(deadline: Deadline) -> Node:
        brokers.nodes(deadline)
        return brokers.known(broker_id)

    return brokers.persist("listNodes", attempt)


def list_offsets(brokers: Brokers, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
    """The first record at or after each partition's timestamp (milliseconds since 1970; -1 the end, -2 the start).

    The end is the last stable offset where the settings read committed records only. Raises OutOfTimeError, UnknownTopicError for a topic
    that does not exist (any more), or RequestFailedError for another refusal.
    """
    found: dict[TopicPartition, ListedOffset] = {}
    isolation = i8(int(brokers.settings.is_read_committed))

    def attempt(deadline: Deadline) -> dict[TopicPartition, ListedOffset]:
        missing = [partition for partition in timestamps if partition not in found]
        for broker_id, asked in _by_leader(brokers, missing, deadline).items():
            connection = brokers.node(brokers.known(broker_id), deadline)
            request = _request({partition: timestamps[partition] for partition in asked}, isolation)
            for topic in brokers.ask(connection, request, ListOffsetsResponse).topics:
                for item in topic.partitions:
                    raise_for(item.error_code, f"partition {item.partition_index} of topic {topic.name}")
                    found[TopicPartition(topic.name, item.partition_index)] = ListedOffset(
                        int(item.offset), int(item.timestamp), int(item.leader_epoch)
                    )
        if any(partition not in found for partition in timestamps):
            raise RequestFailedError("a leader did not answer for all its partitions", ErrorCode.UNKNOWN_SERVER_ERROR)
        return {partition: found[partition] for partition in timestamps}

    return brokers.persist("listOffsets(api=METADATA)", attempt) if timestamps else {}


def _request(timestamps: Mapping[TopicPartition, int], isolation: i8) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in timestamps.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=i32(partition), timestamp=i64(timestamp)))
    return ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=isolation,
        topics=tuple(ListOffsetsTopic(name=TopicName(name), partitions=tuple(items)) for name, items in topics.items()),
    )


def _by_leader(brokers: Brokers, partitions: list[TopicPartition], deadline: Deadline) -> Mapping[int, list[TopicPartition]]:
    leaders: dict[TopicPartition, int] = {}
    for topic in brokers.metadata(list(dict.fromkeys(partition.topic for partition in partitions)), deadline):
        if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(f"topic {topic.name} does not exist")
        raise_for(topic.error, f"topic {topic.name}")
        leaders.update({TopicPartition(topic.name, number): view.leader.broker_id for number, view in topic.partitions.items()})
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        if leaders.get(partition, NO_LEADER) == NO_LEADER:
            raise RequestFailedError(f"{partition.topic}-{partition.partition} has no leader", ErrorCode.LEADER_NOT_AVAILABLE)
        by_leader.setdefault(leaders[partition], []).append(partition)
    return by_leader
