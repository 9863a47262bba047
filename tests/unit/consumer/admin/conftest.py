"""A broker that answers as it is told, in kio's messages, without a socket."""

from collections.abc import Callable
from typing import Any, Self

import pytest

from ottla.broker.messages import fitter
from ottla.consumer.admin.brokers import Brokers
from ottla.consumer.errors import BrokerUnavailableError, UnsupportedBrokerError


class ToldConnection:
    """`answer(api_key, request)` gives the values of the answer, or raises."""

    def __init__(self, place: str, answer: Callable[[int, Any], Any], spoken: dict[int, range]) -> None:
        self.name = place
        self.timeout_ms = 0
        self.is_closed = False
        self._answer = answer
        self._spoken = spoken

    def speaks(self, api_key: int, version: int) -> bool:
        return version in self._spoken.get(api_key, range(100))

    def ask(self, request: Any, response_class: type[Any]) -> Any:
        if not self.speaks(request.__api_key__, request.__version__):
            raise UnsupportedBrokerError("too old")
        return fitter(response_class)({"throttle_time": 0} | self._answer(int(request.__api_key__), request))

    def close(self) -> None:
        self.is_closed = True


class Told:
    """Brokers by "host:port"; a place without one cannot be reached. `waits` are the pauses that were made, in seconds."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[int, Any], Any]] = {}
        self.spoken: dict[int, range] = {69: range(0)}
        self.now = 0.0
        self.waits: list[float] = []
        self.connected: list[str] = []
        self.asked: list[tuple[str, int]] = []

    def broker(self, place: str, answer: Callable[[int, Any], Any]) -> Self:
        self.answers[place] = answer
        return self

    def brokers(self, bootstrap_servers: str = "a:1", timeout_ms: int = 1_000) -> Brokers:
        return Brokers(
            bootstrap_servers, client_id="tester", timeout_ms=timeout_ms, connect=self._connect, clock=lambda: self.now, pause=self._pause
        )

    def _connect(self, host: str, port: int, **_: Any) -> Any:
        place = f"{host}:{port}"
        if place not in self.answers:
            self.now += 0.01
            raise BrokerUnavailableError(f"no connection to broker {place}")
        self.connected.append(place)

        def answer(api_key: int, request: Any) -> Any:
            self.asked.append((place, api_key))
            return self.answers[place](api_key, request)

        return ToldConnection(place, answer, self.spoken)

    def _pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def told() -> Told:
    """Brokers that answer as they are told, and a clock that only pauses move."""
    return Told()
