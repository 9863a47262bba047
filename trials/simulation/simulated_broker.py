"""The broker of a simulation: one coordinator over one log, which is killed, loaded again, moved away and back."""

from collections.abc import Callable

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import Command, ExpireOffsets, FinishLoading, Request, Resign
from ottla.core.groups.effects import Effects, Result
from ottla.testing.kit.coordinator_shell import CoordinatorShell
from ottla.testing.simulation.conditions import Conditions
from ottla.testing.simulation.oracle import Oracle
from ottla.testing.simulation.trace import Trace

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

    def _apply(self, effects: Effects, command: Command | None) -> None:
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
