"""Memory of requests and responses: one bound each over all connections.

A frame's size is its peer's claim; its memory is what the peer has sent. Records are read when there is memory for them; meanwhile their
request waits. Small responses never wait; a few slow readers of large ones do not delay others. It decides who waits and which connections
are closed because they do not read; it sends and closes nothing.
"""

import asyncio
from ctypes import c_char_p, c_ssize_t, py_object, pythonapi
from typing import Final, Protocol

DEFAULT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Where queued.max.request.bytes is -1."""
SHORT_READ_BYTES: Final = 16 * 1024
"""One read takes no more than this while memory is short: most requests are smaller."""
GRACE_S: Final = 10.0
BYTES_PER_SECOND_MIN: Final = 64 * 1024
"""While others wait for memory, a request must come at least this fast, after a grace; otherwise its connection is closed."""
_EARLY_SHARE: Final = 8


class Sender(Protocol):
    """A connection that holds bytes of requests."""

    held: int
    """Bytes of requests that it holds."""
    since_s: float
    """When the request under way began, or the connection was read again."""

    @property
    def missing(self) -> int:
        """Bytes until the request under way is complete; 0 when none is."""
        ...

    def wait_for_memory(self, waits: bool) -> None:
        """Read no more, or read again."""
        ...

    def give_up(self, why: str) -> None:
        """Close at once, and log why."""
        ...


class RequestMemory:
    """The bound and the connections that wait because of it. Connections call `take` and `release`."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = 0
        self.is_short = False
        self._senders: dict[Sender, None] = {}
        self._waiting: dict[Sender, None] = {}
        self._preferred: set[Sender] = set()

    def take(self, sender: Sender, size: int) -> None:
        """`size` bytes have arrived that are kept for now. The sender may have to wait until it is read again."""
        sender.held += size
        self.held += size
        self._senders[sender] = None
        if self.held > self.bytes_max:
            self.is_short = True
            if sender.held > self.bytes_max // len(self._senders) and sender not in self._preferred:
                self._waiting[sender] = None
                sender.wait_for_memory(True)

    def release(self, sender: Sender, size: int) -> None:
        """`size` bytes are free again: their request has been handled, or dropped."""
        sender.held -= size
        self.held -= size
        if not sender.held:
            self._senders.pop(sender, None)
        if self.is_short or self._waiting or self._preferred:
            self._ease(sender)

    def _ease(self, sender: Sender) -> None:
        if not sender.held:
            self._preferred.discard(sender)
            self._resume(sender)
        room = self.bytes_max - self.held
        self.is_short = room < 0
        if not self.is_short:
            self._preferred.clear()
        while room > 0 and self._waiting:
            waiting = next(iter(self._waiting))
            room -= max(waiting.missing, 1)
            self._resume(waiting)

    def _resume(self, sender: Sender) -> None:
        if sender in self._waiting:
            del self._waiting[sender]
            sender.wait_for_memory(False)

    def tick(self, now_s: float) -> None:
        """Called once a second. While some wait: closes those whose requests do not come, reads those that are nearly complete."""
        if not (self._waiting or self._preferred):
            return
        for sender in [sender for sender in self._senders if sender not in self._waiting and sender.missing]:
            if now_s - sender.since_s > GRACE_S + sender.held / BYTES_PER_SECOND_MIN:
                sender.give_up(
                    f"{sender.held} bytes of a request came in {now_s - sender.since_s:.0f} s, while others wait for memory"
                    " (queued.max.request.bytes)"
                )
        room = self.bytes_max // _EARLY_SHARE - sum(sender.missing for sender in self._preferred)
        for sender in sorted((sender for sender in self._waiting if sender.missing), key=lambda sender: sender.missing):
            room -= sender.missing
            if room < 0 and self._preferred:
                break
            self._preferred.add(sender)
            self._resume(sender)


def request_memory(queued_max_request_bytes: int) -> RequestMemory:
    """The bound of the setting's value; Kafka has none for -1."""
    return RequestMemory(queued_max_request_bytes if queued_max_request_bytes > 0 else DEFAULT_BYTES_MAX)


BYTES_MAX: Final = 64 * 1024 * 1024
SMALL_BYTES: Final = 64 * 1024
"""A response that is no larger never waits for memory."""


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


_from_string_and_size = pythonapi.PyByteArray_FromStringAndSize
_from_string_and_size.restype = py_object
_from_string_and_size.argtypes = (c_char_p, c_ssize_t)


def unwritten_buffer(size: int) -> bytearray:
    """`size` bytes of any content. Raises MemoryError."""
    buffer: bytearray = _from_string_and_size(None, size)
    return buffer
