"""How a command reaches a cluster, and what it says when that fails.

It says it in the words of Kafka's own tools, so that scripts that search for them work.
A refusal is named by the exception that Kafka's clients know it by, with the broker's sentence or else the one that Kafka gives the code.
Of the file of `--command-config`, a security setting is applied or refused by its name, never ignored; names that are no setting of this
client are passed over, as by Kafka's tools: one file often serves several of them.
"""

from pathlib import Path
from typing import Final

from ottla.cli.options import parse_properties
from ottla.client.admin.values import Failure
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import ClientError, RequestFailedError
from ottla.client.settings import ClientSettings, parse_client_settings
from ottla.config.client_properties import PROPERTIES, is_security, property_names
from ottla.config.client_property import Client, Effect, Number
from ottla.protocol.errors import ErrorCode, PeerError

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
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (
        "For requests intended only for the leader, this error indicates that the broker is not the current leader. For requests intended"
        " for any replica, this error indicates that the broker is not a replica of the topic partition."
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: "Producer attempted to produce with an old epoch.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "The transactionalId could not be found",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: (
        "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator for a given producer."
    ),
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression is not valid.",
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


def client_properties(text: str, *more: str) -> dict[str, str]:
    """What of a file is meant for a client that asks: security, times and sizes, its name, and the properties named `more`."""
    numbers = {name for name in property_names(Client.RANGES, Effect.APPLIED) if isinstance(PROPERTIES[name].kind, Number)}
    taken = {"client.id", *numbers, *more}
    return {name: value for name, value in parse_properties(text).items() if name in taken or is_security(name)}


def read_client_properties(path: str, *more: str) -> dict[str, str]:
    """`client_properties` of a file. Raises CommandFailed when it cannot be read."""
    try:
        return client_properties(Path(path).read_text("latin-1"), *more)
    except FileNotFoundError as error:
        raise CommandFailed(f"java.nio.file.NoSuchFileException: {path}") from error
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror or error}") from error


def client_settings(bootstrap_server: str, path: str | None, *, client_id: str) -> ClientSettings:
    """The settings of a command; `client_id` is the name without a file, or without one in it.

    Raises CommandFailed when the file cannot be read or holds what cannot be, and ValueError for servers that are none.
    """
    plain = ClientSettings(bootstrap_servers=bootstrap_server, client_id=client_id)
    if path is None:
        return plain
    taken = read_client_properties(path)
    parse_client_settings({"bootstrap.servers": bootstrap_server})
    try:
        return parse_client_settings({"client.id": client_id} | taken | {"bootstrap.servers": bootstrap_server})
    except ValueError as error:
        raise CommandFailed(f"{path}: {error}") from error
