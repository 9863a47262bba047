"""What the fetch machine could not solve, as the error that the reader gets. Brokers are asked for a log's bounds alone, if not told."""

from ottla.consumer.admin.topics import list_offsets
from ottla.consumer.admin.values import EARLIEST, LATEST
from ottla.consumer.brokers import Brokers
from ottla.consumer.errors import (
    BrokerUnavailableError,
    ClientError,
    OffsetOutOfRangeError,
    RequestFailedError,
    TopicRecreatedError,
    UnknownTopicError,
)
from ottla.core.consuming.fetch_values import OutOfRange, Problem, Recreated, Refused, Unreachable


def error_of(problem: Problem, brokers: Brokers) -> ClientError:
    """The error for a problem; `brokers` tell the bounds of a log that does not hold an offset."""
    if isinstance(problem, OutOfRange):
        return _out_of_range(problem, brokers)
    if isinstance(problem, Recreated):
        return TopicRecreatedError(problem.topic, problem.expected, problem.found)
    if isinstance(problem, Unreachable):
        return BrokerUnavailableError(problem.why)
    name = f"partition {problem.partition.partition} of topic {problem.partition.topic}"
    if isinstance(problem, Refused):
        return RequestFailedError(f"{name}: {problem.error.name}", problem.error)
    return UnknownTopicError(f"{name} does not exist")


def _out_of_range(problem: OutOfRange, brokers: Brokers) -> OffsetOutOfRangeError:
    partition, start, end = problem.partition, problem.log_start_offset, problem.end_offset
    if start < 0 or end < 0:  # Kafka's brokers do not say them with the error
        try:
            start = list_offsets(brokers, {partition: EARLIEST})[partition].offset
            end = list_offsets(brokers, {partition: LATEST})[partition].offset
        except ClientError:
            start = end = -1
    return OffsetOutOfRangeError(partition, problem.position, start, end)
