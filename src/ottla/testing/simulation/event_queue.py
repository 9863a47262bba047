"""The virtual clock of a simulation, and the actions that are scheduled on it."""

from collections.abc import Callable
from heapq import heappop, heappush

from ottla.testing.simulation.member import Process

Action = Callable[[], None]


class EventQueue:
    """Runs actions in the order of their times; equal times in the order in which they were scheduled."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.scheduled = 0
        """How many actions were scheduled so far."""
        self._events: list[tuple[int, int, Action, Process | None]] = []

    def later(self, delay_ms: int, act: Action, member: Process | None = None) -> None:
        """Call `act` after `delay_ms`; if `member` is frozen then, when it continues."""
        self.scheduled += 1
        heappush(self._events, (self.now_ms + delay_ms, self.scheduled, act, member))

    def run_until(self, end_ms: int, done: Callable[[], bool]) -> None:
        """Run actions until `done`, until none is left, or until the next one is after `end_ms`."""
        while self._events and self._events[0][0] <= end_ms and not done():
            self.now_ms, _, act, member = heappop(self._events)
            if member is None or member.frozen_until_ms <= self.now_ms:
                act()
            else:
                self.later(member.frozen_until_ms - self.now_ms, act, member)
