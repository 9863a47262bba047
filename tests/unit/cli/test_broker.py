"""`ottla broker`: one line when ready, a clean end on a signal, and clear words when it cannot start."""

import json
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from ottla.broker.network.descriptors import RAISED_MAX
from ottla.cli.main import main

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
