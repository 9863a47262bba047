"""Servers as child processes end with their parent, and a Java is found or asked for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ottla.cli import processes as java
from ottla.cli.processes import OttlaProcess, ServerProcess, StartFailed, ToolMissing, find_java, find_java_home, java_version
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until


def install(directory: Path, version: str | None) -> Path:
    """A folder that looks like an installed Java; without a version it has no release file and its program fails."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    if version:
        (directory / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(java, "JVM_DIRECTORY", tmp_path / "jvm")


@pytest.mark.usefixtures("nothing_installed")
def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "jvm" / "java-17", "17.0.1")
    wanted = install(tmp_path / "home", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == wanted


@pytest.mark.usefixtures("nothing_installed")
def test_then_comes_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "jvm" / "java-17", "17.0.1")
    wanted = install(tmp_path / "opt", "21.0.2")
    monkeypatch.setenv("PATH", str(tmp_path / "opt" / "bin"))
    assert find_java() == wanted


@pytest.mark.usefixtures("nothing_installed")
def test_the_home_is_where_links_lead_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = install(tmp_path / "opt" / "jdk-21", "21.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java_home() == tmp_path / "opt" / "jdk-21"


@pytest.mark.usefixtures("nothing_installed")
def test_as_a_program_it_needs_no_installed_package(tmp_path: Path) -> None:
    install(tmp_path / "home", "21")
    command = [sys.executable, "-I", "-S", java.__file__]
    found = subprocess.run(command, env={"JAVA_HOME": str(tmp_path / "home")}, capture_output=True, text=True, check=True)
    assert found.stdout == f"{tmp_path / 'home'}\n"


@pytest.mark.usefixtures("nothing_installed")
def test_then_the_oldest_installed_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    install(tmp_path / "home", "11.0.2")
    install(tmp_path / "jvm" / "a", "25")
    wanted = install(tmp_path / "jvm" / "b", "17.0.15")
    install(tmp_path / "jvm" / "c", "1.8.0_392")
    assert find_java() == wanted


@pytest.mark.usefixtures("nothing_installed")
def test_without_one_the_reason_names_what_was_found(tmp_path: Path) -> None:
    install(tmp_path / "jvm" / "old", "11.0.2")
    with pytest.raises(ToolMissing, match=r"needs Java 17 or later, found only .*old/bin/java \(Java 11\)"):
        find_java()


@pytest.mark.usefixtures("nothing_installed")
def test_without_any_the_reason_says_where_it_was_looked_for() -> None:
    with pytest.raises(ToolMissing, match="found none in JAVA_HOME, PATH and /usr/lib/jvm"):
        find_java()


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(("stated", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8), ("21-ea", 21)])
def test_the_version_is_the_feature_number(tmp_path: Path, stated: str, version: int) -> None:
    assert java_version(install(tmp_path / "some", stated)) == version


@pytest.mark.usefixtures("nothing_installed")
def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    program = install(tmp_path / "some", None)
    assert java_version(program) is None
    program.write_text("#!/bin/sh\necho 'openjdk version \"19.0.1\" 2022-10-18' >&2\n")
    assert java_version(program) == 19


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
from ottla.cli.processes import ServerProcess
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


def topics(broker: OttlaProcess) -> set[str]:
    with RawClient(broker.bootstrap_servers) as client:
        return {each.name for each in client.call(ApiKey.METADATA, 1, topics=None).topics}


def test_it_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    broker = OttlaProcess(tmp_path / "data", config={"num.partitions": "3"})
    broker.start()
    with RawClient(broker.bootstrap_servers) as client:
        topic = {"name": "flights", "num_partitions": -1, "replication_factor": -1}
        (made,) = client.call(ApiKey.CREATE_TOPICS, 5, timeout=5000, topics=[topic]).topics
        assert (made.error_code, made.num_partitions) == (0, 3), "the setting has arrived"
    first = broker.bootstrap_servers
    broker.kill()
    broker.start()
    assert broker.bootstrap_servers == first
    assert "flights" in topics(broker)
    broker.stop()
    broker.stop()


def test_a_mistake_is_shown(tmp_path: Path) -> None:
    broker = OttlaProcess(tmp_path / "data", config={"num.partitions": "many"})
    with pytest.raises(StartFailed, match=r"num\.partitions"):
        broker.start()
