"""What can go wrong when a client asks a broker, one class a kind: each message says which broker or topic, and what to do.

Bytes that make no sense are `PeerError` as everywhere else; these are answers and silences that do make sense.
"""

from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition


class ClientError(Exception):
    """A request that a broker did not grant. The subclasses say why."""


class BrokerUnavailableError(ClientError):
    """No connection, or none any more, or no answer in time."""


class UnsupportedBrokerError(ClientError):
    """The broker does not speak the version of a request that we need."""


class UnknownTopicError(ClientError):
    """A topic that does not exist, or a partition that it does not have."""


class AuthenticationError(ClientError):
    """The broker does not take who we are, or we do not take who it is. Trying again would not help, and is not done."""


class OffsetOutOfRangeError(ClientError):
    """Records that the broker does not hold (any more): it has `log_start_offset` to `end_offset` (exclusive; -1: not told).

    `position` is the offset that was asked for: before the start, behind the end, or at an end that came before it was expected.
    """

    def __init__(self, partition: TopicPartition, position: int, log_start_offset: int, end_offset: int) -> None:
        name = f"partition {partition.partition} of topic {partition.topic}"
        if log_start_offset <= position <= end_offset:
            message = f"{name} ends at offset {end_offset}, but more records were expected: it was cut or made anew"
        else:
            held = f" ({log_start_offset} to {end_offset})" if log_start_offset >= 0 else ""
            message = f"offset {position} of {name} is outside what the broker holds{held}"
        super().__init__(message)
        self.partition = partition
        self.position = position
        self.log_start_offset = log_start_offset
        self.end_offset = end_offset


class TopicRecreatedError(ClientError):
    """The topic of this name is not the one that was asked for (by its id): it was deleted, and may have been made anew.

    `found` is the id of the topic that has the name now, "" where it is not known.
    """

    def __init__(self, topic: str, expected: str, found: str = "") -> None:
        now = f"now it is {found}" if found else "there is none of this id any more"
        super().__init__(f"topic {topic} was deleted or made anew: its id was {expected}, {now}")
        self.topic = topic
        self.expected = expected
        self.found = found


class RequestFailedError(ClientError):
    """Any other error code; `code` is the broker's."""

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code


def error_code(number: int) -> ErrorCode:
    """An error code from the wire; one that we do not know is treated as the broker's own failure."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
