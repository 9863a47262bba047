"""`ottla broker`: one line when ready, a clean end on a signal, and clear words when it cannot start."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

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
        socket.create_connection((host, int(port)), timeout=5).close()
        process.send_signal(number)
        try:
            rest, errors = process.communicate(timeout=10)
        finally:
            process.kill()
    assert (process.returncode, rest, errors) == (0, "", "")
    assert (tmp_path / "data" / "meta.properties").exists()


def test_it_serves_metrics_where_it_says(tmp_path: Path) -> None:
    command = [OTTLA, "broker", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name, url = process.stdout.readline().strip().split("=")
        assert process.stdout.readline().startswith("bootstrap.servers=")
        assert name == "metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert b"\nottla_healthy 1.0\n" in answer.read()
        with urllib.request.urlopen(url.replace("/metrics", "/health"), timeout=5) as answer:
            assert json.load(answer)["healthy"] is True
        process.send_signal(signal.SIGTERM)
        try:
            _, errors = process.communicate(timeout=10)
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
    ],
)
def test_what_it_cannot_start_with(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["broker", *arguments])
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert "Traceback" not in result.output


def test_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = CliRunner().invoke(main, ["broker", "--listen", f"127.0.0.1:{taken.getsockname()[1]}"])
    assert result.exit_code == 1
    assert "cannot start" in result.output


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


def test_nobody_reads_its_log(tmp_path: Path) -> None:
    """Each client that sends nonsense is a line of the log; more of them than a pipe holds must not stop the broker."""
    with subprocess.Popen([OTTLA, "broker", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().decode().strip().split("=")[1].split(":")
        for _ in range(1500):
            with socket.create_connection((host, int(port)), timeout=10) as client:
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
            with socket.create_connection((host, int(port)), timeout=10) as client:
                client.sendall(b"\xff\xff\xff\xff")
                assert client.recv(10) == b""
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(timeout=10) == 0
        finally:
            process.kill()
