"""Memory of requests that are not complete yet, or wait: one bound over all connections.

It decides which connections are not read while memory is short, and which are closed because the rest of a request does not arrive; it
reads and closes none itself. Connections that hold less than their share are read as before, so that a few that send requests and do not
complete them do not keep out the others.
"""

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
