"""Memory of responses that clients have not read yet: one bound over all connections.

Records are read when there is memory for them; meanwhile their request waits. Small responses never wait; a few slow readers of large ones
do not delay others. It decides which requests wait and which connections are closed because they do not read; it sends and closes nothing.
"""

import asyncio
from typing import Final, Protocol

BYTES_MAX: Final = 64 * 1024 * 1024
SMALL_BYTES: Final = 64 * 1024
"""A response that is no larger never waits for memory."""
GRACE_S: Final = 10.0
BYTES_PER_SECOND_MIN: Final = 64 * 1024
"""While others wait for memory, a client must read its response at least this fast, after a grace period, or its connection is closed."""


class Reader(Protocol):
    """A connection with a response that is not read yet."""

    def unsent_bytes(self) -> int:
        """Bytes that are not sent yet."""
        ...

    def give_up(self, why: str) -> None:
        """Close at once, and log why."""
        ...


class Waiter(Protocol):
    """A request whose response needs memory."""

    def memory_is_free(self) -> None:
        """Try again: it may have to wait once more."""
        ...


class ResponseMemory:
    """The bound and the requests that wait for memory. A response that is larger than the bound is sent when no other one is held."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held = 0
        self._readers: dict[Reader, tuple[int, float]] = {}
        self._waiting: dict[Waiter, int] = {}
        self._is_set = False

    def has_room(self, size: int) -> bool:
        """Whether a response of `size` bytes may be made now: it fits, or is no larger than an equal share of a slow reader."""
        return not self.held or self.held + size <= self.bytes_max or size <= max(SMALL_BYTES, self.bytes_max // (len(self._readers) + 1))

    def take(self, reader: Reader, size: int, now_s: float) -> None:
        """`size` bytes could not be sent at once. Where small responses are too many together, the slowest reader is closed."""
        self.release(reader)
        self._readers[reader] = size, now_s
        self.held += size
        while self.held > 2 * self.bytes_max and len(self._readers) > 1:
            self._close(max(self._readers, key=lambda reader: self._late_s(reader, now_s)), now_s)

    def release(self, reader: Reader) -> None:
        """The connection has read its response, or is closed."""
        size, _ = self._readers.pop(reader, (0, 0.0))
        self.held -= size
        if size and self._waiting:
            self._wake_later()

    def wait(self, waiter: Waiter, size: int) -> None:
        """Call `memory_is_free` when there is memory for `size` bytes; requests are called in the order in which they came."""
        self._waiting[waiter] = size

    def forget(self, waiter: Waiter) -> None:
        """The request does not wait any more."""
        if self._waiting.pop(waiter, None) is not None:
            self._wake_later()

    def tick(self, now_s: float) -> None:
        """Called once a second. While requests wait: closes connections that do not read."""
        if self._waiting:
            for reader in [reader for reader in self._readers if self._late_s(reader, now_s) > GRACE_S]:
                self._close(reader, now_s)

    def _late_s(self, reader: Reader, now_s: float) -> float:
        """How many seconds longer it has taken than it may need for the bytes that it has read."""
        size, since_s = self._readers[reader]
        return now_s - since_s - (size - reader.unsent_bytes()) / BYTES_PER_SECOND_MIN

    def _close(self, reader: Reader, now_s: float) -> None:
        _, since_s = self._readers[reader]
        unsent = reader.unsent_bytes()
        self.release(reader)
        reader.give_up(f"{unsent} bytes of answers were not read in {now_s - since_s:.0f} s, and the memory for answers is used up")

    def _wake_later(self) -> None:
        if not self._is_set:
            self._is_set = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        """One at a time: after its response, the memory that is left for the next one is known."""
        self._is_set = False
        waiter = next(iter(self._waiting), None)
        if waiter is not None and self.has_room(self._waiting[waiter]):
            del self._waiting[waiter]
            waiter.memory_is_free()
            if self._waiting:
                self._wake_later()
