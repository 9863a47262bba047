"""Apache Kafka's command-line tools in one JVM that stays for many command lines: to start one for each would take most of their time.

The other side is tests/java/KafkaTools.java.
"""

import base64
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

LOG4J_YAML = """\
Configuration:
  status: warn
  Appenders: {Console: {name: console, target: SYSTEM_ERR, follow: true, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}}
  Loggers: {Root: {level: WARN, AppenderRef: {ref: console}}}
"""
"""Log lines on standard error, as the tools' own configuration has them."""


class Printed(NamedTuple):
    """What one run of a tool printed."""

    status: int
    out: str
    err: str


class KafkaTools:
    """A JVM that runs tools one after the other; `command` starts it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, tool: str, *arguments: str) -> Printed:
        """What a tool, named by its class, prints. An argument has no tab and no line end."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join((tool, *arguments)) + "\n")
        stdin.flush()
        status, out, err = (base64.b64decode(stdout.readline()).decode() for _ in range(3))
        return Printed(int(status), out, err)

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.communicate()
