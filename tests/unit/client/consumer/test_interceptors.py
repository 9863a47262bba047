"""Interceptors: what they get, in which order, and that their errors stop nothing (Java: ConsumerInterceptorsTest)."""

import logging
from typing import Any

import pytest

from ottla.client.consumer.interceptors import Interceptors, find_interceptors
from ottla.client.consumer.kafka_errors import KafkaError
from ottla.client.consumer.message import ErrorMessage, Message


class Plain(Message):
    """A message that has only a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


A, B = Plain("a"), Plain("b")


class Noting:
    """Notes its calls, and drops the messages of these names."""

    def __init__(self, dropped: str = "") -> None:
        self.calls: list[Any] = []
        self.dropped = dropped

    def on_consume(self, messages: list[Any]) -> list[Any]:
        self.calls.append([each.name for each in messages])
        return [each for each in messages if each.name not in self.dropped]

    def on_commit(self, offsets: list[Any]) -> None:
        self.calls.append(offsets)

    def close(self) -> None:
        self.calls.append("close")


class Failing:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        def fail(*arguments: Any) -> Any:
            raise ValueError("out of order")

        return fail


class Silent:
    """Has `on_consume` alone, and returns nothing."""

    def on_consume(self, messages: list[Any]) -> None:
        return None


def test_each_gets_what_the_one_before_it_returned() -> None:
    first, second = Noting("a"), Noting()
    assert Interceptors([first, second]).on_consume([A, B]) == [B]
    assert (first.calls, second.calls) == ([["a", "b"]], [["b"]])


def test_errors_are_logged_and_the_next_one_gets_what_it_got(caplog: pytest.LogCaptureFixture) -> None:
    last = Noting()
    interceptors = Interceptors([Failing(), Silent(), last])
    with caplog.at_level(logging.ERROR, "ottla.consumer"):
        assert interceptors.on_consume([A]) == [A]
        interceptors.on_commit([])
        interceptors.close()
    assert last.calls == [["a"], [], "close"]
    assert caplog.messages == [
        f"The interceptor Failing failed in {name}; the consumer goes on" for name in ("on_consume", "on_commit", "close")
    ]


def test_events_and_errors_are_not_shown_to_them() -> None:
    noting, error = Noting("a"), ErrorMessage(KafkaError(KafkaError._PARTITION_EOF))
    assert Interceptors([noting]).on_consume([A, error]) == [error]
    assert Interceptors([noting]).on_consume([error]) == [error]
    assert noting.calls == [["a"]]


def test_how_they_are_named() -> None:
    noting = Noting()
    for given in (noting, [noting, "collections:OrderedDict"], "collections:OrderedDict , collections:Counter"):
        assert find_interceptors(given)
    assert not find_interceptors(())
    for wrong in ("org.example.Interceptor", "no.such:Module", "collections:NoSuchClass"):
        with pytest.raises(ValueError, match=r"interceptor\.classes: "):
            find_interceptors(wrong)
