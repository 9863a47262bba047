"""The messages of OAUTHBEARER (Kafka: OAuthBearerClientInitialResponseTest, OAuthBearerUnsecuredJwsTest)."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from ottla.security.oauthbearer import OAuthToken, initial_response, parse_jwt, refusal, unsecured_jwt

RFC_TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="


def test_the_message_of_the_standard() -> None:
    token = OAuthToken(RFC_TOKEN, 1.0, "user@example.com", (("host", "server.example.com"), ("port", "143")))
    assert initial_response(token) == f"n,,\x01auth=Bearer {RFC_TOKEN}\x01host=server.example.com\x01port=143\x01\x01".encode()
    assert initial_response(OAuthToken("abc.def.ghi", 1.0)) == b"n,,\x01auth=Bearer abc.def.ghi\x01\x01"


@pytest.mark.parametrize("value", ["", "a b", "a\x01b", "a,b", "=", "ü", "a" * 1_000_001])
def test_what_is_no_token(value: str) -> None:
    with pytest.raises(ValueError, match="RFC 6750"):
        OAuthToken(value, 1.0)


@pytest.mark.parametrize(("key", "value"), [("auth", "x"), ("a1", "x"), ("", "x"), ("a", ""), ("a", "x\x01y"), ("a", "ü")])
def test_what_is_no_extension(key: str, value: str) -> None:
    with pytest.raises(ValueError, match="RFC 7628"):
        OAuthToken("t", 1.0, "", ((key, value),))


def test_no_secret_in_a_repr() -> None:
    assert "hidden" not in repr(OAuthToken("hidden", 1.0))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b'{"status":"invalid_token"}', "status invalid_token"),
        (b'{"status":"insufficient_scope", "scope":"kafka"}', "status insufficient_scope, scope kafka"),
        (b"{}", "no reason given"),
        (b'{"status": 7}', "no reason given"),
        (b"no json", "'no json'"),
        (b"[1]", "'[1]'"),
        (b"\xff", "'\N{REPLACEMENT CHARACTER}'"),
    ],
)
def test_what_a_refusal_says(message: bytes, text: str) -> None:
    assert refusal(message) == text


def test_a_refusal_is_not_shown_at_any_length() -> None:
    assert len(refusal(json.dumps({"status": "x" * 10_000}).encode())) == 300


def test_json_that_is_nested_without_end_is_no_token_and_no_reason() -> None:
    assert refusal(b"[" * 100_000).startswith("'[[[")
    claims = urlsafe_b64encode(b"[" * 100_000).decode().rstrip("=")
    with pytest.raises(ValueError, match="its claims are no JSON"):
        parse_jwt(f"a.{claims}.b")


def test_an_unsecured_token_has_no_signature() -> None:
    token = unsecured_jwt({"sub": "alice", "scope": ["a"]}, principal="alice", life_seconds=60, now=1_000.5009)
    header, claims, signature = token.value.split(".")
    assert signature == ""
    assert json.loads(urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4))) == {
        "sub": "alice",
        "scope": ["a"],
        "iat": 1_000.5,
        "exp": 1_060.5,
    }
    assert token.expires_at == 1_060.5
    assert parse_jwt(token.value) == token


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no JSON Web Token: header.claims.signature"),
        ("a.b", "header.claims.signature"),
        ("a.!!!.c", "its claims are no JSON"),
        ("a.e30.c", r"when it expires \(exp\)"),
        ("a.W10.c", r"when it expires \(exp\)"),
        ("a.eyJleHAiOnRydWV9.c", r"when it expires \(exp\)"),
    ],
)
def test_what_is_no_json_web_token(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_jwt(text)
