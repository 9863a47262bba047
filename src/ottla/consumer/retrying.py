"""Which answers may pass, and the time that one question has over all its attempts.

A question is asked again, with a pause in between that grows, until its time is over: coordinators move and load, leaders change, brokers
restart. What will not pass (a refusal) is never asked twice.
"""

from collections.abc import Callable
from typing import Final

from ottla.consumer.errors import BrokerUnavailableError, ClientError, RequestFailedError, error_code
from ottla.consumer.settings import ClientSettings
from ottla.core.consuming.backoff import backoff_ms
from ottla.core.errors import ErrorCode

MAY_PASS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Answers that another broker, or the same one a little later, may not give."""


class OutOfTimeError(ClientError):
    """A question was not answered in its time.

    `last` is the answer that came last instead, None when no broker gave one; `unreachable` says why the last one could not be asked.
    """

    def __init__(self, call: str, attempts: int, last: str | None, unreachable: str | None = None) -> None:
        what = "Timed out waiting for a node assignment." if last is None else f"Timed out after {attempts} attempt(s), the last: {last}."
        super().__init__(f"{what} Call: {call}" + (f" ({unreachable})" if unreachable else ""))


class Deadline:
    """The time one question has, over all its attempts. `call` names it in errors; clock and pause are in seconds, dice are 0 to 1."""

    def __init__(
        self,
        call: str,
        timeout_ms: int,
        settings: ClientSettings,
        *,
        clock: Callable[[], float],
        pause: Callable[[float], None],
        dice: Callable[[], float],
    ) -> None:
        self.call = call
        self._settings = settings
        self._clock = clock
        self._pause = pause
        self._dice = dice
        self._ends = clock() + timeout_ms / 1000
        self._attempts = 0
        self._unreachable: str | None = None

    def left_ms(self) -> int:
        """What is left; 0 when it is over."""
        return max(0, int((self._ends - self._clock()) * 1000))

    def wait(self, last: str | None, error: BrokerUnavailableError | None = None) -> None:
        """Pause before another attempt. Raises OutOfTimeError with `last`, what the attempt got, when there is no time for one."""
        self._attempts += 1
        self._unreachable = str(error) if error else None
        settings = self._settings
        waits = (settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        if error is not None:
            waits = (settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms)
        wait_ms = backoff_ms(self._attempts, *waits, self._dice())
        if self.left_ms() <= wait_ms:
            raise self.over(last)
        self._pause(wait_ms / 1000)

    def over(self, last: str | None) -> OutOfTimeError:
        """The error of a question whose time is over."""
        return OutOfTimeError(self.call, self._attempts, last, self._unreachable)


def raise_for(number: int, what: str) -> None:
    """Raises RequestFailedError when an answer's error code is one."""
    code = error_code(number)
    if code is not ErrorCode.NONE:
        raise RequestFailedError(f"{what}: {code.name}", code)
