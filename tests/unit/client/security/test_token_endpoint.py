"""Tokens of an OAuth server: what it is sent, which answers are final, and which are tried again."""

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ottla.client.security.token_endpoint import EndpointTokens


def jwt(**claims: Any) -> str:
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "RS256"}, claims, {"s": 1}))


TOKEN = jwt(sub="me", exp=5_000)


class OAuthServer:
    """Gives `answers` in turn, each a status and what is sent, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, dict[str, str], str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.asked.append((self.path, dict(self.headers), body))
                status, said = outer.answers.pop(0)
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/token?tenant=1"


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    server = OAuthServer()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def source(server: OAuthServer, **more: Any) -> EndpointTokens:
    return EndpointTokens(**({"url": server.url, "client_id": "me", "client_secret": "a:b/c"} | more))


class Time:
    """Moves by what is waited for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waited: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds

    def fetch(self, tokens: EndpointTokens) -> Any:
        return tokens.fetch(0, self.sleep, lambda: self.now)


@pytest.mark.parametrize(
    ("encodes", "credentials"), [(False, "Basic bWU6YTpiL2M="), (True, "Basic bWU6YSUzQWIlMkZj")], ids=["as it is", "encoded"]
)
def test_what_is_sent_and_taken(server: OAuthServer, encodes: bool, credentials: str) -> None:
    server.answers = [(200, {"access_token": TOKEN, "token_type": "Bearer"})]
    token = source(server, scope="a b", extensions=(("k", "v"),), encodes=encodes).fetch(0)
    assert (token.value, token.expires_at, token.principal, token.extensions) == (TOKEN, 5_000.0, "me", (("k", "v"),))
    ((path, headers, body),) = server.asked
    assert (path, body) == ("/token?tenant=1", "grant_type=client_credentials&scope=a+b")
    assert headers["Authorization"] == credentials
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_a_server_that_is_busy_is_asked_again_with_growing_waits(server: OAuthServer) -> None:
    server.answers = [(503, b"overloaded"), (429, {}), (200, {"access_token": TOKEN})]
    time = Time()
    assert time.fetch(source(server)).value == TOKEN
    assert time.waited == [0.1, 0.2]


def test_it_is_not_asked_for_ever(server: OAuthServer) -> None:
    server.answers = [(500, {"error": "server_error"})] * 20
    time = Time()
    with pytest.raises(OSError, match=r"127.0.0.1:\d+/token\?tenant=1: it answered 500 .*: server_error"):
        time.fetch(source(server, retry_backoff_max_ms=1_000))
    assert sum(time.waited) == pytest.approx(1.0)
    assert len(server.asked) == len(time.waited) + 1


@pytest.mark.parametrize(
    ("status", "said", "sentence"),
    [
        (401, {"error": "invalid_client", "error_description": "no such\nclient"}, r"answered 401 .*: invalid_client: no such\\nclient"),
        (302, b"", "answered 302 .*: no reason given"),
        (200, {"token": TOKEN}, "answered without an access_token"),
        (200, [], "answered without an access_token"),
        (200, {"access_token": 5}, "answered without an access_token"),
        (200, {"access_token": "opaque"}, "cannot be used: it is no JSON Web Token"),
        (200, b"<html>", "cannot be used"),
        (200, b"[" * 2_100_000, "cannot be used|without"),
    ],
)
def test_final_answers(server: OAuthServer, status: int, said: Any, sentence: str) -> None:
    server.answers = [(status, said)]
    time = Time()
    with pytest.raises(ValueError, match=sentence) as raised:
        time.fetch(source(server))
    assert time.waited == []
    assert "a:b/c" not in str(raised.value)


def test_a_server_that_is_not_there() -> None:
    tokens = EndpointTokens(url="http://127.0.0.1:1/", client_id="me", client_secret="s", retry_backoff_max_ms=300)
    with pytest.raises(OSError, match=r"http://127\.0\.0\.1:1/: .*refused"):
        Time().fetch(tokens)
    with pytest.raises(ValueError, match=r"https\.ca\.location holds no PEM certificates"):
        EndpointTokens(url="https://127.0.0.1:1/", client_id="me", client_secret="s", ca_location="/no").fetch(0)
