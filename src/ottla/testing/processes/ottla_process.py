"""Our own broker as a child process (`ottla broker`), with the interface of ApacheKafka: for tests that kill it, and for benchmarks."""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.testing.processes.process import BrokerProcess, ServerProcess

READY_SECONDS_MAX = 30
RUN_COMMAND = (sys.executable, "-c", "from ottla.cli.main import main; main()")
RUN_IN_ORDER_COMMAND = (sys.executable, "-c", "import sys; sys.modules['uvloop'] = None; from ottla.cli.main import main; main()")
"""On asyncio's own loop, which writes a response to its socket at once; uvloop does at the end of an iteration, sockets in any order."""


class StartFailed(Exception):
    """`ottla broker` did not print where it listens; the text holds its output."""


class OttlaProcess(BrokerProcess):
    """One `ottla broker` process with its data in `data_dir`, as a context manager or by `start`, `stop` and `kill`.

    `start` after `stop` or `kill` uses the same data and port. `config` holds Kafka's settings by their names. `command` is what runs
    the command line `ottla`.
    """

    kind = "ottla"

    def __init__(self, data_dir: str | Path, *, config: Mapping[str, str] | None = None, command: Sequence[str] = RUN_COMMAND) -> None:
        super().__init__()
        self._command = tuple(command)
        self.data_dir = Path(data_dir)
        self.log_path = self.data_dir.with_name(self.data_dir.name + ".log")
        self.config = dict(config or {})

    def start(self) -> None:
        """Start the broker and wait until it prints where it listens."""
        assert self._process is None, "already started"
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        settings = [argument for name, value in self.config.items() for argument in ("--config", f"{name}={value}")]
        listen = f"127.0.0.1:{self._port}"
        command = [*self._command, "broker", "--listen", listen, "--data", str(self.data_dir), *settings]
        said_before = self.log_path.stat().st_size if self.log_path.exists() else 0
        process = ServerProcess(command, log_path=self.log_path)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            ended = not process.is_running
            said = self.log_path.read_bytes()[said_before:].decode(errors="replace")
            ready = re.search(r"^bootstrap\.servers=.*:(\d+)\n", said, re.MULTILINE)
            if ready:
                self._process, self._port = process, int(ready.group(1))
                return
            if ended:
                break
            time.sleep(0.005)
        process.kill()
        raise StartFailed(f"`ottla broker` did not start:\n{self.log_path.read_text(errors='replace')[-4000:]}")
