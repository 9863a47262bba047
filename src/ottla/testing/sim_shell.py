"""The shell of one coordinator as tests need it: command, append, replay, reply, with a log in memory and appends that can fail.

It does what the broker's own loop does, and nothing else; it keeps no time.
"""

from collections.abc import Callable

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import AppendFailed, Command, FinishLoading
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.durable import DurableState
from ottla.core.groups.effects import Effects
from ottla.core.groups.records import GroupRecord, decode, encode_key, encode_value

LogEntry = tuple[bytes, bytes | None]


class CoordinatorShell:
    """Runs coordinators made by `make` over one log of encoded records, one coordinator after the other."""

    def __init__(self, make: Callable[[], Coordinator]) -> None:
        self._make = make
        self.log: list[LogEntry] = []
        self.stored = DurableState()
        """What the log says, kept beside the coordinator."""
        self.coordinator = make()
        self.fail_next_append: ErrorCode | None = None

    def run(self, command: Command, now_ms: int) -> Effects:
        """Take one command to its end; the effects are those that came true."""
        return self._carry_out(self.coordinator.handle(command, now_ms=now_ms), now_ms)

    def fire_timers(self, now_ms: int) -> Effects | None:
        """Fire the earliest timer that is due; None when none is."""
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        return self._carry_out(self.coordinator.fire_timers(now_ms=now_ms), now_ms)

    def begin_loading(self) -> None:
        """A fresh coordinator reads the log; it serves nobody yet."""
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

    def _carry_out(self, effects: Effects, now_ms: int) -> Effects:
        if not effects.records:
            return effects
        if self.fail_next_append is not None:
            failed = AppendFailed(effects=effects, error=self.fail_next_append)
            self.fail_next_append = None
            return self.coordinator.handle(failed, now_ms=now_ms)
        for record in effects.records:
            entry = encode_key(record), encode_value(record)
            stored = decode(*entry)
            assert stored == record, f"{record} comes back from its bytes as {stored}"
            self.log.append(entry)
            self.stored.apply(stored)
            self.coordinator.replay(stored)
        return effects
