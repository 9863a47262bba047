"""Messages of consumers that have deserialisers or interceptors: both run in the application's thread, without the lock of the engine."""

import time
from collections.abc import Callable

from ottla.client.consumer.deserializers import Deserializers
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.kafka_errors import ConsumeError
from ottla.client.consumer.message import Message
from ottla.client.consumer.polling import Poller


class MessageProcessing:
    """Takes messages of `poller`, deserialises them, and passes them to the interceptors."""

    def __init__(
        self, poller: Poller, deserializers: Deserializers, interceptors: Interceptors, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._poller = poller
        self._deserializers = deserializers
        self._interceptors = interceptors
        self._clock = clock

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message that the interceptors let through. Raises KeyDeserializationError and ValueDeserializationError."""
        has_limit = timeout is not None and timeout >= 0
        ends = self._clock() + (timeout or 0)
        while True:
            messages = self.consume(1, max(ends - self._clock(), 0) if has_limit else None)
            if messages:
                return messages[0]
            if has_limit and self._clock() >= ends:
                return None

    def consume(self, count: int, timeout: float | None) -> list[Message]:
        """Up to `count` messages, before the interceptors. The error of a message is raised when it is the first one."""
        messages = self._deserialized(count, timeout) if self._deserializers else self._poller.consume(count, timeout)
        return self._interceptors.on_consume(messages) if messages else messages

    def _deserialized(self, count: int, timeout: float | None) -> list[Message]:
        has_limit = timeout is not None and timeout >= 0
        ends = self._clock() + (timeout or 0)
        messages: list[Message] = []
        while len(messages) < count:
            message = self._poller.poll(max(ends - self._clock(), 0) if has_limit else None, in_hand=len(messages))
            if message is None:
                break
            if message.error() is None:
                try:
                    self._deserializers.apply(message)
                except ConsumeError:
                    if not messages:
                        raise
                    self._poller.hand_back(message)
                    break
            messages.append(message)
        return messages
