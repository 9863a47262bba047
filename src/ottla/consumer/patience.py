"""Trying again: which failures may pass, how often, and how long to wait in between.

It forgets what was known of the cluster before each new try, because a leader that moved is what passes most often.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.consumer.cluster import Cluster
from ottla.consumer.errors import BrokerUnavailableError, ClientError, RequestFailedError
from ottla.core.errors import ErrorCode

ATTEMPTS_MAX: Final = 4
PAUSE_MS: Final = 250

RETRIABLE: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
    }
)
"""Errors that may go away when the leader is looked up again."""

T = TypeVar("T")


class Patience:
    """Counts failures in a row. `pause` waits; its argument is in seconds."""

    def __init__(self, cluster: Cluster, pause: Callable[[float], None] = time.sleep) -> None:
        self._cluster = cluster
        self._pause = pause
        self._attempts = 0

    def progress(self) -> None:
        """Something succeeded: start counting anew."""
        self._attempts = 0

    def bear(self, error: ClientError) -> None:
        """Wait for another try, or raise `error` when it will not pass or has come ATTEMPTS_MAX times in a row."""
        self._attempts += 1
        may_pass = isinstance(error, BrokerUnavailableError) or (isinstance(error, RequestFailedError) and error.code in RETRIABLE)
        if not may_pass or self._attempts >= ATTEMPTS_MAX:
            raise error
        self._cluster.forget()
        self._pause(PAUSE_MS / 1000)


def patiently(cluster: Cluster, action: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """The result of `action`, tried again while its failures may pass."""
    patience = Patience(cluster, pause)
    while True:
        try:
            return action()
        except ClientError as error:
            patience.bear(error)
