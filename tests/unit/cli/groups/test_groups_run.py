"""`ottla groups`: options, exit status, and `--watch`."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.commands.groups import COMMAND, FLAGS, OPTIONAL, ORDER, VALUES, groups_options
from ottla.cli.groups.groups_run import RunResult, run, watch
from ottla.cli.groups.options import GroupsOptions
from ottla.cli.main import main

OTTLA = str(Path(sys.executable).with_name("ottla"))


def test_every_option_has_its_place_in_the_help() -> None:
    assert sorted(ORDER) == sorted([name for name, *_ in (*FLAGS, *VALUES, *OPTIONAL)])
    text = CliRunner().invoke(main, ["groups", "--help"]).stdout
    assert all(f"--{name} " in text for name in ORDER)


def test_options_by_their_names() -> None:
    arguments = ["--list", "--state", "--group", "a", "--group=b", "--shift-by", "-5", "--type", "x"]
    context = COMMAND.make_context("groups", arguments)
    options = groups_options(context.params)
    assert options.flags == {"list"}
    assert {name: values for name, values in options.values.items() if values} == {
        "state": ("",),
        "group": ("a", "b"),
        "shift-by": ("-5",),
        "type": ("x",),
    }


@pytest.mark.parametrize("arguments", [["--bogus"], ["--group"], ["--list", "--from-file"]])
def test_a_command_line_that_cannot_be_read_is_1_as_with_kafka(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["groups", *arguments])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Error: " in result.stderr


def test_streams_and_status_of_the_process() -> None:
    ran = subprocess.run([OTTLA, "groups", "--list"], capture_output=True, text=True, timeout=30, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith('Missing required argument "[bootstrap-server]"')


def outcome(as_json: bool = False, *flags: str, **values: str) -> RunResult:
    named = {name.replace("_", "-"): (value,) for name, value in values.items()}
    return run(GroupsOptions(frozenset(flags), named), now_ms=lambda: 0, as_json=as_json)


def test_a_mistake_is_1_with_a_hint() -> None:
    expected = "Missing required argument \"[bootstrap-server]\"\nTry 'ottla groups --help' for help.\n"
    assert outcome(False, "list") == ("", expected, 1)
    printed = outcome(True, "list")
    assert (json.loads(printed.out), printed.err, printed.status) == (
        {"errors": ['Missing required argument "[bootstrap-server]"']},
        expected,
        1,
    )


def test_a_failure_is_0_as_with_kafka_and_1_with_json() -> None:
    sentence = (
        "Executing consumer group command failed due to org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node "
        "assignment. Call: listGroups"
    )
    assert outcome(False, "list", bootstrap_server="127.0.0.1:1", timeout="1") == (f"\nError: {sentence}\n", "", 0)
    printed = outcome(True, "list", bootstrap_server="127.0.0.1:1", timeout="1")
    assert (json.loads(printed.out), printed.status) == ({"errors": [sentence]}, 1)


@pytest.mark.parametrize("servers", ["nonsense", "localhost", "h:x", ""])
def test_servers_that_are_none(servers: str) -> None:
    printed = outcome(False, "list", bootstrap_server=servers)
    assert printed.out == "\nError: Executing consumer group command failed due to Failed to create new KafkaAdminClient\n"
    assert "is no host:port" in printed.err
    assert printed.status == 0


def test_no_broker_there(unused_tcp_port: int) -> None:
    printed = outcome(False, "describe", bootstrap_server=f"127.0.0.1:{unused_tcp_port}", group="g", timeout="250")
    assert "Timed out waiting for a node assignment. Call: describeConsumerGroups(api=FIND_COORDINATOR)" in printed.out


def test_security_that_cannot_be_is_refused(groups: Any, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI")
    ran = groups.run("--list", "--command-config", str(path))
    assert f"failed due to {path}: sasl.mechanism must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" in ran.out
    path.write_text("client.id=me\n")
    assert groups.run("--list", "--command-config", str(path)).status == 0


def test_a_peer_that_makes_no_sense(http_like: int) -> None:
    printed = outcome(False, "list", bootstrap_server=f"127.0.0.1:{http_like}")
    assert "announced an answer of" in printed.out


@pytest.fixture
def unused_tcp_port() -> Iterator[int]:
    """A port without a listener, which no broker of another test can take meanwhile."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def http_like() -> Any:
    """A port with a server that speaks another protocol."""
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.recv(1000)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    thread.join(60)
    listener.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Sleep:
    """Ctrl-C comes in the last of `looks` pauses."""

    def __init__(self, looks: int) -> None:
        self.left = looks
        self.asked: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def options(*flags: str, **values: str) -> GroupsOptions:
    return GroupsOptions(frozenset(flags), {name.replace("_", "-"): (value,) for name, value in values.items()})


def test_the_group_is_described_until_ctrl_c(groups: Any) -> None:
    given = options("describe", "all-groups", bootstrap_server=groups.servers, watch="")
    out, err, sleep = Terminal(), io.StringIO(), Sleep(2)
    assert watch(given, out=out, err=err, sleep=sleep) == 0
    assert sleep.asked == [2, 2]
    assert out.getvalue().count("\x1b[H\x1b[2J") == 2


def test_one_json_object_a_look(groups: Any) -> None:
    given = options("describe", "all-groups", "state", bootstrap_server=groups.servers, watch="7")
    out, sleep = io.StringIO(), Sleep(3)
    assert watch(given, out=out, err=io.StringIO(), as_json=True, sleep=sleep) == 0
    assert sleep.asked == [7] * 3
    assert [list(json.loads(line)) for line in out.getvalue().splitlines()] == [["groups"]] * 3


def test_a_broker_that_does_not_answer_is_one_look() -> None:
    given = options("describe", "all-groups", bootstrap_server="127.0.0.1:1", watch="1", timeout="1")
    out = io.StringIO()
    assert watch(given, out=out, err=io.StringIO(), sleep=Sleep(2)) == 0
    assert out.getvalue().count("Error: Executing consumer group command failed") == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (options("describe", "all-groups", bootstrap_server="h:1", watch="0"), "write a number of seconds from 1 to 86400"),
        (options("describe", "all-groups", bootstrap_server="h:1", watch="soon"), "Cannot parse argument 'soon' of option watch"),
        (options("list", bootstrap_server="h:1", watch="1"), "Option(s) [watch] are unavailable given other options"),
        (options("describe", watch="1", bootstrap_server="h:1"), "Option [describe] takes one of these options"),
    ],
)
def test_what_cannot_be_watched(given: GroupsOptions, words: str) -> None:
    err = io.StringIO()
    assert watch(given, out=io.StringIO(), err=err, sleep=Sleep(1)) == 1
    assert words in err.getvalue()
