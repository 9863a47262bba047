"""How alerts are passed on: programs and real HTTP servers, and what happens when they fail."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import alert_actions
from ottla.cli.alert_actions import ALERTS_FILE, ActionFailed, ClusterAlerts, Command, Courier, Webhook
from ottla.history.alerts import GroupFacts, parse_rule
from ottla.log.file_system import MemoryFiles
from ottla.protocol.errors import StorageError
from ottla.testing.waiting import wait_until

GROUP = "g; touch pwned $(touch pwned) `touch pwned`\0\n"
DOCUMENT = {
    "cluster": None,
    "status": "firing",
    "rule": "lag > 1",
    "group": GROUP,
    "since_ms": 5,
}


def test_a_program_gets_the_event_and_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "a script.py"
    script.write_text("import json, os, sys\njson.dump([json.load(sys.stdin), dict(os.environ), sys.argv[1:]], open('got', 'w'))")
    Command(f"{sys.executable} '{script}' '$HOME;' '*'").run(DOCUMENT)
    document, environment, arguments = json.loads((tmp_path / "got").read_text())
    assert (document, arguments) == (DOCUMENT, ["$HOME;", "*"])
    assert environment["OTTLA_ALERT_GROUP"] == GROUP.replace("\0", "\\x00")
    assert (environment["OTTLA_ALERT_SINCE_MS"], environment["OTTLA_ALERT_CLUSTER"]) == ("5", "")
    assert sorted(os.listdir()) == ["a script.py", "got"]


def test_programs_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ActionFailed, match=r"its exit status is 3: no pager"):
        Command(f"{sys.executable} -c \"import sys; print('no pager', file=sys.stderr); sys.exit(3)\"").run(DOCUMENT)
    with pytest.raises(ActionFailed, match=r"it cannot be started: No such file"):
        Command(str(tmp_path / "missing")).run(DOCUMENT)
    monkeypatch.setattr(alert_actions, "EXEC_SECONDS_MAX", 0.3)
    with pytest.raises(ActionFailed, match=r"did not end within 0\.3 s and was killed"):
        Command("sh -c 'sleep 60 & wait'").run(DOCUMENT)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("example.com/x", "is no URL"),
        ("ftp://example.com", "is no URL"),
        ("http://", "is no URL"),
        ("http://h:99999/", "is no URL"),
        ("http://h/a b", "is no URL"),
        ("http://me:secret@h/", "is not sent"),
    ],
)
def test_bad_urls(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Webhook(url)


class Server(HTTPServer):
    """Answers POSTs with the next of `statuses`, the last one again and again; 0 does not answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = [204]
        self.bodies: list[Any] = []
        self.paths: list[str] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.paths.append(self.path)
        status = self.server.statuses.pop(0) if len(self.server.statuses) > 1 else self.server.statuses[0]
        if status:
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
        else:
            self.rfile.read(1)  # until the client gives up

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.shutdown()
    made.server_close()


def passed_on(url: str) -> tuple[dict[str, int], list[str]]:
    """How one alert fares at a URL, without pauses, and what is said."""
    said: list[str] = []
    done = threading.Event()
    courier = Courier(Webhook(url, pauses_s=(0.0, 0.0)), say=said.append)
    courier.send(DOCUMENT, done.set)
    assert done.wait(10)
    courier.stop(5)
    return dict(courier.outcomes), said


def test_a_webhook(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{server.server_port}/hook?token=secret"
    assert passed_on(url) == ({"sent": 1}, [])
    assert (server.bodies, server.paths) == ([DOCUMENT], ["/hook?token=secret"])
    name = f"webhook http://127.0.0.1:{server.server_port}"
    server.statuses = [503, 429, 200]
    assert passed_on(url) == ({"sent": 1}, [])
    for statuses, words in (([500], "HTTP 500 (3 attempts)"), ([404], "HTTP 404"), ([302], "HTTP 302")):
        server.statuses = statuses
        assert passed_on(url) == ({"failed": 1}, [f"{name}: an alert was not passed on: the response is {words}"])
    monkeypatch.setattr(alert_actions, "WEBHOOK_SECONDS_MAX", 0.2)
    server.statuses = [0]
    outcomes, (line,) = passed_on(url)
    assert (outcomes, "secret" in line, line.endswith("(3 attempts)")) == ({"failed": 1}, False, True)


def test_a_webhook_that_nobody_serves(server: Server) -> None:
    server.shutdown()
    server.server_close()
    outcomes, (line,) = passed_on(f"http://127.0.0.1:{server.server_port}/")
    assert outcomes == {"failed": 1}
    assert "Connection refused (3 attempts)" in line


class Recorder:
    """An action that waits until it may go on."""

    way = name = "recorder"
    pauses_s = ()

    def __init__(self) -> None:
        self.documents: list[Any] = []
        self.may_end = threading.Event()

    def run(self, document: Any) -> None:
        self.documents.append(document)
        assert self.may_end.wait(10)


def alerts(files: MemoryFiles, courier: Courier) -> ClusterAlerts:
    return ClusterAlerts(files, [parse_rule("lag > 1")], "east", [courier], lambda _: None)


def test_what_was_not_passed_on_is_passed_on_by_the_next_run() -> None:
    files, first, second = MemoryFiles(), Recorder(), Recorder()
    facts = {"g": GroupFacts(members=1, had_members=True, lag=2)}
    courier = Courier(first, say=print)
    one = alerts(files, courier)
    one.pass_on(one.alerts.evaluate(5, facts))
    wait_until(lambda: len(first.documents) == 1, "it is being passed on")
    courier.stop(0)  # as if it were killed meanwhile
    first.may_end.set()
    again = Courier(second, say=print)
    second.may_end.set()
    two = alerts(files, again)
    two.pass_on(two.alerts.evaluate(6, facts))
    wait_until(lambda: json.loads(files.read_all(ALERTS_FILE))["pending"] == [], "it was passed on")
    again.stop(5)
    assert second.documents == first.documents
    assert second.documents[0]["cluster"] == "east"
    third = Recorder()
    last = Courier(third, say=print)
    three = alerts(files, last)
    three.pass_on(three.alerts.evaluate(7, facts))
    last.stop(5)
    assert third.documents == []
    assert three.firing == {"lag > 1": 1}


def test_a_damaged_state_is_refused() -> None:
    files = MemoryFiles()
    files.replace(ALERTS_FILE, b"{")
    with pytest.raises(StorageError, match=r"alerts\.json is damaged: remove it"):
        ClusterAlerts(files, [], None, [], print)
