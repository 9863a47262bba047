"""The shell of one coordinator as tests need it: command, append, replay, reply, with a log in memory and appends that can fail.

It does what the broker's own loop does, and nothing else: with `run` one command after the other, with `decide` and `settle` several that
share an append. It keeps no time.
"""

from collections.abc import Callable

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import AppendFailed, Command, FinishLoading
from ottla.core.groups.committed import CommittedOffsets
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.durable import DurableState
from ottla.core.groups.effects import Effects
from ottla.core.groups.records import GroupRecord, decode, encode_key, encode_value

LogEntry = tuple[bytes, bytes | None]
Told = tuple[Command | None, Effects]
"""What came of a command, or of a timer."""


class CoordinatorShell:
    """Runs coordinators made by `make` over one log of encoded records, one coordinator after the other."""

    def __init__(self, make: Callable[[], Coordinator]) -> None:
        self._make = make
        self.log: list[LogEntry] = []
        self.stored = DurableState()
        """What the log says, kept beside the coordinator."""
        self.coordinator = make()
        self.fail_next_append: ErrorCode | None = None
        self.time_of_day_offset_ms = 0
        """How far the time of day is ahead of the clock of the timers: a jump of it changes this."""
        self.unsettled: list[Told] = []
        """Decided, and to share the next append."""

    def run(self, command: Command, now_ms: int) -> Effects:
        """Take one command to its end; the effects are those that came true."""
        assert not self.unsettled, "what was decided before must be settled by whoever asked for it"
        return [*self.decide(command, now_ms), *self.settle(now_ms)][0][1]

    def decide(self, command: Command, now_ms: int) -> list[Told]:
        """Decide about a command; what came true by that: earlier steps that it must wait for, and it itself if it stores nothing."""
        told = self.settle(now_ms) if self.coordinator.must_settle_before(command) else []
        return told + self._take(command, self._handle(command, now_ms))

    def settle(self, now_ms: int) -> list[Told]:
        """Append what was decided; the effects that came true, in the order in which they were decided."""
        steps, self.unsettled = self.unsettled, []
        if not steps:
            return []
        error, self.fail_next_append = self.fail_next_append, None
        if error is not None:
            failed = [(command, AppendFailed(effects=step, error=error)) for command, step in steps]
            return [(command, self._handle(failure, now_ms)) for command, failure in failed]
        for _, step in steps:
            self._store(step)
        return steps

    def fire_timers(self, now_ms: int) -> Effects | None:
        """Fire the earliest timer that is due; None when none is."""
        assert not self.unsettled, "a timer must not fire before what was decided is settled"
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        return [
            *self._take(None, self.coordinator.fire_timers(now_ms=now_ms + self.time_of_day_offset_ms, timer_ms=now_ms)),
            *self.settle(now_ms),
        ][0][1]

    def _handle(self, command: Command, timer_ms: int) -> Effects:
        return self.coordinator.handle(command, now_ms=timer_ms + self.time_of_day_offset_ms, timer_ms=timer_ms)

    def begin_loading(self) -> None:
        """A fresh coordinator reads the log; it serves nobody yet, and what was not stored is lost."""
        self.unsettled.clear()
        self.coordinator = self._make()
        for record in self.read_log():
            self.coordinator.replay(record)

    def restart(self, now_ms: int) -> Effects:
        """A fresh coordinator in place of the old one, of which nothing but the log is left."""
        self.begin_loading()
        return self.run(FinishLoading(), now_ms)

    def compact(self, *, keep_tombstones: bool) -> None:
        """Clean the log as a compacted topic is cleaned: the last record of each key stays, in its place (S2.4)."""
        last: dict[bytes, bytes | None] = {}
        for key, value in self.log:
            last.pop(key, None)
            last[key] = value
        self.log = [(key, value) for key, value in last.items() if keep_tombstones or value is not None]

    def read_log(self) -> list[GroupRecord]:
        """Every record of the log, from its bytes."""
        records = [decode(key, value) for key, value in self.log]
        return [record for record in records if record is not None]

    def _take(self, command: Command | None, effects: Effects) -> list[Told]:
        if not effects.records:
            return [(command, effects)]
        self.unsettled.append((command, effects))
        return []

    def _store(self, step: Effects) -> None:
        stored = []
        for record in step.records:
            entry = encode_key(record), encode_value(record)
            found = decode(*entry)
            assert found == record, f"{record} comes back from its bytes as {found}"
            self.log.append(entry)
            self.stored.apply(found)
            stored.append(found)
        # As a whole where it is one, and as what its bytes say where the coordinator takes them one by one.
        self.coordinator.replay_all(step.records if isinstance(step.records, CommittedOffsets) else tuple(stored))
