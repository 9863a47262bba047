"""`ottla watch` that calls and serves metrics, beside real brokers: a member is killed, and a real HTTP server hears of it, once."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.client.admin.client import AdminClient
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until

MEMBER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "client.id": sys.argv[4], "session.timeout.ms": 6000,
                     "heartbeat.interval.ms": 500, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 300, "log_level": 0})
consumer.subscribe([sys.argv[3]])
while True:
    consumer.poll(0.1)
"""


class Hook(HTTPServer):
    """Receives alerts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[float, dict[str, Any]]] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/alerts?token=secret"

    def of(self, rule: str) -> list[str]:
        return [document["status"] for _, document in self.received if document["rule"] == rule]


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((time.monotonic(), json.loads(body)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`start(code, *arguments)` runs Python as a process, which is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


PRODUCER = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "log_level": 0})
while True:
    for partition in (0, 1):
        producer.produce(sys.argv[2], b"record", partition=partition)
    producer.flush()
    time.sleep(0.2)
"""

WATCH = "from ottla.cli.main import main; main()"


def members(admin: AdminClient, group: str) -> int:
    described = admin.describe_groups([group])[group]
    return len(getattr(described, "members", ())) if getattr(described, "state", "") in ("Stable", "Empty") else -1


def metrics_url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("metrics: http://"), line
    return line.removeprefix("metrics: ").strip()


def samples(url: str) -> list[Any]:
    with urllib.request.urlopen(url, timeout=10) as response:
        return [sample for family in text_string_to_metric_families(response.read().decode()) for sample in family.samples]


def test_a_member_is_killed(
    kafka_broker: Any,
    unique_name: Callable[[str], str],
    start: Callable[..., subprocess.Popen[str]],
    hook: Hook,
    tmp_path: Path,
) -> None:
    servers, group, topic = kafka_broker.bootstrap_servers, unique_name("group"), unique_name("topic")
    with RawClient(servers) as client:
        create_topic(client, topic, 2)
    start(PRODUCER, servers, topic)
    stays, dies = (start(MEMBER, servers, group, topic, name) for name in ("stays", "dies"))
    lost = "incident lost member"
    options = ["watch", "--bootstrap-server", servers, "--output", str(tmp_path / "archive"), "--group", group, "--interval", "0.5"]
    options += ["--metrics", "127.0.0.1:0", "--webhook", hook.url, "--alert", lost, "--alert", "no members", "--json"]
    with AdminClient(servers) as admin:
        wait_until(lambda: members(admin, group) == 2, "both are members", seconds=30)
        wait_until(lambda: len(admin.committed([group])[group]) == 2, "both have committed", seconds=30)
        watch = start(WATCH, *options)
        url = metrics_url(watch)
        wait_until(
            lambda: any(each.name == "ottla_watch_looks_total" and each.value > 0 for each in samples(url)), "it has looked", seconds=30
        )
        dies.kill()
        wait_until(lambda: members(admin, group) == 1, "the coordinator removed the member", seconds=30)
        removed = time.monotonic()
        wait_until(lambda: hook.received != [], "the alert came", seconds=10)
        assert hook.received[0][0] - removed < 10
        first = hook.received[0][1]
        assert (first["rule"], first["status"], first["group"], first["details"]["culprits"]) == (lost, "firing", group, ["dies"])
        found = {(each.name, each.labels.get("kind", "")): each.value for each in samples(url) if each.labels.get("group") == group}
        assert found["ottla_group_incidents_open", "lost member"] == 1
        assert found["ottla_group_members", ""] == 1
        names = {each.name for each in samples(url)}
        assert {"burrow_kafka_consumer_lag_total", "kminion_kafka_consumer_group_members", "kafka_consumergroup_lag"} <= names
        # While it lasts a restart repeats nothing, once the archive says that it was passed on: killed before that, it is told twice.
        (state,) = (tmp_path / "archive").rglob("alerts.json")
        wait_until(lambda: json.loads(state.read_text())["pending"] == [], "the archive knows that the alert was passed on", seconds=30)
        watch.kill()
        watch.wait(20)  # it has the archive until it has ended
        again = start(WATCH, *options)
        stays.kill()
        metrics_url(again)
        wait_until(lambda: "firing" in hook.of("no members"), "the last one is lost, too", seconds=30)
        assert hook.of(lost) == ["firing"]
        again.terminate()
        out, err = again.communicate(timeout=20)
    assert (again.returncode, err) == (0, "")
    documents = [json.loads(line) for line in out.splitlines()]
    assert documents[-1]["ended"] is True
    assert [each["status"] for each in documents if each.get("rule") == "no members"] == ["firing"]
