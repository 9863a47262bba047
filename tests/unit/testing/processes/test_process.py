"""A server process is stopped, killed, signalled, and never outlives the process that started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ottla.testing.kit.waiting import wait_until
from ottla.testing.processes.process import ServerProcess

# Says that it is ready, answers TERM by a last word, and ends itself after a while.
SERVER = """
import signal, sys, time
def bye(number, frame):
    print("bye", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, bye)
print("ready", flush=True)
time.sleep(60)
"""
STARTER = """
import sys, time
from pathlib import Path
from ottla.testing.processes.process import ServerProcess
process = ServerProcess(["sleep", "60"], log_path=Path(sys.argv[1]))
print(process.pid, flush=True)
time.sleep(60)
"""


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def server(tmp_path: Path) -> ServerProcess:
    process = ServerProcess([sys.executable, "-c", SERVER], log_path=tmp_path / "log")
    wait_until(lambda: "ready" in process.log_path.read_text(), "the server")
    return process


def test_stop_lets_the_server_finish(server: ServerProcess) -> None:
    assert server.is_running
    assert exists(server.pid)
    assert server.stop() == 7
    assert not server.is_running
    assert server.log_path.read_text().splitlines() == ["ready", "bye"]
    assert not exists(server.pid)


def test_kill_does_not(server: ServerProcess) -> None:
    server.kill()
    assert not server.is_running
    assert server.log_path.read_text().splitlines() == ["ready"]
    assert not exists(server.pid)


def test_a_server_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    deaf = ServerProcess(["/bin/sh", "-c", "trap '' TERM; echo ready; sleep 60 & wait; wait"], log_path=tmp_path / "log")
    wait_until(lambda: "ready" in deaf.log_path.read_text(), "the server")
    assert deaf.stop(seconds_max=0.2) == 128 + signal.SIGKILL


def test_signals_by_name(server: ServerProcess) -> None:
    server.send_signal("STOP")
    wait_until(lambda: psutil.Process(server.pid).status() == psutil.STATUS_STOPPED, "the server to stop")
    server.send_signal("CONT")
    assert server.stop() == 7


def test_a_server_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    process = ServerProcess(["/bin/sh", "-c", "echo out; echo err >&2; exit 5"], log_path=tmp_path / "log")
    wait_until(lambda: not process.is_running, "its end")
    assert process.stop() == 5
    assert process.log_path.read_text() == "out\nerr\n"


def test_the_log_grows_over_restarts(tmp_path: Path) -> None:
    for word in ("first", "second"):
        process = ServerProcess(["echo", word], log_path=tmp_path / "log")
        wait_until(lambda process=process: not process.is_running, "its end")
        process.stop()
    assert (tmp_path / "log").read_text() == "first\nsecond\n"


def test_the_server_dies_with_a_killed_starter(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    assert exists(pid)
    starter.kill()
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not exists(pid), "its end")
