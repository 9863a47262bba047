"""The HTTP server for metrics: responses, and limits that no client can exceed."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from ottla.broker.monitoring import metrics_server
from ottla.broker.monitoring.metrics_server import HttpResponse, MetricsServer


def broken() -> HttpResponse:
    raise ValueError("no figures today")


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    pages = {
        "/metrics": lambda: HttpResponse(200, "text/plain", b"up 1\n"),
        "/health": lambda: HttpResponse(503, "application/json", b'{"healthy": false}'),
        "/broken": broken,
        "/large": lambda: HttpResponse(200, "text/plain", bytes(5_000_000)),
    }
    made = MetricsServer("127.0.0.1", 0, pages)
    yield made
    made.close()


def get(server: MetricsServer, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def say(server: MetricsServer, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_pages(server: MetricsServer) -> None:
    assert get(server, "/metrics") == (200, "text/plain", b"up 1\n")
    assert get(server, "/metrics?name=up") == (200, "text/plain", b"up 1\n")
    status, kind, body = get(server, "/health")
    assert (status, kind, json.loads(body)) == (503, "application/json", {"healthy": False})
    assert len(get(server, "/large")[2]) == 5_000_000
    assert get(server, "/metrics", "HEAD") == (200, "text/plain", b"")


def test_a_path_that_does_not_exist(server: MetricsServer) -> None:
    assert get(server, "/")[0] == 404
    assert b"/metrics, /health" in get(server, "/")[2]
    assert get(server, "/metrics", "POST")[0] == 405


def test_a_page_that_cannot_be_made(server: MetricsServer, caplog: pytest.LogCaptureFixture) -> None:
    assert get(server, "/broken")[0] == 500
    assert "no figures today" in caplog.text
    assert get(server, "/metrics")[0] == 200


def test_bytes_that_are_no_request(server: MetricsServer) -> None:
    assert say(server, b"\x00\x01hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert say(server, b"GET /metrics SPDY\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert say(server, b"x" * (metrics_server.HEAD_BYTES_MAX * 4)) == b""
    assert get(server, "/metrics")[0] == 200


def test_a_client_that_says_nothing_is_closed(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "RESPONSE_SECONDS_MAX", 0.05)
    assert say(server, b"GET /metrics HTTP/1.1\r\n") == b""


def connect(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


def test_idle_connections_do_not_keep_others_out(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS_MAX", 600)
    monkeypatch.setattr(metrics_server, "RESPONSE_SECONDS_MAX", 600)
    idle = [connect(server) for _ in range(3 * metrics_server.CONNECTIONS_MAX)]
    for _ in range(3):
        assert get(server, "/metrics") == (200, "text/plain", b"up 1\n")
    assert all(is_closed(client) for client in idle[: 2 * metrics_server.CONNECTIONS_MAX])
    idle[-1].sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert idle[-1].recv(1000).startswith(b"HTTP/1.1 200 "), "the youngest are still there"
    for client in idle:
        client.close()


def test_connections_with_a_request_stay_longer_than_those_without(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "CONNECTIONS_MAX", 2)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", server.port))
    slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
    received = slow.recv(100)
    with connect(server) as idle, connect(server) as younger:
        assert is_closed(idle)
        younger.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert younger.recv(1000).startswith(b"HTTP/1.1 200 ")
    while more := slow.recv(65536):
        received += more
    assert len(received.partition(b"\r\n\r\n")[2]) == 5_000_000
    slow.close()


def test_readers_that_do_not_read_do_not_keep_others_out(server: MetricsServer) -> None:
    slow = [connect(server) for _ in range(metrics_server.CONNECTIONS_MAX)]
    for client in slow:
        client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert client.recv(1)
    assert get(server, "/metrics")[0] == 200
    for client in slow:
        client.close()


def test_no_request_in_time(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS_MAX", 0.05)
    assert say(server, b"GET /metrics HTTP/1.1\r\n") == b""


def test_a_taken_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        MetricsServer("127.0.0.1", taken.getsockname()[1], {})


def test_it_may_be_closed_twice(server: MetricsServer) -> None:
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))
