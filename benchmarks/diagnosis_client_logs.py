"""How fast the logs of clients become evidence: CPU seconds for 84 MB of them, in the page cache, by one process.

Two kinds of logs, each repeated until it has 84 MB. Those of the recorded days (`tests/data/days`): members of four client libraries that
fail, start again and lose their broker, at the level INFO. And those of half a minute at the level DEBUG, which this script records: a
group of one member of each library, a heartbeat a second, and a fifth member that starts again every five seconds. All evidence is taken;
nothing is concluded from it.
"""

import asyncio
import logging
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from peers import CACHE, HERE, OTTLA, arguments, make_peer, make_topic
from report import Metric, Report, at_most

from ottla.cli.processes import ToolMissing
from ottla.history.sources.log_files import LogFiles
from tests.support.reference.apache_kafka import ApacheKafka

TOTAL_BYTES, TOTAL_BYTES_SMALL = 84_000_000, 1_000_000
SECONDS, SECONDS_SMALL = 30, 5
RESTART_S: Final = 5
DAYS: Final = HERE.parent / "tests" / "data" / "days"
TOPIC: Final = "orders"
CONFLUENT, KAFKA_PYTHON, AIOKAFKA, JAVA = "confluent-kafka", "kafka-python", "aiokafka", "java"
LOG4J: Final = """\
Configuration:
  Appenders: {Console: {name: console, target: SYSTEM_ERR, PatternLayout: {pattern: "[%d{yyyy-MM-dd HH:mm:ss,SSS}] %p %m (%c)%n"}}}
  Loggers: {Root: {level: DEBUG, AppenderRef: {ref: console}}}
"""


def settings(servers: str, client_id: str) -> dict[str, str]:
    timeouts = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
    return {"bootstrap.servers": servers, "group.id": TOPIC, "client.id": client_id} | timeouts


def run_member(library: str, servers: str, seconds: float) -> None:
    """One member of a Python library in this process, which logs to stderr."""
    logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    until, wanted = time.monotonic() + seconds, settings(servers, library)
    underscored: dict[str, Any] = {name.replace(".", "_"): int(value) if value.isdecimal() else value for name, value in wanted.items()}
    if library == CONFLUENT:
        from confluent_kafka import Consumer

        member = Consumer(wanted | {"debug": "cgrp", "partition.assignment.strategy": "range"})
        member.subscribe([TOPIC])
        while time.monotonic() < until:
            member.consume(100, 0.1)
        member.close()
    elif library == KAFKA_PYTHON:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(TOPIC, **underscored)
        while time.monotonic() < until:
            consumer.poll(100)
        consumer.close()
    else:
        asyncio.run(_run_aiokafka(underscored, until))


async def _run_aiokafka(wanted: dict[str, Any], until: float) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(TOPIC, **wanted)
    await consumer.start()
    while time.monotonic() < until:
        await consumer.getmany(timeout_ms=100)
    await consumer.stop()


def java_command(servers: str, directory: Path) -> list[str] | None:
    """Apache Kafka's own consumer; None where there is no Java."""
    try:
        reference = ApacheKafka(directory / JAVA, cache_dir=CACHE)
    except ToolMissing as missing:
        print(f"{JAVA}: left out, {missing}", file=sys.stderr)
        return None
    layout = directory / "log4j2.yaml"
    layout.write_text(LOG4J)
    command = reference.java_command("-Xmx256m", f"-Dlog4j2.configurationFile={layout}", "org.apache.kafka.tools.consumer.ConsoleConsumer")
    for name, value in settings(servers, JAVA).items():
        command += ["--command-property", f"{name}={value}"]
    return [*command, "--topic", TOPIC, "--bootstrap-server", servers]


def record_debug_logs(logs: Path, scratch: Path, seconds: float) -> None:
    """The logs of a group's members, one file each."""
    logs.mkdir()
    broker = make_peer(OTTLA, scratch / OTTLA)
    broker.start()
    environment = dict(os.environ) | {"PYTHONPATH": str(HERE.parent)}

    def start(name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (logs / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=environment)

    with ExitStack() as stack:
        stack.callback(broker.stop)
        make_topic(broker, TOPIC, 12)
        program = [sys.executable, __file__, "--member"]
        commands = {each: [*program, each, broker.bootstrap_servers, str(seconds)] for each in (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)}
        java = java_command(broker.bootstrap_servers, scratch)
        end = time.monotonic() + seconds
        for name, command in (commands | ({JAVA: java} if java else {})).items():
            process = start(name, command)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        while time.monotonic() < end:
            start(KAFKA_PYTHON, [*program, KAFKA_PYTHON, broker.bootstrap_servers, str(RESTART_S)]).wait()


def unpack_days(logs: Path) -> None:
    """The logs of the members of the recorded days."""
    for day in DAYS.glob("*/sources.tar.xz"):
        with tarfile.open(day) as archive:
            clients = [each for each in archive if "clients/" in each.name]
            archive.extractall(logs / day.parent.name, clients, filter="data")


def enlarge(logs: Path, size: int) -> None:
    """Repeat what is in the logs, so that those of each library (or day) have the same part of this size."""
    kinds = [list(each.rglob("*.log")) if each.is_dir() else [each] for each in logs.iterdir() if each.stat().st_size]
    for paths in kinds:
        _repeat(paths, size / len(kinds) / sum(path.stat().st_size for path in paths))


def _repeat(paths: list[Path], times: float) -> None:
    for path in paths:
        text = path.read_bytes()
        rest = text[: int(len(text) * (times % 1))]
        path.write_bytes(text * int(times) + rest[: rest.rfind(b"\n") + 1])


def measure(logs: Path) -> tuple[float, str]:
    """CPU seconds, and what was read."""
    files = LogFiles(zone=UTC)
    files.add_client_logs(str(logs / "**" / "*.log"))
    started = time.process_time()
    count = sum(1 for _ in files.evidence())
    used = time.process_time() - started
    counts = list(files.counts.values())
    assert count == sum(each.evidence for each in counts) > 0
    assert not files.problems
    lines, understood = sum(each.lines for each in counts), sum(each.understood for each in counts)
    return used, f"{files.size_bytes / 1e6:.0f} MB, {lines:,} lines, {understood:,} of them understood"


def main() -> None:
    if sys.argv[1:2] == ["--member"]:
        run_member(sys.argv[2], sys.argv[3], float(sys.argv[4]))
        return
    wanted = arguments(__doc__)
    report = Report("Logs of clients")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch:
        days, debug = Path(scratch) / "days", Path(scratch) / "debug"
        unpack_days(days)
        record_debug_logs(debug, Path(scratch), SECONDS_SMALL if wanted.small else SECONDS)
        for logs in (days, debug):
            enlarge(logs, TOTAL_BYTES_SMALL if wanted.small else TOTAL_BYTES)
        kinds = {Metric(name, "s of CPU", "<= 3", at_most(3)): logs for name, logs in (("recorded days, INFO", days), ("DEBUG", debug))}
        for _ in range(wanted.rounds):
            for metric, logs in kinds.items():
                seconds, what = measure(logs)
                report.add(metric, OTTLA, seconds)
                report.note(f"{metric.name}: {what}")
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
