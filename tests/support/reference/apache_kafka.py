"""Apache Kafka itself as a child process: one KRaft node (broker and controller) with which tests and benchmarks compare our broker.

Its jars come from Maven into a cache folder, once. It decides only how to start Kafka, when it is ready and how it ends; every
setting that is not needed for a single node stays Kafka's own, except that groups do not wait before their first rebalance.
"""

import base64
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.cli.processes import QUICK_START_OPTIONS, BrokerProcess, ServerProcess, find_java
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient
from tests.support.processes import free_ports
from tests.support.reference.maven import fetch_jars, report_progress


class FormattedDirectory:
    """A log directory as Kafka's StorageTool formatted it first, kept in `directory`: the next nodes need no JVM that formats theirs.

    All nodes have its cluster id and directory id, so they are never to meet; and its controller's port, which the directory names: one of
    them runs at a time, another one is formatted as usual.
    """

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


VERSION = "4.3.0"
ARTIFACTS = (
    f"org.apache.kafka:kafka_2.13:{VERSION}",
    f"org.apache.kafka:kafka-tools:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",  # without it the broker runs but logs nothing
)
READY_SECONDS_MAX = 60
START_ATTEMPTS_MAX = 5

KAFKAS_OWN_JVM_OPTIONS = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC")
QUICK_JVM_OPTIONS = ("-Xmx512m", *QUICK_START_OPTIONS)

SINGLE_NODE_CONFIG = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed node can register again only when its last registration has expired: with Kafka's own 9 s a restart takes 12 s.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

KEEP_OLD_RECORDS = {"log.retention.check.interval.ms": str(24 * 3_600_000)}
"""For brokers that tests share: the check of the retention time would delete the records of 1970 that some tests write."""

LOG4J_YAML = """\
Configuration:
  status: warn
  Appenders:
    File:
      name: file
      fileName: "{path}"
      PatternLayout:
        pattern: "[%d] %p %m (%c)%n"
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        ref: file
"""


class StartFailed(Exception):
    """Apache Kafka did not start; the text ends with its last lines."""


class ApacheKafka(BrokerProcess):
    """One Apache Kafka node with its data in `data_dir`, as a context manager or by `start` and `stop`.

    A second object on the same `data_dir`, or `start` after `stop` or `kill`, uses the same data and port. `config`
    holds Kafka's own settings and overrides SINGLE_NODE_CONFIG; a data directory keeps the settings that it was made with. Making one
    raises ToolMissing where Maven or Java 17+ is missing (its text is a reason to skip), `start` raises StartFailed where Kafka ends
    or does not serve clients in time. `log_dir` may be a directory that another broker left: it is opened as it is, and never formatted.
    `archive_options` (`class_archives.archive_options`) are for every JVM that runs with Kafka's jars.
    `more_listeners` maps names to security protocols; where they listen is in `addresses` ("host:port" by name) after the first start.
    `formatted` is shared by nodes that never meet: only the first of them runs the tool that formats.

    In `data_dir`: `server.properties`, `kafka.log` (Kafka's own log lines), `console.log`, `logs/` (Kafka's log.dirs).
    """

    kind = "apache-kafka"

    def __init__(
        self,
        data_dir: str | Path,
        *,
        cache_dir: str | Path,
        config: Mapping[str, str] | None = None,
        log_dir: str | Path | None = None,
        jvm_options: Sequence[str] = KAFKAS_OWN_JVM_OPTIONS,
        archive_options: Sequence[str] = (),
        report: Callable[[str], None] = report_progress,
        more_listeners: Mapping[str, str] | None = None,
        formatted: FormattedDirectory | None = None,
    ) -> None:
        super().__init__()
        self._formatted = formatted
        self._more_listeners = dict(more_listeners or {})
        self.addresses: dict[str, str] = {}
        self.data_dir = Path(data_dir)
        self.log_path = self.data_dir / "kafka.log"
        self.log_dir = Path(log_dir) if log_dir else self.data_dir / "logs"
        self.config = SINGLE_NODE_CONFIG | dict(config or {})
        self._jvm_options = list(jvm_options)
        self._archive_options = list(archive_options)
        self._java = find_java()
        self.jars = fetch_jars(ARTIFACTS, Path(cache_dir), what=f"Apache Kafka {VERSION}", report=report)
        self.class_path = str(Path(cache_dir).resolve() / "*")

    def start(self) -> None:
        """Format the data directory if it is new, start, and wait until clients are served."""
        assert self._process is None, "already started"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            kept = self._kept_port()
            if kept is None:
                self._prepare()
            else:
                self._port = kept
            output = self._run_until_ready()
            if output is None:
                return
            if kept is None:
                (self.data_dir / "server.properties").unlink()  # another process may have taken a port in between: choose others
            if "Address already in use" not in output or attempt == START_ATTEMPTS_MAX:
                raise StartFailed(f"Apache Kafka {VERSION} did not start:\n{_summary(output)}")
            time.sleep(0.2)

    def java_command(self, *arguments: str) -> list[str]:
        """The command line that runs a class (or a single source file) with Kafka's jars, for tools and Java clients."""
        return [str(self._java), *self._archive_options, "-cp", self.class_path, *arguments]

    def _kept_port(self) -> int | None:
        """The port of an earlier start on this data directory; None when there was none that got as far as its data."""
        properties = self.data_dir / "server.properties"
        if not properties.exists():
            return None
        listener = re.search(r"^listeners=PLAINTEXT://127\.0\.0\.1:(\d+)", properties.read_text(), re.MULTILINE)
        assert listener is not None
        return int(listener.group(1))

    def _prepare(self) -> None:
        """Choose free ports, write the configuration, format the log directory if it is new."""
        self._port, free_port, *more_ports = free_ports(2 + len(self._more_listeners))
        is_new = not (self.log_dir / "meta.properties").exists()
        kept_port = self._formatted.free_controller_port() if is_new and self._formatted else None
        controller_port = kept_port or free_port
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(self._more_listeners, more_ports, strict=True)}
        more = "".join(f",{name}://{address}" for name, address in self.addresses.items())
        listeners = f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller_port}{more}"
        protocols = "".join(f",{name}:{protocol}" for name, protocol in self._more_listeners.items())
        settings = self.config | {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": self.config["listener.security.protocol.map"] + protocols,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "log.dirs": str(self.log_dir.resolve()),
        }
        (self.data_dir / "log4j2.yaml").write_text(LOG4J_YAML.format(path=self.log_path.resolve()))
        properties = self.data_dir / "server.properties"
        drafted = self.data_dir / "server.properties.draft"
        drafted.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if kept_port and self._formatted:
            self._formatted.copy_to(self.log_dir)
        elif is_new:
            self._format(drafted)
            if self._formatted:
                self._formatted.keep(self.log_dir, controller_port)
        drafted.rename(properties)

    def _format(self, settings: Path) -> None:
        # 16 bytes as base64; the fixed first one keeps it from beginning with "-", which would be taken for an option.
        cluster_id = base64.urlsafe_b64encode(b"k" + os.urandom(15)).decode().rstrip("=")
        formatting = ["kafka.tools.StorageTool", "format", "--standalone", "--ignore-formatted", "-t", cluster_id, "-c"]
        ran = subprocess.run(
            self.java_command(*QUICK_JVM_OPTIONS, self._log4j_option(), *formatting, str(settings)),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=READY_SECONDS_MAX,
            check=False,
        )
        if ran.returncode:
            raise StartFailed(f"Apache Kafka {VERSION} could not format {self.log_dir}:\n{ran.stdout}{ran.stderr}")

    def _log4j_option(self) -> str:
        return f"-Dlog4j2.configurationFile={self.data_dir.resolve() / 'log4j2.yaml'}"

    def _run_until_ready(self) -> str | None:
        """Start the JVM; None once it serves clients, else all that it said."""
        properties = str(self.data_dir / "server.properties")
        command = self.java_command(*self._jvm_options, self._log4j_option(), "kafka.Kafka", properties)
        console = self.data_dir / "console.log"
        sizes = {path: path.stat().st_size if path.exists() else 0 for path in (self.log_path, console)}
        process = ServerProcess(command, log_path=console)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline and process.is_running:
            if answers(self.bootstrap_servers):
                self._process = process
                return None
            time.sleep(0.05)
        process.kill()
        return "\n".join(_text_from(path, size) for path, size in sizes.items())


def answers(bootstrap_servers: str) -> bool:
    """Whether a broker serves clients there: ApiVersions answers and Metadata names a broker."""
    try:
        with RawClient(bootstrap_servers, timeout_seconds=5) as client:
            client.call(ApiKey.API_VERSIONS, 0)
            return len(client.call(ApiKey.METADATA, 1, topics=[]).brokers) > 0
    except (OSError, Disconnected):
        return False


def _text_from(path: Path, position: int) -> str:
    return path.read_bytes()[position:].decode(errors="replace") if path.exists() else ""


def _summary(output: str) -> str:
    """Its errors and its last lines: Kafka stops in order after an error, with hundreds of lines."""
    lines = output.splitlines()
    errors = [line for line in lines if re.search(r"\] (ERROR|FATAL) |^Caused by: |^[\w.$]+(Exception|Error): ", line)]
    return "\n".join([*errors[:20], "...", *lines[-20:]])


TOOLS_LOG4J_YAML = """\
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
