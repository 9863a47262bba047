"""Errors of the client, one class for each kind: each message names the broker or topic and says what to do.

Malformed responses are `PeerError`, as everywhere.
"""

from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition


class ClientError(Exception):
    """A failed request; the subclasses are the reasons."""


class BrokerUnavailableError(ClientError):
    """No connection, a lost connection, or no response in time."""


class NeverReachedError(BrokerUnavailableError):
    """No connection to an address that this client has never reached: one of bootstrap.servers, or the advertised one of `broker_id`."""

    def __init__(self, message: str, broker_id: int | None = None) -> None:
        super().__init__(message)
        self.broker_id = broker_id


class UnsupportedBrokerError(ClientError):
    """The broker does not support a version of a request that the client needs."""


class UnknownTopicError(ClientError):
    """A topic that does not exist, or a partition that it does not have."""


class AuthenticationError(ClientError):
    """The broker rejects the client's identity, or the client the broker's. It is not retried."""


class OffsetOutOfRangeError(ClientError):
    """Records that the broker does not hold (any more): it has `log_start_offset` to `end_offset` (exclusive; -1: not known).

    `position` is the requested offset: before the start, behind the end, or at an end before that of the range.
    """

    def __init__(self, partition: TopicPartition, position: int, log_start_offset: int, end_offset: int) -> None:
        name = f"partition {partition.partition} of topic {partition.topic}"
        if log_start_offset <= position <= end_offset:
            message = f"{name} ends at offset {end_offset}, but more records were expected: it was truncated or re-created"
        else:
            held = f" ({log_start_offset} to {end_offset})" if log_start_offset >= 0 else ""
            message = f"offset {position} of {name} is outside what the broker holds{held}"
        super().__init__(message)
        self.partition = partition
        self.position = position
        self.log_start_offset = log_start_offset
        self.end_offset = end_offset


class TopicRecreatedError(ClientError):
    """The topic of this name has another id than the requested one: it was deleted, and may have been re-created.

    `found` is the id of the topic that has the name now, "" where it is not known.
    """

    def __init__(self, topic: str, expected: str, found: str = "") -> None:
        now = f"now it is {found}" if found else "there is none of this id any more"
        super().__init__(f"topic {topic} was deleted or re-created: its id was {expected}, {now}")
        self.topic = topic
        self.expected = expected
        self.found = found


class RequestFailedError(ClientError):
    """Any other error code; `code` is the broker's."""

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code


def error_code(number: int) -> ErrorCode:
    """An error code from the wire; an unknown code counts as UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
