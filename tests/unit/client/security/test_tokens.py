"""Tokens for OAUTHBEARER: where they come from, and how long one is used."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from ottla.client.errors import AuthenticationError
from ottla.client.security.tokens import (
    CallbackTokens,
    FileTokens,
    TokenProvider,
    UnsecuredTokens,
    parse_unsecured,
    parse_unsecured_options,
)
from ottla.security.oauthbearer import OAuthToken, parse_jwt, unsecured_jwt


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> int:
        return int(self.now * 1e9)


def test_a_callback_is_called_once_until_its_token_ages() -> None:
    clock, calls = Clock(), []

    def callback(config: str) -> tuple[str, float]:
        calls.append(config)
        return f"t{len(calls)}", clock.now + 100

    provider = TokenProvider(CallbackTokens(callback, "scope=x"), clock_ns=clock)
    assert provider.token().value == "t1"
    clock.now += 79
    assert provider.token().value == "t1"
    clock.now += 1
    second = provider.token()
    assert second.value == "t2"
    assert calls == ["scope=x", "scope=x"]
    clock.now += 40
    assert provider.lifetime_ms(second) == 60_000


@pytest.mark.parametrize(
    ("given", "token"),
    [
        (("t", 5), OAuthToken("t", 5.0)),
        (("t", 5.5, "alice"), OAuthToken("t", 5.5, "alice")),
        (("t", 5, "alice", {"a": "b"}), OAuthToken("t", 5.0, "alice", (("a", "b"),))),
        (("t", 5, None, None), OAuthToken("t", 5.0)),
    ],
)
def test_what_a_callback_may_return(given: tuple[Any, ...], token: OAuthToken) -> None:
    assert CallbackTokens(lambda config: given).fetch(0) == token


@pytest.mark.parametrize("given", ["token", ("t",), (b"t", 5), None, ("t", "soon"), ("t t", 5), ("t", 5, "", {"auth": "x"})])
def test_what_it_may_not(given: Any) -> None:
    provider = TokenProvider(CallbackTokens(lambda config: given), clock_ns=lambda: 0)
    with pytest.raises(AuthenticationError, match="no token for OAUTHBEARER: CallbackTokens failed"):
        provider.token()


def test_a_callback_that_fails_is_called_again() -> None:
    answers: list[Any] = [RuntimeError("the identity provider is down"), ("t", 5e9)]

    def callback(config: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    provider = TokenProvider(CallbackTokens(callback))
    with pytest.raises(AuthenticationError, match="the identity provider is down"):
        provider.token()
    assert provider.token().value == "t"


def test_an_expired_token_is_not_sent() -> None:
    provider = TokenProvider(CallbackTokens(lambda config: ("secret", 990)), clock_ns=Clock())
    with pytest.raises(AuthenticationError, match="it expired 10 s ago") as raised:
        provider.token()
    assert "secret" not in str(raised.value)


def test_a_file_is_read_again_when_its_token_ages(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "token"
    provider = TokenProvider(FileTokens(str(path)), clock_ns=clock)
    with pytest.raises(AuthenticationError, match=r"FileTokens failed: .*No such file"):
        provider.token()
    for principal in ("alice", "bob"):
        path.write_text(unsecured_jwt({"sub": principal}, principal="", life_seconds=100, now=clock.now).value + "\n")
        token = provider.token()
        assert (token.principal, token.expires_at) == (principal, clock.now + 100)
        clock.now += 90


def test_unsecured_tokens_by_librdkafkas_configuration() -> None:
    source = parse_unsecured(
        "principalClaimName=azp principal=admin scopeClaimName=roles scope=role1,role2 lifeSeconds=600 extension_traceId=123"
    )
    assert source == UnsecuredTokens("admin", (("azp", "admin"), ("roles", ("role1", "role2"))), 600, (("traceId", "123"),))
    token = source.fetch(1_000)
    assert (token.principal, token.expires_at, token.extensions) == ("admin", 1_600, (("traceId", "123"),))
    assert parse_jwt(parse_unsecured("principal=a").fetch(0).value).principal == "a"


def test_unsecured_tokens_by_kafkas_options() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginStringClaim_team": "x",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_a": "b",
    }
    assert parse_unsecured_options(options) == UnsecuredTokens("alice", (("sub", "alice"), ("team", "x")), 60, (("a", "b"),))


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("", "needs principal="),
        ("alice", "must hold name=value"),
        ("principal=a color=red", "has color, which is not supported"),
        ("principal=a lifeSeconds=soon", "lifeSeconds must be a number of seconds"),
        ("principal=a lifeSeconds=0", "lifeSeconds must be a number of seconds"),
    ],
)
def test_refused_configurations(config: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_unsecured(config)


def test_refused_options() -> None:
    with pytest.raises(ValueError, match="the option unsecuredLoginListClaim_x, which is not supported"):
        parse_unsecured_options({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginListClaim_x": "y"})
    with pytest.raises(ValueError, match="needs unsecuredLoginStringClaim_sub="):
        parse_unsecured_options({"unsecuredLoginStringClaim_team": "x"})


def test_a_provider_is_its_source() -> None:
    first, second = TokenProvider(UnsecuredTokens("a", ())), TokenProvider(UnsecuredTokens("b", ()))
    assert first != second
    assert first == pickle.loads(pickle.dumps(first))
    assert len({first, second, TokenProvider(UnsecuredTokens("a", ()))}) == 2
    assert "secret" not in repr(TokenProvider(CallbackTokens(repr, "client_secret=secret")))
