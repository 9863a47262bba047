"""`ottla broker`: options, log lines that never stop it, and commands on stdin."""

import asyncio
import fcntl
import json
import logging
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from ottla.broker.network.limits import RAISED_MAX
from ottla.broker.running_brokers import BrokerTask
from ottla.cli import broker as log_output
from ottla.cli.broker import QueuedHandler, carry_out, read_verbs
from ottla.cli.main import main
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient

OTTLA = str(Path(sys.executable).with_name("ottla"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_one_line_and_stops_cleanly(tmp_path: Path, number: int) -> None:
    command = [OTTLA, "broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--config", "num.partitions=3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        name, address = line.strip().split("=")
        assert name == "bootstrap.servers"
        host, port = address.split(":")
        socket.create_connection((host, int(port)), timeout=60).close()
        process.send_signal(number)
        try:
            rest, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, rest, errors) == (0, "", "")
    assert (tmp_path / "data" / "meta.properties").exists()


def test_what_is_allowed_is_in_the_audit_log_alone(tmp_path: Path) -> None:
    file, authorizer = tmp_path / "audit.log", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = ["--config", authorizer, "--config", "super.users=User:ANONYMOUS", "--audit-log", str(file)]
    with subprocess.Popen(
        [OTTLA, "broker", "--listen", "127.0.0.1:0", *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        with RawClient(process.stdout.readline().strip().partition("=")[2]) as client:
            client.call(ApiKey.METADATA, 1, topics=[{"name": "orders"}])
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert "Principal = User:ANONYMOUS is Allowed operation = DESCRIBE from host = 127.0.0.1 on resource = Topic" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert errors == ""


def test_a_stop_that_fails_is_not_called_a_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [OTTLA, "broker", "--listen", "127.0.0.1:0", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("bootstrap.servers=")
        shutil.rmtree(data)
        process.send_signal(signal.SIGTERM)
        try:
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 1
    assert "Error: the broker stopped, but not cleanly: cannot open __cluster_metadata-0/" in errors
    assert "cannot start" not in errors


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_it_serves_metrics_where_it_says(more: list[str]) -> None:
    command = [OTTLA, "broker", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if more:
            ready = json.loads(process.stdout.readline())
            url = ready["metrics"]
            assert ready["bootstrap_servers"].startswith("127.0.0.1:")
        else:
            name, url = process.stdout.readline().strip().split("=")
            assert process.stdout.readline().startswith("bootstrap.servers=")
            assert name == "metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert b"\nottla_healthy 1.0\n" in answer.read()
        with urllib.request.urlopen(url.replace("/metrics", "/health"), timeout=60) as answer:
            assert json.load(answer)["healthy"] is True
        process.send_signal(signal.SIGTERM)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "no.such.setting=1"], "unknown setting no.such.setting"),
        (["--config", "num.partitions=many"], "Not a number"),
        (["--config", "nothing"], "NAME=VALUE"),
        (["--listen", "9092"], "HOST:PORT"),
        (["--metrics", "9092"], "HOST:PORT"),
        (["--listen", "127.0.0.1:0", "--data", __file__ + "/x"], ""),
        (["--listen", "127.0.0.1:0", "--data", ""], "the data directory has no name"),
        (["--listen", f"{'a' * 5000}:0"], "is not a host name or address"),
        (["--listen", "a..b:0"], "is not a host name or address"),
        (["--listen", f"127.0.0.1:{'1' * 5000}"], "HOST:PORT"),
        (["--listen", "no.such.host.invalid:0"], "the broker cannot start: cannot listen on no.such.host.invalid: "),
        (["--config", "num.partition=3"], "did you mean 'num.partitions'?"),
        (["--config", "num.partitions=20000"], "Value must be no more than 10000"),
        (["--config", "default.replication.factor=3"], "> the number of brokers (1)"),
        (["--config", "group.max.session.timeout.ms=1"], "group.min.session.timeout.ms (6000) > group.max.session.timeout.ms (1)"),
    ],
)
def test_what_it_cannot_start_with(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["broker", *arguments])
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert isinstance(result.exception, SystemExit), "a sentence and no traceback"


def test_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = CliRunner().invoke(main, ["broker", "--listen", f"127.0.0.1:{taken.getsockname()[1]}"])
    assert result.exit_code == 1
    assert "cannot start" in result.output


def test_too_few_descriptors_are_said() -> None:
    ran = subprocess.run(
        ["bash", "-c", f"ulimit -n 10; exec {OTTLA} broker --listen 127.0.0.1:0"], timeout=20, check=False, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert ran.stderr == "Error: this process may have 10 files open, and a broker needs 32 at least: raise the limit (ulimit -n)\n"


def test_no_thread_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    result = CliRunner().invoke(main, ["broker", "--listen", "127.0.0.1:0"])
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert "the broker cannot start: no thread can be started: raise the limits" in result.output


def test_a_broker_of_its_own_process_looks_for_garbage_now_and_then() -> None:
    script = (
        "import gc, os, signal, threading\n"
        "from ottla.cli.commands.broker import ALLOCATIONS_PER_COLLECTION\n"
        "from ottla.cli.main import main\n"
        "def look():\n"
        "    while gc.get_threshold()[0] != ALLOCATIONS_PER_COLLECTION or not gc.get_freeze_count(): pass\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Thread(target=look, daemon=True).start()\n"
        "main(['broker', '--listen', '127.0.0.1:0'])\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=20, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="psutil reads the limits of another process on Linux only")
def test_it_raises_its_limit_of_open_files() -> None:
    command = f"ulimit -S -n 256; exec {OTTLA} broker --listen 127.0.0.1:0"
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("bootstrap.servers=")
            hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], RAISED_MAX)
            assert psutil.Process(process.pid).rlimit(psutil.RLIMIT_NOFILE) == (hard, hard)
        finally:
            process.terminate()
    assert process.returncode == 0


def test_a_log_that_is_not_read(tmp_path: Path) -> None:
    """Each client that sends nonsense is a line of the log; more of them than a pipe holds must not stop the broker."""
    with subprocess.Popen([OTTLA, "broker", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().decode().strip().split("=")[1].split(":")
        for _ in range(1500):
            with socket.create_connection((host, int(port)), timeout=60) as client:
                client.sendall(b"\xff\xff\xff\xff")
                assert client.recv(10) == b""
        process.send_signal(signal.SIGTERM)
        try:
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
    assert errors.count(b"closing the connection") == 1500


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_it_runs_without_stdin_and_stderr(closed: str) -> None:
    command = f"exec {OTTLA} broker --listen 127.0.0.1:0 {closed}"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().strip().split("=")[1].split(":")
        for _ in range(3):
            with socket.create_connection((host, int(port)), timeout=60) as client:
                client.sendall(b"\xff\xff\xff\xff")
                assert client.recv(10) == b""
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test did


def logger_to(handler: QueuedHandler) -> logging.Logger:
    log = logging.Logger("queued")
    log.addHandler(handler)
    return log


def read_all(descriptor: int) -> list[str]:
    with open(descriptor, "rb", closefd=False) as stream:
        return stream.read().decode().splitlines()


def test_lines_are_written_in_order_and_all_of_them_by_the_end(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    handler = QueuedHandler(writer)
    log = logger_to(handler)
    for number in range(100):
        log.warning("line %d \ud800", number)
    handler.close()
    os.close(writer)
    assert read_all(reader) == [f"line {number} \\ud800" for number in range(100)]


def test_a_pipe_that_is_not_read(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pipe
    monkeypatch.setattr(log_output, "QUEUE_CHARACTERS_MAX", 5_000)
    handler = QueuedHandler(writer)
    log = logger_to(handler)
    line = "x" * 99
    for _ in range(5_000):  # more than a pipe and the queue hold: it returns all the same
        log.warning(line)
    lines: list[str] = []
    thread = threading.Thread(target=lambda: lines.extend(read_all(reader)))
    thread.start()
    handler.close()
    os.close(writer)
    thread.join()
    notes = [line for line in lines if "dropped" in line]
    assert notes == [note for note in notes if note.endswith(" log lines were dropped here: stderr was not read")] != []
    assert len(lines) - len(notes) + sum(int(note.split()[0]) for note in notes) == 5_000


def test_the_end_does_not_wait_for_a_reader(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pipe
    monkeypatch.setattr(log_output, "CLOSE_SECONDS_MAX", 0.05)
    handler = QueuedHandler(writer)
    logger_to(handler).warning("x" * 900_000)
    handler.close()
    assert handler._thread.is_alive(), "it waits in its write"
    os.set_blocking(reader, False)
    while handler._thread.is_alive():
        try:
            os.read(reader, 65536)
        except BlockingIOError:
            handler._thread.join(0.01)


def test_a_descriptor_that_others_made_non_blocking() -> None:
    """One above 1,023, as in a process with many open files: `select` does not take it."""
    reader, low = os.pipe()
    writer = fcntl.fcntl(low, fcntl.F_DUPFD, min(2_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1))
    os.close(low)
    os.set_blocking(writer, False)
    handler = QueuedHandler(writer)
    logger_to(handler).warning("x" * 500_000)
    lines: list[str] = []
    thread = threading.Thread(target=lambda: lines.extend(read_all(reader)))
    thread.start()
    handler.close()
    os.close(writer)
    thread.join()
    os.close(reader)
    assert [len(line) for line in lines] == [500_000]


def test_a_reader_that_is_gone(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    handler = QueuedHandler(writer)
    log = logger_to(handler)
    log.warning("it is not seen")
    log.warning("nor this")
    handler.close()
    assert not handler._thread.is_alive()


def test_a_line_that_cannot_be_formatted_is_reported(pipe: tuple[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    handler = QueuedHandler(pipe[1])
    logger_to(handler).warning("%d", "no number")
    handler.close()
    assert "Arguments: ('no number',)" in capsys.readouterr().err


@pytest.fixture
def answers() -> list[str]:
    """The answers to a conversation with two brokers."""

    async def story() -> list[str]:
        task = BrokerTask(None, {}, "127.0.0.1:0", brokers=2)
        await task.start()
        lines = (
            "stop 2", "coordinator g", "start 2", "move-coordinator g 2", "add", "move-leader __consumer_offsets 0 3", "", "stop x",
            "stop", "fly 1", "stop 9", "move-leader t 0 1",
        )  # fmt: skip
        answers = [await carry_out(task, line) for line in lines]
        second, third = task.address(2), task.address(3)
        first = task.address(1)
        await task.stop()
        return [answer.replace(first, "FIRST").replace(second, "SECOND").replace(third, "THIRD") for answer in answers]

    return asyncio.run(story())


def test_every_line_has_its_answer(answers: list[str]) -> None:
    usage = answers[8]
    assert usage.startswith("error: write one of: stop BROKER")
    assert answers == [
        "ok: broker 2 is stopped",
        "ok: g has hash 103, partition 3, and is coordinated by broker 1 on FIRST",
        "ok: broker 2 listens on SECOND",
        "ok: g has hash 103, partition 3, and is coordinated by broker 2 on SECOND",
        "ok: broker 3 listens on THIRD",
        "ok: broker 3 leads __consumer_offsets-0",
        "",
        "error: stop x: a broker and a partition are numbers",
        usage,
        usage,
        "error: there is no broker 9: the brokers are 1, 2, 3",
        "error: There is no partition t-0.",
    ]


def test_answers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()

    async def story() -> None:
        task = BrokerTask(None, {}, "127.0.0.1:0", brokers=2)
        await task.start()
        os.write(writing, b"stop 2\nstop 9\n")
        os.close(writing)
        read_verbs(task, reading, as_json=True)
        (thread,) = [each for each in threading.enumerate() if each.name == "ottla-verbs"]
        await asyncio.to_thread(thread.join, 10)
        await task.stop()

    asyncio.run(story())
    os.close(reading)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"ok": True, "message": "broker 2 is stopped"},
        {"ok": False, "message": "there is no broker 9: the brokers are 1, 2"},
    ]


def test_lines_come_in_pieces_and_end_with_the_input(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()

    async def story() -> None:
        task = BrokerTask(None, {}, "127.0.0.1:0", brokers=2)
        await task.start()
        read_verbs(task, reading)
        (thread,) = [each for each in threading.enumerate() if each.name == "ottla-verbs"]
        for piece in (b"st", b"op 2\nst", b"art 2\n"):
            os.write(writing, piece)
        os.close(writing)
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()
        await task.stop()

    asyncio.run(story())
    os.close(reading)
    said = capsys.readouterr().out.splitlines()
    assert [line.split(" on ")[0] for line in said] == ["ok: broker 2 is stopped", "ok: broker 2 listens"]
