"""Members of a day, each a process of its own: forked from one that has the client libraries loaded, so that thirty of them are cheap."""

import json
import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from trials.incidents.members.program import LOG_FORMATS, MODULES, MemberSettings, serve

ERRORS_MAX: Final = 100
"""An application that goes on while its broker restarts."""
CLOSE_S_MAX: Final = 15
FORKING: Final = multiprocessing.get_context("forkserver")


def preload() -> None:
    """Load the client libraries once."""
    FORKING.set_forkserver_preload(["trials.day.members", *(f"trials.incidents.members.{module}" for module in MODULES.values())])


def run_member(settings_json: str, log_path: str, report_path: str, skew_s: int, commands: Connection) -> None:
    """The member's process: what it says goes to the log, what it owns to the report. It ends with its connection."""
    settings = MemberSettings.from_json(settings_json)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout = open(report_path, "a")  # noqa: SIM115 - it is open as long as the process lives
    logging.Formatter.converter = staticmethod(lambda seconds: time.localtime((time.time() if seconds is None else seconds) + skew_s))
    logging.basicConfig(level=logging.INFO, format=LOG_FORMATS[settings.log_format], stream=sys.stderr)
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read_commands() -> None:
        try:
            while True:
                waiting.put(commands.recv())
        except EOFError:
            os._exit(0)

    threading.Thread(target=read_commands, daemon=True).start()
    serve(settings, waiting, errors_max=ERRORS_MAX)


class Member:
    """A member that is started, closed or killed, and started again under the same name, with the same log."""

    def __init__(self, settings: MemberSettings, directory: Path, *, skew_s: int = 0, is_behind_proxy: bool = False) -> None:
        self.settings = settings
        self.name = settings.name
        self.skew_s = skew_s
        self.is_behind_proxy = is_behind_proxy
        self.is_wanted = False
        """Whether it should run now; an action may have it away."""
        self._log_path = directory / "sources" / "clients" / f"{settings.name}.log"
        self._report_path = directory / "reports" / settings.name
        self._process: multiprocessing.process.BaseProcess | None = None
        self._commands: Connection | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.is_alive()

    @property
    def died_of(self) -> int | None:
        """The signal of which its process has died by itself, as where its library aborts; None where it runs, has ended or was killed."""
        code = None if self._process is None else self._process.exitcode
        return -code if code is not None and code < 0 else None

    def start(self, **changes: Any) -> None:
        """Start it, with settings changed for good."""
        assert not self.is_running, self.name
        self.settings = replace(self.settings, **changes)
        self._report_path.write_text("")
        own, others = FORKING.Pipe()
        arguments = (self.settings.to_json(), str(self._log_path), str(self._report_path), self.skew_s, others)
        self._process = FORKING.Process(target=run_member, args=arguments, daemon=True)
        self._process.start()
        others.close()
        self._commands = own
        self.is_wanted = True

    def assignment(self) -> list[str]:
        """The partitions that it owned last, as TOPIC-NUMBER."""
        for line in reversed(self._reports()):
            if line["event"] == "assignment":
                return list(line["partitions"])
        return []

    def _reports(self) -> Sequence[dict[str, Any]]:
        lines = self._report_path.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def do(self, what: str, **more: Any) -> None:
        """Command something, without waiting for it."""
        assert self._commands is not None
        try:
            self._commands.send({"do": what, **more})
        except OSError:
            return  # it has ended by itself

    def close(self) -> None:
        """Have the consumer closed in order. Raises TimeoutError where that takes too long; it is killed then."""
        self.is_wanted = False
        is_closed = True
        if self.is_running:
            self.do("close")
            assert self._process is not None
            self._process.join(CLOSE_S_MAX)
            is_closed = not self._process.is_alive()
        self.kill()
        if not is_closed:
            raise TimeoutError(f"{self.name} does not close")

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self.is_wanted = False
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
        if self._commands is not None:
            self._commands.close()
            self._commands = None

    def freeze(self) -> None:
        """Stop its process."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let its process go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, number)
