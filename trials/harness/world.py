"""What a trial happens to: a broker of either kind, and programs that are frozen, killed and started again with all that they started."""

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from ottla.cli.processes import BrokerProcess, OttlaProcess, ServerProcess
from tests.support.processes import kill_tree, process_tree
from tests.support.reference.apache_kafka import QUICK_JVM_OPTIONS, VERSION, ApacheKafka

BROKERS: Final = (OttlaProcess.kind, ApacheKafka.kind)
CACHE: Final = Path(".cache")
"""Where the jars of Apache Kafka are."""


def add_broker_option(parser: argparse.ArgumentParser, default: str = OttlaProcess.kind) -> None:
    """Add `--broker` to the options of a trial."""
    parser.add_argument("--broker", choices=BROKERS, default=default, help=f"(default: {default})")


def make_broker(kind: str, directory: Path, config: Mapping[str, str] | None = None) -> BrokerProcess:
    """A broker of this kind with its data in a new folder of `directory`; not started."""
    if kind == OttlaProcess.kind:
        return OttlaProcess(directory / "data", config=config)
    cache = CACHE / f"apache-kafka-{VERSION}"
    return ApacheKafka(directory / "kafka", cache_dir=cache, config=config or {}, jvm_options=QUICK_JVM_OPTIONS)


class Program:
    """One program. `directory` is what it works in, and holds its log; it is made."""

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.log = directory / "program.log"
        self._command = list(command)
        self._process: ServerProcess | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has neither ended nor been killed."""
        return self._process is not None and self._process.is_running

    def start(self) -> None:
        """Start it; it continues where its directory says."""
        assert self._process is None, "already started"
        self._process = ServerProcess(self._command, log_path=self.log)

    def tree(self) -> list[psutil.Process]:
        """Its process and all that it has started; empty when it does not run."""
        return process_tree(self._process.pid) if self._process is not None else []

    def kill(self) -> None:
        """Kill the program and all that it has started, such as Java and Spark's workers, so that none finishes its work; if it runs."""
        if self._process is not None:
            kill_tree(self._process.pid)
            self._process.kill()
            self._process = None

    def stop(self, *, seconds_max: float = 30) -> None:
        """Let it end by itself (SIGTERM); it is killed where it does not."""
        if self._process is not None:
            self._process.stop(seconds_max=seconds_max)
            self._process = None

    def send_signal(self, name: str) -> None:
        """Send a signal by its name without SIG, and do not wait for what it does."""
        assert self._process is not None, "not running"
        self._process.send_signal(name)

    def freeze(self) -> None:
        """Stop the program and all that it has started, as a machine does that is suspended; `thaw` lets them continue."""
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        """Let what was frozen continue."""
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def said(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""
