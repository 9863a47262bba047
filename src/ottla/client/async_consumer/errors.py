"""Errors by aiokafka's names. A refusal of a broker is the class of its code; codes that aiokafka does not have are an UnknownError."""

from typing import Any, ClassVar, Final

from ottla.client.consumer.kafka_errors import CODES
from ottla.protocol.errors import ErrorCode


class ConsumerStoppedError(Exception):
    """The consumer was stopped, before the call or while it waited."""


class IllegalOperation(Exception):
    """What the consumer's arguments do not allow: a commit without a group, for example."""


class KafkaError(RuntimeError):
    """The base of all others. `retriable`: the same call may succeed later; `invalid_metadata`: once the metadata are up to date."""

    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False

    def __str__(self) -> str:
        name = type(self).__name__
        return f"{name}: {super().__str__()}" if self.args else name


class IllegalStateError(KafkaError):
    """The partition is not assigned, there is no subscription, or partitions were assigned in another way."""


class KafkaTimeoutError(KafkaError):
    """There was no answer in time."""


class KafkaConnectionError(KafkaError):
    """No broker could be reached."""

    retriable = True
    invalid_metadata = True


class AuthenticationFailedError(KafkaError):
    """The broker rejects the client's identity, or the client the broker's."""


class IncompatibleBrokerVersion(KafkaError):
    """The broker does not support a request that the consumer needs."""


_REBALANCED: Final = (
    "the group has rebalanced, and may have assigned the partitions to another member: offsets of this one are not committed any "
    "more. Heartbeats that were late (code that blocks the event loop), or a longer time between calls than max_poll_interval_ms, end a "
    "membership"
)
_REBALANCING: Final = (
    "the group is rebalancing, and its coordinator takes no commits until that is over: partitions that this member keeps can be committed "
    "afterwards, with their next records"
)


class CommitFailedError(KafkaError):
    """The group is rebalancing (`is_rebalancing`), or the partitions may belong to another member already."""

    def __init__(self, *args: Any, is_rebalancing: bool = False) -> None:
        super().__init__(_REBALANCING if is_rebalancing else _REBALANCED, *args)


class NoOffsetForPartitionError(KafkaError):
    """The group has committed no offset of the partition, and auto_offset_reset is none."""


class BrokerResponseError(KafkaError):
    """A broker's error: `errno` is its code, `message` its name, `description` its text."""

    errno: ClassVar[int]
    message: ClassVar[str]
    description: ClassVar[str]

    def __init_subclass__(cls, errno: int, *, retriable: bool = False, invalid_metadata: bool = False) -> None:
        cls.errno = errno
        cls.message, text = CODES[errno]
        cls.description = text.removeprefix("Broker: ")
        cls.retriable, cls.invalid_metadata = retriable, invalid_metadata
        _BY_CODE[errno] = cls

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


_BY_CODE: Final[dict[int, type[BrokerResponseError]]] = {}


class UnknownError(BrokerResponseError, errno=-1): ...


class OffsetOutOfRangeError(BrokerResponseError, errno=1): ...


class CorruptRecordException(BrokerResponseError, errno=2): ...


class UnknownTopicOrPartitionError(BrokerResponseError, errno=3, retriable=True, invalid_metadata=True): ...


class InvalidFetchRequestError(BrokerResponseError, errno=4): ...


class LeaderNotAvailableError(BrokerResponseError, errno=5, retriable=True, invalid_metadata=True): ...


class NotLeaderForPartitionError(BrokerResponseError, errno=6, retriable=True, invalid_metadata=True): ...


class RequestTimedOutError(BrokerResponseError, errno=7, retriable=True): ...


class BrokerNotAvailableError(BrokerResponseError, errno=8): ...


class ReplicaNotAvailableError(BrokerResponseError, errno=9): ...


class MessageSizeTooLargeError(BrokerResponseError, errno=10): ...


class StaleControllerEpochError(BrokerResponseError, errno=11): ...


class OffsetMetadataTooLargeError(BrokerResponseError, errno=12): ...


class StaleLeaderEpochCodeError(BrokerResponseError, errno=13): ...


class GroupLoadInProgressError(BrokerResponseError, errno=14, retriable=True): ...


class GroupCoordinatorNotAvailableError(BrokerResponseError, errno=15, retriable=True): ...


class NotCoordinatorForGroupError(BrokerResponseError, errno=16, retriable=True): ...


class InvalidTopicError(BrokerResponseError, errno=17): ...


class RecordListTooLargeError(BrokerResponseError, errno=18): ...


class NotEnoughReplicasError(BrokerResponseError, errno=19, retriable=True): ...


class NotEnoughReplicasAfterAppendError(BrokerResponseError, errno=20, retriable=True): ...


class InvalidRequiredAcksError(BrokerResponseError, errno=21): ...


class IllegalGenerationError(BrokerResponseError, errno=22): ...


class InconsistentGroupProtocolError(BrokerResponseError, errno=23): ...


class InvalidGroupIdError(BrokerResponseError, errno=24): ...


class UnknownMemberIdError(BrokerResponseError, errno=25): ...


class InvalidSessionTimeoutError(BrokerResponseError, errno=26): ...


class RebalanceInProgressError(BrokerResponseError, errno=27): ...


class InvalidCommitOffsetSizeError(BrokerResponseError, errno=28): ...


class TopicAuthorizationFailedError(BrokerResponseError, errno=29): ...


class GroupAuthorizationFailedError(BrokerResponseError, errno=30): ...


class ClusterAuthorizationFailedError(BrokerResponseError, errno=31): ...


class InvalidTimestampError(BrokerResponseError, errno=32): ...


class UnsupportedSaslMechanismError(BrokerResponseError, errno=33): ...


class IllegalSaslStateError(BrokerResponseError, errno=34): ...


class UnsupportedVersionError(BrokerResponseError, errno=35): ...


class TopicAlreadyExistsError(BrokerResponseError, errno=36): ...


class InvalidPartitionsError(BrokerResponseError, errno=37): ...


class InvalidReplicationFactorError(BrokerResponseError, errno=38): ...


class InvalidReplicationAssignmentError(BrokerResponseError, errno=39): ...


class InvalidConfigurationError(BrokerResponseError, errno=40): ...


class NotControllerError(BrokerResponseError, errno=41, retriable=True): ...


class InvalidRequestError(BrokerResponseError, errno=42): ...


class UnsupportedForMessageFormatError(BrokerResponseError, errno=43): ...


class PolicyViolationError(BrokerResponseError, errno=44): ...


class KafkaStorageError(BrokerResponseError, errno=56, retriable=True, invalid_metadata=True): ...


class SaslAuthenticationFailed(BrokerResponseError, errno=58): ...


class FetchSessionIdNotFound(BrokerResponseError, errno=70): ...


class InvalidFetchSessionEpoch(BrokerResponseError, errno=71): ...


class ListenerNotFound(BrokerResponseError, errno=72): ...


class MemberIdRequired(BrokerResponseError, errno=79): ...


def for_code(error_code: int) -> type[BrokerResponseError]:
    """The class of a broker's error code."""
    return _BY_CODE.get(error_code, UnknownError)


def error_of(code: ErrorCode, *details: Any) -> BrokerResponseError:
    """The error for a broker's code; its text stands for `details`, where there are none."""
    kind = for_code(code)
    if kind is UnknownError and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
        name, text = CODES.get(code, (code.name, ""))
        return kind(f"{name}: {text.removeprefix('Broker: ')}", *details)
    return kind(*(details or (kind.description,)))
