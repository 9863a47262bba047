"""Topics as an administrator needs them: their partitions and leaders (Metadata), and offsets by time (ListOffsets, from the leaders).

Nothing is created by asking.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.list_offsets.v6.response import ListOffsetsResponse

from ottla.consumer.admin.brokers import MAY_PASS, Brokers, Deadline, raise_for
from ottla.consumer.admin.values import DescribedTopic, Failure, ListedOffset, Node
from ottla.consumer.cluster import list_offsets_request
from ottla.consumer.errors import RequestFailedError, error_code
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

NO_LEADER: Final = -1
NOT_FATAL: Final = frozenset({ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE})


def describe_topics(brokers: Brokers, topics: Iterable[str]) -> dict[str, DescribedTopic | Failure]:
    """Each topic with its partitions and their leaders; a topic that does not exist is a Failure. Raises OutOfTimeError."""
    names = list(dict.fromkeys(topics))

    def attempt(deadline: Deadline) -> dict[str, DescribedTopic | Failure]:
        found: dict[str, DescribedTopic | Failure] = {}
        for topic in brokers.metadata(names, deadline).topics:
            code = error_code(topic.error_code)
            if code in MAY_PASS:
                raise_for(code, f"topic {topic.name}")
            if code is not ErrorCode.NONE:
                found[topic.name] = Failure(code)
                continue
            leaders = {
                item.partition_index: None if item.leader_id == NO_LEADER else int(item.leader_id)
                for item in sorted(topic.partitions, key=lambda item: int(item.partition_index))
                if error_code(item.error_code) in NOT_FATAL
            }
            found[topic.name] = DescribedTopic(topic.name, leaders)
        return {name: found.get(name, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for name in names}

    return brokers.persist("describeTopics", attempt) if names else {}


def list_topics(brokers: Brokers) -> dict[str, DescribedTopic]:
    """Every topic that may be seen. Raises OutOfTimeError."""
    raise NotImplementedError


def offsets_for_times(brokers: Brokers, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
    """The first record at or after each partition's own timestamp. Raises as `list_offsets` does."""
    found: dict[TopicPartition, ListedOffset] = {}
    for timestamp in set(timestamps.values()):
        asked = [partition for partition, each in timestamps.items() if each == timestamp]
        found.update({partition: ListedOffset(offset) for partition, offset in list_offsets(brokers, asked, timestamp).items()})
    return {partition: found[partition] for partition in timestamps}


def broker_of(brokers: Brokers, broker_id: int) -> Node:
    """Where a broker listens. Raises OutOfTimeError, or RequestFailedError when the cluster has none of this id."""

    def attempt(deadline: Deadline) -> Node:
        brokers.nodes(deadline)
        return brokers.known(broker_id)

    return brokers.persist("listNodes", attempt)


def list_offsets(brokers: Brokers, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """The offset of the first record at or after `timestamp` (milliseconds since 1970; -1 the end, -2 the start), -1 where there is none.

    Raises OutOfTimeError, or RequestFailedError when a leader refuses.
    """
    wanted = list(dict.fromkeys(partitions))
    found: dict[TopicPartition, int] = {}

    def attempt(deadline: Deadline) -> dict[TopicPartition, int]:
        missing = [partition for partition in wanted if partition not in found]
        for broker_id, asked in _by_leader(brokers, missing, deadline).items():
            connection = brokers.node(brokers.known(broker_id), deadline)
            for topic in brokers.ask(connection, list_offsets_request(asked, timestamp), ListOffsetsResponse).topics:
                for item in topic.partitions:
                    raise_for(item.error_code, f"partition {item.partition_index} of topic {topic.name}")
                    found[TopicPartition(topic.name, item.partition_index)] = int(item.offset)
        if any(partition not in found for partition in wanted):
            raise RequestFailedError("a leader did not answer for all its partitions", ErrorCode.UNKNOWN_SERVER_ERROR)
        return {partition: found[partition] for partition in wanted}

    return brokers.persist("listOffsets(api=METADATA)", attempt) if wanted else {}


def _by_leader(brokers: Brokers, partitions: list[TopicPartition], deadline: Deadline) -> Mapping[int, list[TopicPartition]]:
    leaders: dict[TopicPartition, int] = {}
    for topic in brokers.metadata(list(dict.fromkeys(partition.topic for partition in partitions)), deadline).topics:
        leaders.update({TopicPartition(topic.name, item.partition_index): int(item.leader_id) for item in topic.partitions})
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        if leaders.get(partition, NO_LEADER) == NO_LEADER:
            raise RequestFailedError(f"{partition.topic}-{partition.partition} has no leader", ErrorCode.LEADER_NOT_AVAILABLE)
        by_leader.setdefault(leaders[partition], []).append(partition)
    return by_leader
