"""Errors in the words of Kafka's own tools, so that scripts that search for them work.

A refusal is named by the exception that Kafka's clients know it by, with the broker's sentence or else the one that Kafka gives the code.
"""

from typing import Final

from ottla.client.admin.values import Failure
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import ClientError, RequestFailedError
from ottla.core.errors import ErrorCode, PeerError

PACKAGE: Final = "org.apache.kafka.common.errors."

EXCEPTIONS: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
}
"""Exceptions whose names do not follow from the code's."""

SENTENCES: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The request attempted to perform an operation on an invalid topic.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing, so a rejoin is needed.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "There are unstable offsets that need to be cleared.",
}


class UsageProblem(Exception):
    """The command line makes no sense as it is: nothing is done, and the exit status is 1."""


class CommandFailed(Exception):
    """The command could not do what it was asked for."""


def message(failure: Failure) -> str:
    """The sentence of a failure alone."""
    return failure.message or SENTENCES.get(failure.code, f"The broker answered {failure.code.name}.")


def named(failure: Failure) -> str:
    """A failure as Kafka's tools print it: the exception's name, then the sentence."""
    regular = "".join(word.capitalize() for word in failure.code.name.split("_")) + "Exception"
    return f"{PACKAGE}{EXCEPTIONS.get(failure.code, regular)}: {message(failure)}"


def of_error(error: ClientError | PeerError) -> str:
    """The same for what the client raises."""
    if isinstance(error, DeadlineExceededError):
        return named(Failure(ErrorCode.REQUEST_TIMED_OUT, str(error)))
    if isinstance(error, RequestFailedError):
        return named(Failure(error.code))
    return str(error)
