"""Requests about topics: partitions, leaders and ids (Metadata), and offsets by time (ListOffsets, from the leaders).

No request creates a topic, but for offsets where the caller says so.
"""

from collections.abc import Iterable, Mapping

from kio.schema.list_offsets.v6.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import DescribedCluster, DescribedPartition, DescribedTopic, Failure, ListedOffset
from ottla.client.brokers import Brokers
from ottla.client.deadlines import RETRIABLE, Deadline, raise_for
from ottla.client.errors import RequestFailedError, UnknownTopicError
from ottla.client.fetch.leaders import NO_LEADER, TopicMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition


def describe_topics(brokers: Brokers, topics: Iterable[str]) -> dict[str, DescribedTopic | Failure]:
    """Each topic with its partitions and their leaders; a topic that does not exist is a Failure. Raises DeadlineExceededError."""
    names = list(dict.fromkeys(topics))

    def attempt(deadline: Deadline) -> dict[str, DescribedTopic | Failure]:
        found: dict[str, DescribedTopic | Failure] = {}
        for topic in brokers.metadata(names, deadline):
            if topic.error in RETRIABLE:
                raise_for(topic.error, f"topic {topic.name}")
            found[topic.name] = _described(topic) if topic.error is ErrorCode.NONE else Failure(topic.error)
        return {name: found.get(name, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for name in names}

    return brokers.retry("describeTopics", attempt) if names else {}


def describe_cluster(brokers: Brokers, topics: Iterable[str] | None) -> DescribedCluster:
    """The cluster with these topics; None: with every topic that may be described. Raises DeadlineExceededError."""
    names = None if topics is None else list(dict.fromkeys(topics))

    def attempt(deadline: Deadline) -> DescribedCluster:
        found = brokers.cluster(names, deadline)
        described = {topic.name: _partitions(topic) for topic in found.topics if names is not None or topic.error is ErrorCode.NONE}
        return DescribedCluster(found.cluster_id or "", found.controller_id, found.endpoints, described)

    return brokers.retry("describeCluster", attempt)


def _partitions(topic: TopicMetadata) -> Mapping[int, DescribedPartition] | Failure:
    if topic.error is not ErrorCode.NONE:
        return Failure(topic.error)
    return {
        number: DescribedPartition(None if each.leader.broker_id == NO_LEADER else each.leader.broker_id, each.replicas, each.in_sync)
        for number, each in sorted(topic.partitions.items())
    }


def list_topics(brokers: Brokers) -> dict[str, DescribedTopic]:
    """Every topic that may be described, without those just being created or deleted. Raises DeadlineExceededError."""

    def attempt(deadline: Deadline) -> dict[str, DescribedTopic]:
        return {topic.name: _described(topic) for topic in brokers.metadata(None, deadline) if topic.error is ErrorCode.NONE}

    return brokers.retry("listTopics", attempt)


def _described(topic: TopicMetadata) -> DescribedTopic:
    # All partitions, also those with an error: readers must not take one of them for a partition that does not exist.
    leaders = {
        number: None if each.leader.broker_id == NO_LEADER else each.leader.broker_id for number, each in sorted(topic.partitions.items())
    }
    racks = {number: each.racks for number, each in sorted(topic.partitions.items()) if each.racks}
    return DescribedTopic(topic.name, leaders, topic.topic_id, topic.is_internal, racks)


def reach_leaders(brokers: Brokers, topics: Iterable[str]) -> None:
    """Connect to a broker, and to those that lead partitions of these topics, as far as these exist. Raises DeadlineExceededError."""
    names = list(dict.fromkeys(topics))

    def attempt(deadline: Deadline) -> None:
        partitions = [each for topic in brokers.metadata(names, deadline) for each in topic.partitions.values()]
        leaders = {each.leader.broker_id for each in partitions}
        for broker_id, endpoint in brokers.endpoints(deadline).items():
            if broker_id in leaders:
                brokers.connection(endpoint, deadline)

    brokers.retry("reachLeaders", attempt)


def broker_of(brokers: Brokers, broker_id: int) -> BrokerEndpoint:
    """A broker and its address. Raises DeadlineExceededError, or RequestFailedError when the cluster has none of this id."""

    def attempt(deadline: Deadline) -> BrokerEndpoint:
        brokers.endpoints(deadline)
        return brokers.endpoint(broker_id)

    return brokers.retry("listNodes", attempt)


def list_offsets(
    brokers: Brokers, timestamps: Mapping[TopicPartition, int], *, creates_topics: bool = False, is_read_committed: bool | None = None
) -> dict[TopicPartition, ListedOffset]:
    """The first record at or after each partition's timestamp (milliseconds since 1970; -1 the end, -2 the start).

    The end is the last stable offset where only committed records are read: as `is_read_committed` says, else the settings. Raises
    DeadlineExceededError, UnknownTopicError for a topic that does not exist (any more), or RequestFailedError for another refusal.
    `creates_topics`: brokers may create a topic that is missing, and it is waited for.
    """
    found: dict[TopicPartition, ListedOffset] = {}
    isolation = i8(int(brokers.settings.is_read_committed if is_read_committed is None else is_read_committed))

    def attempt(deadline: Deadline) -> dict[TopicPartition, ListedOffset]:
        missing = [partition for partition in timestamps if partition not in found]
        for broker_id, asked in partitions_by_leader(brokers, missing, deadline, creates_topics=creates_topics).items():
            connection = brokers.connection(brokers.endpoint(broker_id), deadline)
            request = _request({partition: timestamps[partition] for partition in asked}, isolation)
            for topic in brokers.call(connection, request, ListOffsetsResponse).topics:
                for item in topic.partitions:
                    raise_for(item.error_code, f"partition {item.partition_index} of topic {topic.name}")
                    found[TopicPartition(topic.name, item.partition_index)] = ListedOffset(
                        int(item.offset), int(item.timestamp), int(item.leader_epoch)
                    )
        if any(partition not in found for partition in timestamps):
            raise RequestFailedError("a leader did not answer for all its partitions", ErrorCode.UNKNOWN_SERVER_ERROR)
        return {partition: found[partition] for partition in timestamps}

    return brokers.retry("listOffsets(api=METADATA)", attempt) if timestamps else {}


def _request(timestamps: Mapping[TopicPartition, int], isolation: i8) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in timestamps.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=i32(partition), timestamp=i64(timestamp)))
    return ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=isolation,
        topics=tuple(ListOffsetsTopic(name=TopicName(name), partitions=tuple(items)) for name, items in topics.items()),
    )


def partitions_by_leader(
    brokers: Brokers, partitions: list[TopicPartition], deadline: Deadline, *, creates_topics: bool = False
) -> Mapping[int, list[TopicPartition]]:
    """Partitions by the broker ids of their leaders. Raises UnknownTopicError, and RequestFailedError where there is no leader."""
    leaders: dict[TopicPartition, int] = {}
    names = list(dict.fromkeys(partition.topic for partition in partitions))
    for topic in brokers.metadata(names, deadline, creates=creates_topics):
        if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and creates_topics:
            raise RequestFailedError(f"topic {topic.name} does not exist", ErrorCode.LEADER_NOT_AVAILABLE)
        if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(f"topic {topic.name} does not exist")
        raise_for(topic.error, f"topic {topic.name}")
        leaders.update({TopicPartition(topic.name, number): each.leader.broker_id for number, each in topic.partitions.items()})
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        if leaders.get(partition, NO_LEADER) == NO_LEADER:
            raise RequestFailedError(f"{partition.topic}-{partition.partition} has no leader", ErrorCode.LEADER_NOT_AVAILABLE)
        by_leader.setdefault(leaders[partition], []).append(partition)
    return by_leader
