"""The broker of a simulation: one coordinator over one log, which is killed, loaded again, moved away and back; its clock and its trace."""

import random
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush

from ottla.coordinator.coordinator import FinishLoading, Resign
from ottla.groups.commands import Command, ExpireOffsets, GroupEffects, Request, Result
from ottla.protocol.errors import ErrorCode
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.effects import render_effects
from trials.simulation.member import Process
from trials.simulation.oracle import Oracle

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


class Conditions:
    """Chance and time of one run. Without `has_faults` nothing fails any more, and messages are quick."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.events = EventQueue()
        self.has_faults = True

    def chance(self, probability: float) -> bool:
        """Whether a fault of this probability happens."""
        return self.has_faults and self.rng.random() < probability

    def latency_ms(self) -> int:
        """How long the next message takes."""
        return self.rng.randrange(500, 9_000) if self.chance(0.03) else self.rng.randrange(1, 20)


class Trace:
    """What happened, as a hash, and as lines for `report` if there is one. `causes`: every published trigger cause."""

    def __init__(self, events: EventQueue, report: Callable[[str], None] | None) -> None:
        self.causes: set[str] = set()
        self._events = events
        self._report = report
        self._hash = blake2b(digest_size=16)

    def add(self, effects: GroupEffects, command: Command | None) -> None:
        """Add what the coordinator decided about a command, or about a timer (None)."""
        self.causes.update(event.trigger for event in effects.events if event.trigger is not None)
        kinds = [(event.kind, event.trigger, event.generation) for event in effects.events]
        answers = [(reply.to, type(reply.result).__name__) for reply in effects.replies]
        self._hash.update(f"{self._events.now_ms}{type(command).__name__}{len(effects.records)}{answers}{kinds}".encode())
        if self._report is not None:
            self._report(f"{self._events.now_ms} {command if command is not None else 'timer'}")
            for line in render_effects(effects):
                self._report(f"    {line}")

    def line(self, line: str) -> None:
        """Report a line."""
        if self._report is not None:
            self._report(f"{self._events.now_ms} {line}")

    def hexdigest(self) -> str:
        """The hash of all effects so far."""
        return self._hash.hexdigest()


APPEND_ERRORS = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE)
EXPIRY_INTERVAL_MS = 3_000


class SimulatedBroker:
    """Runs commands, timers and appends of its coordinator, and has the oracle check each of them.

    `shares_appends`: commands that arrive within a few milliseconds share an append.
    """

    def __init__(self, shell: CoordinatorShell, conditions: Conditions, trace: Trace, *, shares_appends: bool) -> None:
        self.shell = shell
        self.oracle = Oracle(shell)
        self.is_up = False
        self.steps = self.restarts = self.expirations = 0
        self._conditions = conditions
        self._rng = conditions.rng
        self._events = conditions.events
        self._trace = trace
        self._shares_appends = shares_appends
        self._on_response: dict[int, Callable[[Result], None]] = {}
        self._reply_to = 0
        self._timer_at_ms: int | None = None

    def expect_reply(self, on_response: Callable[[Result], None] | None = None) -> int:
        """A number for the next request; `on_response` gets its result."""
        self._reply_to += 1
        if on_response is not None:
            self._on_response[self._reply_to] = on_response
        return self._reply_to

    def deliver(self, command: Request) -> None:
        """A request arrives."""
        if self.is_up:
            self.oracle.request_received(command)
            self._step(command)

    def start(self) -> None:
        """Load the coordinator from the log, which is compacted now and then."""
        self.is_up = True
        if self._conditions.chance(0.3):
            self.shell.compact(keep_tombstones=self._rng.random() < 0.5)
        self.shell.begin_loading()
        self.oracle.coordinator_restarted()
        self._events.later(self._rng.choice((0, 0, 300, 2_000)) if self._conditions.has_faults else 0, self._finish_loading)

    def _finish_loading(self) -> None:
        if self.is_up and self.shell.coordinator.status.value == "loading":
            self._step(FinishLoading())

    def stop(self) -> None:
        """Kill the broker; only its log is left."""
        if self.is_up:
            self.is_up = False
            self.restarts += 1
            self._on_response.clear()
            self._events.later(self._rng.randrange(100, 9_000), self._start_again)

    def _start_again(self) -> None:
        if not self.is_up:
            self.start()

    def move_coordinator(self) -> None:
        """Move the partition's leadership away, and later back."""
        if self.is_up and self.shell.coordinator.status.value == "active":
            self._step(Resign())
            self.restarts += 1
            self._events.later(self._rng.randrange(100, 3_000), self._come_back)

    def _come_back(self) -> None:
        if self.is_up and self.shell.coordinator.status.value == "resigned":
            self.start()

    def expire(self) -> None:
        """Start or continue an expiry pass, whatever the coordinator's status."""
        if self.is_up:
            self._step(ExpireOffsets())
        self._events.later(EXPIRY_INTERVAL_MS, self.expire)

    def _step(self, command: Command) -> None:
        if self._conditions.chance(0.02):
            self.shell.fail_next_append = self._rng.choice(APPEND_ERRORS)
        if self.shell.coordinator.depends_on_pending(command):
            self._flush()
        for asked, effects in self.shell.submit(command, self._events.now_ms):
            self._apply(effects, asked)
        if not self._shares_appends:
            self._flush()
            self.shell.fail_next_append = None
        elif len(self.shell.pending) == 1:
            # Commands that arrive before it share the append.
            self._events.later(self._rng.randrange(10), self._flush)
        self._set_timer()

    def _flush(self) -> None:
        if self.is_up:
            for asked, effects in self.shell.flush(self._events.now_ms):
                self._apply(effects, asked)

    def _fire_timers(self) -> None:
        self._timer_at_ms = None
        self._flush()
        while self.is_up and (effects := self.shell.fire_timers(self._events.now_ms)) is not None:
            self._apply(effects, None)
        self._set_timer()

    def _apply(self, effects: GroupEffects, command: Command | None) -> None:
        self.steps += 1
        self._trace.add(effects, command)
        if isinstance(command, ExpireOffsets):
            self.expirations += len(effects.records)
            self.oracle.offsets_expired(effects, self._events.now_ms + self.shell.time_of_day_offset_ms)
        if self.shell.coordinator.status.value == "resigned":
            self.oracle.coordinator_resigned(effects)
        else:
            self.oracle.effects_applied(effects)
            self.oracle.check_sessions(self._events.now_ms)
        for reply in effects.replies:
            answer = self._on_response.pop(reply.to, None)
            if answer is not None:
                answer(reply.result)
        self._set_timer()

    def _set_timer(self) -> None:
        due_ms = self.shell.coordinator.next_deadline_ms() if self.is_up else None
        if due_ms is not None and (self._timer_at_ms is None or due_ms < self._timer_at_ms):
            self._timer_at_ms = due_ms
            self._events.later(max(due_ms - self._events.now_ms, 0), self._fire_timers)
