"""Kafka Connect with exactly-once sources (KIP-618): two workers, of which one is killed and one is frozen until it is a zombie.

A connector copies the lines of a file that grows. Every line must be there once and in its order for readers of committed records, and
no other. Needs Java and Maven, which fetches Connect's jars once.
"""

import argparse
import contextlib
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from ottla.cli.processes import QUICK_START_OPTIONS, find_java
from ottla.testing.waiting import wait_until
from tests.support.processes import free_ports
from tests.support.reference.apache_kafka import TOOLS_LOG4J_YAML, VERSION
from tests.support.reference.maven import fetch_jars
from trials.harness.runs import Outcome, Results
from trials.harness.world import CACHE, Program, add_broker_option, make_broker

NAME = "connect"
ARTIFACTS: Final = (
    f"org.apache.kafka:connect-runtime:{VERSION}",
    f"org.apache.kafka:connect-file:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
CONFIG: Final = {"group.initial.rebalance.delay.ms": "0"}
CONNECTOR: Final = "lines"
STEP: Final = 400
"""Lines between two accidents."""
SECONDS_MAX: Final = 90
SESSION_MS: Final = 6_000
WORKER: Final = f"""\
group.id=connect
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=3
status.storage.partitions=2
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
exactly.once.source.support=enabled
plugin.discovery=service_load
scheduled.rebalance.max.delay.ms=1000
session.timeout.ms={SESSION_MS}
heartbeat.interval.ms=1000
"""


class World:
    """A broker's workers, and the file that they copy."""

    def __init__(self, class_path: str, directory: Path, servers: str) -> None:
        self.file = directory / "lines.txt"
        self.file.touch()
        self.written = 0
        self.read: list[str] = []
        self._class_path, self._directory = class_path, directory
        self.workers: list[Program] = []
        self._servers = servers
        self._reader = Consumer({"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed", "log_level": 0})

    def start_worker(self) -> str:
        """Start one more; where its REST interface is."""
        (port,) = free_ports(1)
        directory = self._directory / f"worker-{len(self.workers)}"
        properties, log4j = directory.with_suffix(".properties"), directory.with_suffix(".yaml")
        properties.write_text(f"bootstrap.servers={self._servers}\nlisteners=http://127.0.0.1:{port}\n{WORKER}")
        log4j.write_text(TOOLS_LOG4J_YAML)
        options = ["-Xmx256m", *QUICK_START_OPTIONS, f"-Dlog4j2.configurationFile={log4j}", "-cp", self._class_path]
        command = [str(find_java()), *options, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
        self.workers.append(Program(directory, command))
        self.workers[-1].start()
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: ask(f"{url}/connectors") is not None, lambda: f"worker: {self.said()}", seconds=SECONDS_MAX)
        return url

    def write(self, lines: int) -> None:
        """Add lines to the file, the numbers from 0 up."""
        with self.file.open("a") as file:
            file.write("".join(f"{number}\n" for number in range(self.written, self.written + lines)))
        self.written += lines

    def wait_for(self, lines: int) -> None:
        """Wait until so many are committed. The connector keeps the last lines of a file that does not grow, so it grows."""
        if not self.read:
            self._reader.assign([TopicPartition(CONNECTOR, 0, 0)])

        def poll() -> None:
            self.write(1)
            message = self._reader.poll(0.05)
            while message is not None:
                if message.error() is None:
                    self.read.append((message.value() or b"").decode())
                message = self._reader.poll(0)

        wait_until(lambda: len(self.read) >= lines, lambda: f"{lines} lines: {len(self.read)}; {self.said()}", poll, seconds=SECONDS_MAX)

    def said(self) -> str:
        """The last lines of all workers."""
        return "\n".join(worker.log.read_text()[-1500:] for worker in self.workers)

    def close(self) -> None:
        self._reader.close()
        for worker in self.workers:
            worker.thaw()
            worker.kill()


def ask(url: str, body: Any = None) -> Any:
    """What a worker answers to a GET, or to a POST of `body`; None while it does not."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())
    return None


def scenario(class_path: str, kind: str, directory: Path) -> Outcome:
    with make_broker(kind, directory, CONFIG) as broker:
        world = World(class_path, directory, broker.bootstrap_servers)
        try:
            url = world.start_worker()
            connector = {
                "connector.class": "FileStreamSource",
                "file": str(world.file),
                "topic": CONNECTOR,
                "exactly.once.support": "required",
                "batch.size": "20",
            }
            created = {"name": CONNECTOR, "config": connector}
            wait_until(lambda: ask(f"{url}/connectors", created) is not None, lambda: f"a connector: {world.said()}", seconds=SECONDS_MAX)
            world.write(STEP)
            world.wait_for(STEP)
            world.write(STEP)
            world.workers[0].kill()
            world.start_worker()
            world.wait_for(2 * STEP)
            world.write(STEP)
            world.workers[1].freeze()
            world.start_worker()
            world.wait_for(3 * STEP)
            world.workers[1].thaw()
            world.write(STEP)
            world.wait_for(4 * STEP)
        finally:
            world.close()
    wrong = [] if world.read == [str(number) for number in range(len(world.read))] else [f"not each line once and in order: {world.read}"]
    return Outcome(wrong, f"{len(world.read)} lines, a worker killed, a worker frozen")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The broker."""
    add_broker_option(parser)


def run(options: argparse.Namespace, results: Results) -> None:
    """One run."""
    directory = CACHE / f"kafka-connect-{VERSION}"
    fetch_jars(ARTIFACTS, directory, what="Kafka Connect")
    class_path = str(directory.resolve() / "*")
    results.run_one(options.broker, lambda directory: scenario(class_path, options.broker, directory))
