"""A log directory of Apache Kafka as its StorageTool formatted it, for the next nodes: they need no JVM that formats theirs.

Programs that start many nodes make one of these for all of them. All have its cluster id and directory id, so they are never to meet; and
its controller's port, which the directory names: one of them runs at a time, another one is formatted as usual.
"""

import shutil
import socket
from pathlib import Path


class FormattedDirectory:
    """A copy of the first log directory that was formatted, in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._controller_port: int | None = None

    def free_controller_port(self) -> int | None:
        """The controller's port of the copy; None where there is none yet, or another process has the port now."""
        if self._controller_port is None:
            return None
        try:
            socket.create_server(("127.0.0.1", self._controller_port)).close()
        except OSError:
            return None
        return self._controller_port

    def keep(self, log_dir: Path, controller_port: int) -> None:
        """Copy a directory that was formatted just now, unless there is a copy."""
        if self._controller_port is None:
            shutil.copytree(log_dir, self._directory)
            self._controller_port = controller_port

    def copy_to(self, log_dir: Path) -> None:
        """Make a log directory of it."""
        shutil.copytree(self._directory, log_dir, dirs_exist_ok=True)
