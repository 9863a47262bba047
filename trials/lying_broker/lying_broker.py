"""A broker that answers wrongly in two hundred ways, to both consumers and to Spark's source: no crash, no hot loop, no record skipped.

Each lie is told from the first request on, for a while; then the broker is honest, and every record has to come. What must hold: the client
raises no error but its documented ones, sends few requests while it is lied to, takes little memory, skips no record, commits none that it
has not handed out, and closes soon. A lie that a client cannot see through (`is_credible`) may cost records.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.broker import Broker
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from tests.support.processes import free_ports
from trials.attacks.catalog import PeakMemory
from trials.harness.runs import Outcome, Results
from trials.lying_broker.lies import LIES, Lie
from trials.lying_broker.proxy import LyingBroker

NAME = "lying-broker"
CLIENTS: Final = ("consumer", "async", "spark")
TOPIC: Final = "lies"
COUNTS: Final = [120, 120]
BATCH: Final = 20
START_S: Final = 1.0
LIE_S: Final = 3.0
HONEST_S_MAX: Final = 20.0
CLOSE_S_MAX: Final = 12.0
REQUESTS_PER_SECOND_MAX: Final = 20
GROWN_BYTES_MAX: Final = 200_000_000
ANSWER_S_MAX: Final = 60.0


class Report(NamedTuple):
    """What one lie did to a client. `summary`: what its program says; `requests`: a second, while it was lied to."""

    summary: Mapping[str, Any]
    requests: float
    grown_bytes: int
    is_complete: bool
    committed: Mapping[tuple[str, int], int]


def wrong_with(report: Report, *, is_credible: bool) -> list[str]:
    """What must not be."""
    summary, wrong = report.summary, []
    if summary["crash"]:
        wrong.append(f"crash: {summary['crash']}")
    if report.requests > REQUESTS_PER_SECOND_MAX:
        wrong.append(f"{report.requests:.0f} requests a second")
    if report.grown_bytes > GROWN_BYTES_MAX:
        wrong.append(f"{report.grown_bytes / 1e6:.0f} MB")
    if summary["close_s"] > CLOSE_S_MAX:
        wrong.append(f"close took {summary['close_s']:.0f} s")
    if is_credible:
        return wrong
    wrong += summary["wrong"]
    if not report.is_complete:
        wrong.append(f"records are missing behind {summary['next_offsets']} after the broker is honest; errors: {summary['errors'][-2:]}")
    for (topic, partition), offset in report.committed.items():
        if topic == TOPIC and 0 <= partition < len(COUNTS) and offset > summary["next_offsets"][partition]:
            wrong.append(f"{partition} is committed at {offset}, handed out up to {summary['next_offsets'][partition]}")
    return wrong


class Client:
    """The program of a reader, for one lie after the other."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = self._process.pid
        self.next_line(ANSWER_S_MAX)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put({"crash": f"the program has ended with {self._process.wait()}"})

    def say(self, line: str) -> None:
        """Write a line to its input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def next_line(self, seconds_max: float) -> dict[str, Any] | None:
        """What it says next; None after so long."""
        try:
            return self._lines.get(timeout=seconds_max)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class World:
    """A real broker behind a lying one, with the records, and the program of a client."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._client: Client | None = None
        self._told = 0
        (port,) = free_ports(1)
        self.lying = LyingBroker(port)
        listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.lying.port}"}
        self._broker = Broker(config={**listeners, "group.min.session.timeout.ms": "1"})

    def __enter__(self) -> "World":
        self._broker.start()
        servers = f"127.0.0.1:{self.lying.port}"
        create_topic(servers, TOPIC, len(COUNTS))
        with RawClient(servers) as client:
            for partition, count in enumerate(COUNTS):
                for first in range(0, count, BATCH):
                    now_ms = int(time.time() * 1000)
                    made = [Record(at, now_ms, None, b"%d-%d" % (partition, first + at)) for at in range(BATCH)]
                    data = [{"name": TOPIC, "partition_data": [{"index": partition, "records": bytes(encode_batch(made))}]}]
                    client.call(ApiKey.PRODUCE, 8, acks=-1, timeout=10_000, topic_data=data)
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
        self.lying.close()
        self._broker.stop()

    def tell(self, lie: Lie, lie_s: float = LIE_S, honest_s_max: float = HONEST_S_MAX) -> Report:
        """Tell a lie, then the truth until every record has come."""
        client = self._client = self._client or Client(self._command)
        lying = self.lying
        self._told += 1
        lying.requests.clear()
        lying.committed.clear()
        lying.lie, lying.lie_apis = lie.change, lie.apis
        task = {"servers": f"127.0.0.1:{lying.port}", "topic": TOPIC, "group": f"g{self._told}", "counts": COUNTS}
        start_s = min(START_S, lie_s / 2)
        with PeakMemory(client.pid) as peak:
            client.say(json.dumps(task))
            began_s = time.monotonic()
            time.sleep(lie_s)
            lying.lie = None
            requests = lying.requests_between(began_s + start_s, began_s + lie_s) / (lie_s - start_s)
            summary = client.next_line(honest_s_max)
            is_complete = summary is not None and "all" in summary
            if summary is None or is_complete:
                client.say("")
                while (summary := client.next_line(ANSWER_S_MAX)) is not None and "all" in summary:
                    continue
        if summary is None or "next_offsets" not in summary:
            client.close()
            self._client = None
            crash = "no answer to the end of reading" if summary is None else summary["crash"]
            summary = {"next_offsets": [0] * len(COUNTS), "wrong": [], "errors": [], "crash": crash, "close_s": 0.0}
        return Report(summary, requests, peak.grown_bytes, is_complete, dict(lying.committed))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which lies, to which client."""
    parser.add_argument("lies", nargs="*", help="parts of names; all without one")
    parser.add_argument("--client", choices=CLIENTS, help="(default: all)")
    parser.add_argument("--seconds", type=float, default=LIE_S, help=f"how long each lie is told (default: {LIE_S:.0f})")


def run(options: argparse.Namespace, results: Results) -> None:
    """Tell each client each lie."""
    for client in [options.client] if options.client else CLIENTS:
        with World([sys.executable, "-m", "trials.lying_broker.readers", client]) as world:
            for name, lie in LIES.items():
                if not options.lies or any(part in name for part in options.lies):
                    report = world.tell(lie, options.seconds)
                    close_s = report.summary["close_s"]
                    figures = f"{report.requests:.0f} requests a second, {report.grown_bytes / 1e6:.0f} MB, close in {close_s:.1f} s"
                    results.verdict(f"{client}, {name}", Outcome(wrong_with(report, is_credible=lie.is_credible), figures))
