"""The consumers of a chaos run as processes: they are started, stopped, killed, frozen, and lose their connections."""

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from trials.chaos.worker import SESSION_MS, Job
from trials.harness.oracle import Row
from trials.harness.world import Program

FREEZE_S = (0.5, SESSION_MS / 1000 + 3)


class JournalRead(NamedTuple):
    """What one consumer did: the records that it processed in order, with their values, and its errors.

    `misplaced`: records that came at another offset than after the last one, or than the committed one after an assignment.
    """

    processed: list[Row]
    trouble: list[str]
    misplaced: tuple[str, ...] = ()


def read_journal(path: Path) -> JournalRead:
    """A worker's journal. A torn last line, from a worker that was killed, does not count."""
    processed, trouble, misplaced = [], [], []
    text = path.read_text() if path.exists() else ""
    for line in text[: text.rfind("\n") + 1].splitlines():
        if line.startswith("!"):
            trouble.append(line[2:])
        elif line.startswith("?"):
            misplaced.append(line[2:])
        else:
            partition, offset, value = line.split(" ", 2)
            processed.append((int(partition), int(offset), value))
    return JournalRead(processed, trouble, tuple(misplaced))


class Consumer(NamedTuple):
    """One worker: its program, its journal, and the library that it uses."""

    program: Program
    journal: Path
    library: str


class Members:
    """Consumers of one group, of each of `libraries` in turn. `servers` gives the brokers' addresses now."""

    def __init__(
        self,
        *,
        rng: random.Random,
        directory: Path,
        libraries: Sequence[str],
        servers: Callable[[], str],
        group: str,
        topic: str,
        assignor: str,
    ) -> None:
        self.running: list[Consumer] = []
        self.started: list[Consumer] = []
        self._rng = rng
        self._directory = directory
        self._libraries = libraries
        self._servers = servers
        self._job = Job("", "", group, topic, assignor, "")
        self._frozen: list[tuple[float, Consumer]] = []

    def start(self) -> None:
        """Start one more."""
        number = len(self.started)
        library = self._libraries[number % len(self._libraries)]
        directory = self._directory / f"{number}-{library}"
        journal = directory / "journal"
        job = self._job._replace(library=library, servers=self._servers(), journal=str(journal))
        consumer = Consumer(Program(directory, [sys.executable, "-m", "trials.chaos.worker", *job]), journal, library)
        consumer.program.start()
        self.running.append(consumer)
        self.started.append(consumer)

    def leave(self) -> None:
        """Let one of them end in order."""
        self._end("TERM")

    def die(self) -> None:
        """Kill one of them."""
        self._end("KILL")

    def cut(self) -> None:
        """Break the connections of one of them that has begun: before, the signal would end it."""
        begun = [consumer for consumer in self.running if consumer.journal.exists()]
        if begun:
            self._rng.choice(begun).program.send_signal("USR1")

    def freeze(self, now_s: float) -> None:
        """Stop one of them for some seconds, with its connections open."""
        consumer = self._take()
        consumer.program.freeze()
        self._frozen.append((now_s + self._rng.uniform(*FREEZE_S), consumer))

    def thaw(self, now_s: float) -> None:
        """Let those go on whose time is over."""
        for until_s, consumer in self._frozen:
            if now_s >= until_s:
                consumer.program.thaw()
        self._frozen = [(until_s, consumer) for until_s, consumer in self._frozen if now_s < until_s]

    def close(self) -> None:
        """End every consumer, frozen ones too."""
        for consumer in self.running:
            consumer.program.thaw()
        for consumer in self.running:
            consumer.program.send_signal("TERM")
        for consumer in self.running:
            consumer.program.stop(seconds_max=20)
        self.running.clear()

    def journals(self) -> list[JournalRead]:
        """What every consumer did, including those that were stopped or killed."""
        return [read_journal(consumer.journal) for consumer in self.started]

    def processed(self) -> set[Row]:
        """Every record that some consumer processed."""
        return {row for journal in self.journals() for row in journal.processed}

    def _take(self) -> Consumer:
        frozen = [consumer for _, consumer in self._frozen]
        return self._rng.choice([consumer for consumer in self.running if consumer not in frozen] or self.running)

    def _end(self, signal: str) -> None:
        consumer = self._take()
        consumer.program.send_signal(signal)
        self.running.remove(consumer)
        self._frozen = [(until_s, frozen) for until_s, frozen in self._frozen if frozen is not consumer]
