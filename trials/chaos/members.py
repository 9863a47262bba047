"""The consumers of a chaos run as processes: they are started, stopped, killed, frozen, and lose their connections."""

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.testing.chaos.oracle import JournalRead, read_journal
from ottla.testing.chaos.worker import SESSION_MS, Job
from ottla.testing.processes.process import ServerProcess

FREEZE_S = (0.5, SESSION_MS / 1000 + 3)


class Consumer(NamedTuple):
    """One worker: its process, its journal, and the library that it uses."""

    process: ServerProcess
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
        journal = self._directory / f"journal-{number}"
        job = self._job._replace(library=library, servers=self._servers(), journal=str(journal))
        command = [sys.executable, "-m", "ottla.testing.chaos.worker", *job]
        consumer = Consumer(ServerProcess(command, log_path=self._directory / f"log-{number}"), journal, library)
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
        begun = [each for each in self.running if each.journal.exists()]
        if begun:
            self._rng.choice(begun).process.send_signal("USR1")

    def freeze(self, now_s: float) -> None:
        """Stop one of them for some seconds, with its connections open."""
        consumer = self._take()
        consumer.process.send_signal("STOP")
        self._frozen.append((now_s + self._rng.uniform(*FREEZE_S), consumer))

    def thaw(self, now_s: float) -> None:
        """Let those go on whose time is over."""
        for until_s, consumer in self._frozen:
            if now_s >= until_s:
                consumer.process.send_signal("CONT")
        self._frozen = [each for each in self._frozen if now_s < each[0]]

    def close(self) -> None:
        """End every consumer, frozen ones too."""
        for consumer in self.running:
            consumer.process.send_signal("CONT")
        for consumer in self.running:
            consumer.process.send_signal("TERM")
        for consumer in self.running:
            consumer.process.stop(seconds_max=20)
        self.running.clear()

    def journals(self) -> list[JournalRead]:
        """What every consumer did, including those that were stopped or killed."""
        return [read_journal(consumer.journal) for consumer in self.started]

    def _take(self) -> Consumer:
        frozen = [consumer for _, consumer in self._frozen]
        return self._rng.choice([each for each in self.running if each not in frozen] or self.running)

    def _end(self, signal: str) -> None:
        consumer = self._take()
        consumer.process.send_signal(signal)
        self.running.remove(consumer)
        self._frozen = [each for each in self._frozen if each[1] is not consumer]
