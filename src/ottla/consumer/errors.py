"""What can go wrong when a client asks a broker, one class a kind: each message says which broker or topic, and what to do.

Bytes that make no sense are `PeerError` as everywhere else; these are answers and silences that do make sense.
"""

from ottla.core.errors import ErrorCode


class ClientError(Exception):
    """A request that a broker did not grant. The subclasses say why."""


class BrokerUnavailableError(ClientError):
    """No connection, or none any more, or no answer in time."""


class UnsupportedBrokerError(ClientError):
    """The broker does not speak the version of a request that we need."""


class UnknownTopicError(ClientError):
    """A topic that does not exist, or a partition that it does not have."""


class OffsetOutOfRangeError(ClientError):
    """An offset outside what the broker still holds of a partition."""


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
