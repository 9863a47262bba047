"""A run from its options to the exit status."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.groups.groups_run import Outcome, run
from ottla.cli.groups.options import GroupsOptions


def outcome(as_json: bool = False, *flags: str, **values: str) -> Outcome:
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
def unused_tcp_port() -> int:
    """A port without a listener."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


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
