"""Deadlines of calls, and the error codes after which a call is retried.

A call is retried with growing back-off until its deadline: coordinators move and load, leaders change, brokers restart. A refusal is final
and never retried.
"""

from collections.abc import Callable
from typing import Final

from ottla.client.backoff import backoff_ms
from ottla.client.errors import BrokerUnavailableError, ClientError, RequestFailedError, error_code
from ottla.client.reactions import CALL
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode

RETRIABLE: Final = frozenset(CALL.named)
"""Errors that another broker, or the same one a little later, may not give."""


class DeadlineExceededError(ClientError):
    """A call did not succeed before its deadline.

    `last` is the error of the last attempt, None when no broker answered; `unreachable` says why the last one could not be reached.
    """

    def __init__(self, call: str, attempts: int, last: str | None, unreachable: str | None = None) -> None:
        what = "Timed out waiting for a node assignment." if last is None else f"Timed out after {attempts} attempt(s), the last: {last}."
        super().__init__(f"{what} Call: {call}" + (f" ({unreachable})" if unreachable else ""))


class NoBrokerReachedError(DeadlineExceededError):
    """The first call of a client reached no broker of bootstrap.servers, or not the broker `broker_id` at its advertised address."""

    def __init__(self, timeout_ms: int, unreachable: str, broker_id: int | None = None) -> None:
        which = "no broker of bootstrap.servers was reached"
        check = "check the addresses, and that brokers run"
        if broker_id is not None:
            which = f"the cluster was reached, but not its broker {broker_id}"
            check = "check advertised.listeners of that broker, that this machine can reach the address, and that the broker runs"
        ClientError.__init__(self, f"{which} in {timeout_ms} ms ({unreachable}): {check}")


class Deadline:
    """The time of one call over all its attempts. `call` names it in errors; `clock` and `pause` are in seconds, `rng` gives 0 to 1."""

    def __init__(
        self,
        call: str,
        timeout_ms: int,
        settings: ClientSettings,
        *,
        clock: Callable[[], float],
        pause: Callable[[float], object],
        rng: Callable[[], float],
    ) -> None:
        self.call = call
        self._settings = settings
        self._clock = clock
        self._pause = pause
        self._rng = rng
        self._ends = clock() + timeout_ms / 1000
        self._attempts = 0
        self._unreachable: str | None = None

    def left_ms(self) -> int:
        """The time left; 0 after the deadline."""
        return max(0, int((self._ends - self._clock()) * 1000))

    def wait(self, last: str | None, error: BrokerUnavailableError | None = None) -> None:
        """Back off before another attempt. Raises DeadlineExceededError with `last`, the error of this one, when no time is left."""
        self._attempts += 1
        self._unreachable = str(error) if error else None
        settings = self._settings
        waits = (settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        if error is not None:
            waits = (settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms)
        wait_ms = backoff_ms(self._attempts, *waits, self._rng())
        if self.left_ms() <= wait_ms:
            raise self.exceeded(last)
        self._pause(wait_ms / 1000)

    def exceeded(self, last: str | None) -> DeadlineExceededError:
        """The error of a call past its deadline."""
        return DeadlineExceededError(self.call, self._attempts, last, self._unreachable)


def raise_for(number: int, what: str) -> None:
    """Raise RequestFailedError unless an error code is NONE."""
    code = error_code(number)
    if code is not ErrorCode.NONE:
        raise RequestFailedError(f"{what}: {code.name}", code)
