"""Authentication against a scripted broker. Against Apache Kafka: tests/kafka/test_security.py."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.errors import AuthenticationError
from ottla.client.network.authentication import authenticate
from ottla.client.security.properties import SecuritySettings
from ottla.client.security.tokens import TokenProvider, UnsecuredTokens
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
PLAIN = SecuritySettings(protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="u", password="p")
TOKENS = SecuritySettings(
    protocol="SASL_PLAINTEXT",
    sasl_mechanism="OAUTHBEARER",
    tokens=TokenProvider(UnsecuredTokens("alice", (("sub", "alice"),), life_seconds=60)),
)
SCRAM = SecuritySettings(protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", username="u", password="p")


class Server:
    """Accepts PLAIN and SCRAM-SHA-256 with `password`; `code` refuses."""

    def __init__(self, *, code: ErrorCode = ErrorCode.NONE, at: int = AUTHENTICATE, password: str = "p") -> None:
        self.code, self.at, self.password = code, at, password
        self.said: list[bytes] = []

    def __call__(self, api_key: int, request: Any) -> Any:
        code = self.code if api_key == self.at else ErrorCode.NONE
        if api_key == HANDSHAKE:
            return {"error_code": code, "mechanisms": ("PLAIN", "SCRAM-SHA-256")}
        self.said.append(bytes(request.auth_bytes))
        answer = self.scram() if self.said[0].startswith(b"n,") else b""
        message = "Go away" if code else None
        return {"error_code": code, "error_message": message, "auth_bytes": answer, "session_lifetime": 7_000}

    def scram(self) -> bytes:
        bare = self.said[0].removeprefix(b"n,,")
        first = b"r=%sserver,s=%s,i=4096" % (bare.partition(b"r=")[2], b64encode(b"salt"))
        if len(self.said) == 1:
            return first
        without_proof, _, proof = self.said[1].partition(b",p=")
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), b"salt", 4_096)
        signed = b",".join((bare, first, without_proof))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        if self.password == "p":
            assert bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True)) == client_key
        return b"v=" + b64encode(hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256"))


def run(scripted: Any, server: Server, security: SecuritySettings) -> int:
    scripted.broker("a:1", server)
    brokers = scripted.brokers()
    return authenticate(brokers.connection(BrokerEndpoint(1, "a", 1), brokers.deadline("x")), security, "nonce")


def test_plain_gives_the_session_s_lifetime(scripted: Any) -> None:
    server = Server()
    assert run(scripted, server, PLAIN) == 7_000
    assert server.said == [b"\0u\0p"]


def test_scram_with_a_server_that_knows_the_password_too(scripted: Any) -> None:
    server = Server()
    assert run(scripted, server, SCRAM) == 7_000
    assert server.said[0] == b"n,,n=u,r=nonce"


def test_a_server_that_accepts_any_password_is_rejected(scripted: Any) -> None:
    with pytest.raises(AuthenticationError, match="broker a:1 could not prove that it knows the password of u"):
        run(scripted, Server(password="other"), SCRAM)


@pytest.mark.parametrize(
    ("code", "at", "sentence"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, HANDSHAKE, "does not accept sasl.mechanism=PLAIN: it accepts PLAIN, SCRAM-SHA-256"),
        (ErrorCode.ILLEGAL_SASL_STATE, HANDSHAKE, r"does not accept SASL on this port \(ILLEGAL_SASL_STATE\): check security.protocol"),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, AUTHENTICATE, r"broker a:1 refused user u \(PLAIN\): Go away"),
    ],
)
def test_refusals(scripted: Any, code: ErrorCode, at: int, sentence: str) -> None:
    with pytest.raises(AuthenticationError, match=sentence):
        run(scripted, Server(code=code, at=at), PLAIN)


class TokenServer:
    """Answers a token with `message`; the acknowledgement of a refusal is answered with an error."""

    def __init__(self, message: bytes = b"", *, code: ErrorCode = ErrorCode.NONE, lifetime_ms: int = 0) -> None:
        self.message, self.code, self.lifetime_ms = message, code, lifetime_ms
        self.said: list[bytes] = []

    def __call__(self, api_key: int, request: Any) -> Any:
        if api_key == HANDSHAKE:
            return {"error_code": ErrorCode.NONE, "mechanisms": ("OAUTHBEARER",)}
        self.said.append(bytes(request.auth_bytes))
        is_first = len(self.said) == 1
        code = self.code if is_first else ErrorCode.SASL_AUTHENTICATION_FAILED
        answer = self.message if is_first else b""
        return {"error_code": code, "error_message": None, "auth_bytes": answer, "session_lifetime": self.lifetime_ms}


def test_a_token_ends_the_session_unless_the_broker_ends_it_earlier(scripted: Any) -> None:
    server = TokenServer()
    assert 50_000 < run(scripted, server, TOKENS) <= 60_000
    assert server.said[0].startswith(b"n,,\x01auth=Bearer ")
    assert server.said[0].endswith(b"\x01\x01")


def test_a_broker_that_ends_sessions_earlier_than_the_token(scripted: Any) -> None:
    assert run(scripted, TokenServer(lifetime_ms=7_000), TOKENS) == 7_000


def test_a_refused_token_is_acknowledged_and_its_reason_reported(scripted: Any) -> None:
    server = TokenServer(b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationError, match=r"broker a:1 refused the token of alice \(OAUTHBEARER\): status invalid_token"):
        run(scripted, server, TOKENS)
    assert server.said[1:] == [b"\x01"]


def test_an_error_at_once(scripted: Any) -> None:
    with pytest.raises(AuthenticationError, match=r"refused the token of alice \(OAUTHBEARER\): SASL_AUTHENTICATION_FAILED"):
        run(scripted, TokenServer(code=ErrorCode.SASL_AUTHENTICATION_FAILED), TOKENS)
