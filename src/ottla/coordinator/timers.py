"""The timers of a coordinator. They run no code and read no clock: the coordinator asks which timer is due.

Every heartbeat arms a timer again, without work on the heap: a timer that moves later keeps its place in the heap and is queued again when
that place is reached (lazy deletion).
"""

from heapq import heappop, heappush


class Timer:
    """One deadline: of which `kind`, and of whom (`names`: such as a group's id and a member's); `at_ms` None while it is not armed."""

    __slots__ = ("_queued_at_ms", "at_ms", "kind", "names")

    def __init__(self, kind: str, *names: str) -> None:
        self.kind = kind
        self.names = names
        self.at_ms: int | None = None
        self._queued_at_ms: int | None = None

    @property
    def key(self) -> str:
        """The purpose, for traces and messages."""
        return " ".join((self.kind, *self.names))


class Timers:
    """The armed timers of one coordinator, soonest first; equal deadlines fire in the order in which they were queued."""

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0

    def arm(self, timer: Timer, at_ms: int) -> None:
        """Make `timer` fire at `at_ms`, and no longer at the time it was armed for."""
        timer.at_ms = at_ms
        queued_at_ms = timer._queued_at_ms
        if queued_at_ms is None or queued_at_ms > at_ms:
            self._queue(timer, at_ms)

    def cancel(self, timer: Timer) -> None:
        """Disarm `timer`."""
        timer.at_ms = None

    def next_deadline_ms(self) -> int | None:
        """When the soonest timer is due, None if none is armed."""
        heap = self._heap
        while heap:
            queued_at_ms, _, timer = heap[0]
            if timer.at_ms == queued_at_ms == timer._queued_at_ms:
                return queued_at_ms
            heappop(heap)
            if timer._queued_at_ms == queued_at_ms:
                timer._queued_at_ms = None
                if timer.at_ms is not None:
                    self._queue(timer, timer.at_ms)
        return None

    def pop_due(self, now_ms: int) -> Timer | None:
        """The soonest timer that is due, disarmed; None if none is due."""
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        timer = heappop(self._heap)[2]
        timer.at_ms = timer._queued_at_ms = None
        return timer

    def _queue(self, timer: Timer, at_ms: int) -> None:
        timer._queued_at_ms = at_ms
        self._sequence += 1
        heappush(self._heap, (at_ms, self._sequence, timer))
