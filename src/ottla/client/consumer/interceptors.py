"""`interceptor.classes`: objects that see, and may change, what a consumer hands out and commits (Java: `ConsumerInterceptor`).

An interceptor has the methods `on_consume(messages)`, which returns the messages to hand out, `on_commit(offsets)` and `close()`, or some
of them. As in Java, what one raises is logged, and the next one gets what it got.
"""

import importlib
import logging
from collections.abc import Sequence
from typing import Any, Final

from ottla.client.consumer.message import Message, TopicPartition

_LOG: Final = logging.getLogger("ottla.consumer")


class Interceptors:
    """A consumer's interceptors, in their order."""

    def __init__(self, interceptors: Sequence[Any] = ()) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, messages: list[Message]) -> list[Message]:
        """The messages to hand out. Events and errors pass by the interceptors, and come first."""
        errors = [each for each in messages if each.error() is not None]
        records = [each for each in messages if each.error() is None] if errors else messages
        if records:
            for interceptor in self._interceptors:
                found = _call(interceptor, "on_consume", records)
                records = records if found is None else list(found)
        return errors + records

    def on_commit(self, offsets: list[TopicPartition]) -> None:
        """These offsets were committed."""
        for interceptor in self._interceptors:
            _call(interceptor, "on_commit", offsets)

    def close(self) -> None:
        """The consumer was closed."""
        for interceptor in self._interceptors:
            _call(interceptor, "close")


def _call(interceptor: Any, name: str, *arguments: Any) -> Any:
    method = getattr(interceptor, name, None)
    if method is None:
        return None
    try:
        return method(*arguments)
    except Exception:  # noqa: BLE001 - it is the user's code, and logged
        _LOG.exception("The interceptor %s failed in %s; the consumer goes on", type(interceptor).__name__, name)
        return None


def find_interceptors(given: Any) -> Interceptors:
    """From the property's value: an object, a name `module:Class`, names with commas between them, or a list of both. Raises ValueError."""
    if isinstance(given, str):
        given = [name.strip() for name in given.split(",") if name.strip()]
    elif not isinstance(given, list | tuple):
        given = [given]
    return Interceptors([_made(each) if isinstance(each, str) else each for each in given])


def _made(name: str) -> Any:
    module_name, _, class_name = name.partition(":")
    if not class_name:
        raise ValueError(f"interceptor.classes: {name!r} must be module:Class, or an object (Java classes cannot run here)")
    try:
        return getattr(importlib.import_module(module_name), class_name)()
    except (ImportError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"interceptor.classes: {name} cannot be made: {error}") from error
