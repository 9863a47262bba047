"""What happened in a simulated run: a hash that is equal for equal runs, and lines for a reader."""

from collections.abc import Callable
from hashlib import blake2b

from ottla.core.groups.commands import Command
from ottla.core.groups.effects import Effects
from ottla.testing.scenarios.effects import render_effects
from ottla.testing.simulation.event_queue import EventQueue


class Trace:
    """What happened, as a hash, and as lines for `report` if there is one. `causes`: every published trigger cause."""

    def __init__(self, events: EventQueue, report: Callable[[str], None] | None) -> None:
        self.causes: set[str] = set()
        self._events = events
        self._report = report
        self._hash = blake2b(digest_size=16)

    def add(self, effects: Effects, command: Command | None) -> None:
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
