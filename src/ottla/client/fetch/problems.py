"""Problems of the fetch machine as the errors that the reader gets."""

from ottla.client.admin.topics import list_offsets
from ottla.client.admin.values import EARLIEST, LATEST
from ottla.client.brokers import Brokers
from ottla.client.errors import (
    BrokerUnavailableError,
    ClientError,
    OffsetOutOfRangeError,
    RequestFailedError,
    TopicRecreatedError,
    UnknownTopicError,
)
from ottla.core.client.fetch_values import BrokersUnreachable, OffsetOutOfRange, PartitionRefused, Problem, TopicRecreated


def error_of(problem: Problem, brokers: Brokers) -> ClientError:
    """The error for a problem; `brokers` give the bounds of a log that does not hold an offset."""
    if isinstance(problem, OffsetOutOfRange):
        return _out_of_range(problem, brokers)
    if isinstance(problem, TopicRecreated):
        return TopicRecreatedError(problem.topic, problem.expected, problem.found)
    if isinstance(problem, BrokersUnreachable):
        return BrokerUnavailableError(problem.why)
    name = f"partition {problem.partition.partition} of topic {problem.partition.topic}"
    if isinstance(problem, PartitionRefused):
        return RequestFailedError(f"{name}: {problem.error.name}", problem.error)
    return UnknownTopicError(f"{name} does not exist")


def _out_of_range(problem: OffsetOutOfRange, brokers: Brokers) -> OffsetOutOfRangeError:
    partition, start, end = problem.partition, problem.log_start_offset, problem.end_offset
    if start < 0 or end < 0:  # Kafka's brokers do not send them with the error
        try:
            start = list_offsets(brokers, {partition: EARLIEST})[partition].offset
            end = list_offsets(brokers, {partition: LATEST})[partition].offset
        except ClientError:
            start = end = -1
    return OffsetOutOfRangeError(partition, problem.position, start, end)
