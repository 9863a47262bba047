"""`ottla consume` and `ottla produce` on both brokers: in this process, and as processes where signals and pipes end them."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.client.admin.client import AdminClient
from ottla.client.settings import ClientSettings
from ottla.protocol.model import TopicPartition
from ottla.testing.waiting import wait_until

OTTLA = [sys.executable, "-m", "ottla"]
SECONDS_MAX = 60


class Cli:
    """The two commands on one broker and topic. What `ottla consume` writes to descriptor 1 is captured."""

    def __init__(self, bootstrap_servers: str, topic: str, captured: Callable[[], bytes]) -> None:
        self.bootstrap_servers, self.topic = bootstrap_servers, topic
        self._captured = captured

    def command(self, name: str, *options: str) -> list[str]:
        return [name, "--bootstrap-server", self.bootstrap_servers, "--topic", self.topic, *options]

    def run(self, name: str, *options: str, stdin: bytes = b"") -> tuple[int, str, bytes]:
        """Exit status, sentences, and what was written to descriptor 1."""
        done = CliRunner().invoke(main, self.command(name, *options), input=stdin)
        return done.exit_code, done.output, self._captured()

    def produce(self, *options: str, stdin: bytes = b"") -> str:
        status, output, _ = self.run("produce", *options, stdin=stdin)
        assert status == 0, output
        return output

    def consume(self, *options: str) -> bytes:
        status, output, written = self.run("consume", *options)
        assert (status, output) == (0, "")
        return written

    def committed(self, group: str) -> int | None:
        """The committed offset of partition 0."""
        with AdminClient(ClientSettings(bootstrap_servers=self.bootstrap_servers)) as admin:
            found = admin.committed([group])[group]
        assert isinstance(found, dict), found
        place = found.get(TopicPartition(self.topic, 0))
        return None if place is None else place.offset


@pytest.fixture
def new_cli(kafka_broker: Any, library_on: Callable[..., Any], unique_name: Callable[[str], str], capfdbinary: Any) -> Callable[[int], Cli]:
    """`new_cli(partitions)` has a topic of its own."""

    def make(partitions: int) -> Cli:
        topic = unique_name("topic")
        library_on(kafka_broker).create_topic(topic, partitions)
        return Cli(kafka_broker.bootstrap_servers, topic, lambda: capfdbinary.readouterr().out)

    return make


def test_lines_and_json_through_a_topic(new_cli: Callable[[int], Cli], tmp_path: Path) -> None:
    cli = new_cli(1)
    out = cli.produce("--key-delimiter", ":", "--null", "-", "--header", "h=1", "--compression", "lz4", stdin=b"a:1\nb:-\n-:3:4\n")
    assert out == f"3 records written to {cli.topic}\n"
    shown = cli.consume("--exit-at-end", "-f", r"%p/%o %k=%s [%h]\n", "--null", "NULL")
    assert shown == b"0/0 a=1 [h=1]\n0/1 b=NULL [h=1]\n0/2 NULL=3:4 [h=1]\n"
    lines = cli.consume("--exit-at-end", "--json")
    first = json.loads(lines.splitlines()[0])
    assert (first["topic"], first["key"], first["value"], first["headers"]) == (cli.topic, "a", "1", [{"key": "h", "value": "1"}])
    copy = new_cli(1)
    file = tmp_path / "lines"
    file.write_bytes(lines)
    copy.produce("--json", str(file))
    assert copy.consume("--exit-at-end", "--json") == lines.replace(cli.topic.encode(), copy.topic.encode())
    assert cli.consume("--offset", "-2", "--count", "1", "--key-only") == b"b\n"
    assert cli.consume("--offset", f"@{first['timestamp']}", "--count", "1", "--partition", "0") == b"1\n"


def test_a_member_commits_what_it_printed_and_the_next_one_goes_on(
    new_cli: Callable[[int], Cli], unique_name: Callable[[str], str]
) -> None:
    cli, group = new_cli(1), unique_name("group")
    cli.produce(stdin=b"".join(b"%d\n" % number for number in range(10)))
    assert cli.consume("--group", group, "--count", "4") == b"0\n1\n2\n3\n"
    assert cli.committed(group) == 4
    command = [*OTTLA, *cli.command("consume", "--group", group)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert [running.stdout.readline() for _ in range(6)] == [b"%d\n" % number for number in range(4, 10)]
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=SECONDS_MAX) == (b"", b"")
    assert running.returncode == 0
    assert cli.committed(group) == 10
    assert cli.consume("--group", group, "--exit-at-end") == b""
    assert cli.consume("--group", group, "--partition", "0", "--offset", "stored", "--exit-at-end") == b""


def test_a_pipe_that_is_closed_ends_it(new_cli: Callable[[int], Cli]) -> None:
    cli = new_cli(1)
    # Small batches and fetches: for larger ones the process would load the compiled decoder. All of them are more than a pipe takes.
    cli.produce("--config", "batch.num.messages=50", stdin=b"".join(b"%099d\n" % number for number in range(2_000)))
    command = [*OTTLA, *cli.command("consume", "--config", "max.partition.fetch.bytes=10000")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"0" * 99 + b"\n"
        running.stdout.close()
        wait_until(lambda: running.poll() is not None, "the end of the command", seconds=SECONDS_MAX)
        assert running.stderr is not None
        assert (running.returncode, running.stderr.read()) == (0, b"")


def test_failures_are_sentences_and_the_exit_status(new_cli: Callable[[int], Cli]) -> None:
    cli = new_cli(2)
    status, output, _ = cli.run("produce", "--partition", "7", "--timeout", "5", stdin=b"a\nb\n")
    assert status == 1
    assert "line 1 was not written: " in output
    assert f"0 records written to {cli.topic}\n" in output
    sentence = f"Error: topic {cli.topic} has 2 partitions: there is no partition 2\n"
    assert cli.run("consume", "--partition", "2") == (1, sentence, b"")
    assert cli.run("consume", "--count", "1", "--timeout", "0.2") == (1, "Error: 1 of 1 records did not come within 0.2 s\n", b"")
