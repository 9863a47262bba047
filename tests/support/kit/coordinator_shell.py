"""The shell of one coordinator for tests: append, replay, reply, with a log in memory and appends that can fail.

It does what the broker's loop does: `run` handles one command after the other, `submit` and `flush` several that share an append.
"""

from collections.abc import Callable

from ottla.coordinator.coordinator import AppendFailed, FinishLoading
from ottla.groups.classic.group import ClassicGroup, find_group
from ottla.groups.commands import Command, GroupEffects
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.log.committed_offsets import CommittedOffsets
from ottla.groups.log.records import GroupRecord, decode, encode_key, encode_value
from ottla.groups.log.replayed_state import ReplayedState
from ottla.protocol.errors import ErrorCode

LogEntry = tuple[bytes, bytes | None]
Completed = tuple[Command | None, GroupEffects]
"""A command, None for a timer, and its effects."""


class CoordinatorShell:
    """Runs coordinators made by `make` over one log of encoded records, one coordinator after the other."""

    def __init__(self, make: Callable[[], GroupCoordinator]) -> None:
        self._make = make
        self.log: list[LogEntry] = []
        self.stored = ReplayedState()
        """The state of the log, maintained independently of the coordinator's."""
        self.coordinator = make()
        self.fail_next_append: ErrorCode | None = None
        self.time_of_day_offset_ms = 0
        """How far the time of day is ahead of the timers' clock."""
        self.pending: list[Completed] = []
        """Handled commands whose effects share the next append."""

    def run(self, command: Command, now_ms: int) -> GroupEffects:
        """Handle one command and append; returns the effects after a failed append, too."""
        assert not self.pending, "pending effects must be flushed first"
        return [*self.submit(command, now_ms), *self.flush(now_ms)][0][1]

    def submit(self, command: Command, now_ms: int) -> list[Completed]:
        """Handle a command; returns what this completed: pending effects that it depends on, and its own if they have no records."""
        completed = self.flush(now_ms) if self.coordinator.depends_on_pending(command) else []
        return completed + self._take(command, self._handle(command, now_ms))

    def flush(self, now_ms: int) -> list[Completed]:
        """Append the pending effects; returns them, or those of the failure, in order."""
        steps, self.pending = self.pending, []
        if not steps:
            return []
        error, self.fail_next_append = self.fail_next_append, None
        if error is not None:
            failed = [(command, AppendFailed(effects=step, error=error)) for command, step in steps]
            return [(command, self._handle(failure, now_ms)) for command, failure in failed]
        for _, step in steps:
            self._store(step)
        return steps

    def fire_timers(self, now_ms: int) -> GroupEffects | None:
        """Fire the earliest timer that is due; None when none is."""
        assert not self.pending, "a timer must not fire before the pending effects are flushed"
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        return [
            *self._take(None, self.coordinator.fire_timers(now_ms=now_ms + self.time_of_day_offset_ms, timer_ms=now_ms)),
            *self.flush(now_ms),
        ][0][1]

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        """The coordinator's classic groups."""
        state = self.coordinator.state
        return {group_id: group for group_id in state.groups if (group := find_group(state, group_id)) is not None}

    def _handle(self, command: Command, timer_ms: int) -> GroupEffects:
        return self.coordinator.handle(command, now_ms=timer_ms + self.time_of_day_offset_ms, timer_ms=timer_ms)

    def begin_loading(self) -> None:
        """Replace the coordinator by a new one that has replayed the log and is still loading. Pending effects are lost."""
        self.pending.clear()
        self.coordinator = self._make()
        for record in self.read_log():
            self.coordinator.replay(record)

    def restart(self, now_ms: int) -> GroupEffects:
        """Replace the coordinator by a new one, loaded from the log."""
        self.begin_loading()
        return self.run(FinishLoading(), now_ms)

    def compact(self, *, keep_tombstones: bool) -> None:
        """Compact the log: the last record of each key stays, in its place."""
        last: dict[bytes, bytes | None] = {}
        for key, value in self.log:
            last.pop(key, None)
            last[key] = value
        self.log = [(key, value) for key, value in last.items() if keep_tombstones or value is not None]

    def read_log(self) -> list[GroupRecord]:
        """Every record of the log, from its bytes."""
        records = [decode(key, value) for key, value in self.log]
        return [record for record in records if record is not None]

    def _take(self, command: Command | None, effects: GroupEffects) -> list[Completed]:
        if not effects.records:
            return [(command, effects)]
        self.pending.append((command, effects))
        return []

    def _store(self, step: GroupEffects) -> None:
        stored = []
        for record in step.records:
            entry = encode_key(record), encode_value(record)
            found = decode(*entry)
            assert found == record, f"{record} is decoded as {found}"
            self.log.append(entry)
            self.stored.apply(found)
            stored.append(found)
        # A commit as a whole, other records as they were decoded.
        self.coordinator.replay_all(step.records if isinstance(step.records, CommittedOffsets) else tuple(stored))
