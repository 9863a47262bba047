"""Tokens for OAUTHBEARER: from a callback of the application, from a file, or without a signature; fetched once and used until they age.

Sources: KIP-255 (unsecured tokens, refresh), KIP-768 (files); confluent-kafka's `oauth_cb`; librdkafka's `sasl.oauthbearer.config`.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.client.errors import AuthenticationError
from ottla.security.oauthbearer import TOKEN_LETTERS_MAX, OAuthToken, parse_jwt, unsecured_jwt

REFRESH_FACTOR: Final = 0.8
"""The part of a token's life after which new connections get another one (Kafka: sasl.login.refresh.window.factor)."""

OAuthCallback = Callable[[str], tuple[Any, ...]]
"""confluent-kafka's: takes sasl.oauthbearer.config; gives a token, its expiry (seconds since 1970), and maybe principal and extensions."""
Pairs = tuple[tuple[str, str], ...]


class TokenSource(ABC):
    """Where tokens come from. Frozen, so that settings are hashable."""

    @abstractmethod
    def fetch(self, now: float) -> OAuthToken:
        """A fresh token; `now`: seconds since 1970. Raises ValueError, OSError, or what a callback raises."""


@dataclass(frozen=True)
class CallbackTokens(TokenSource):
    """Tokens of the application."""

    call: OAuthCallback
    config: str = field(default="", repr=False)

    def fetch(self, now: float) -> OAuthToken:
        """Call it."""
        given = self.call(self.config)
        if not isinstance(given, tuple) or not 2 <= len(given) <= 4 or not isinstance(given[0], str):
            raise ValueError("it must return (token, expiry) or (token, expiry, principal, extensions)")
        principal, extensions = [*given[2:], "", {}][:2] if len(given) < 4 else given[2:]
        return OAuthToken(given[0], float(given[1]), str(principal or ""), tuple(dict(extensions or {}).items()))


@dataclass(frozen=True)
class FileTokens(TokenSource):
    """A JSON Web Token in a file, which something else keeps fresh."""

    path: str
    extensions: Pairs = ()

    def fetch(self, now: float) -> OAuthToken:
        """Read it."""
        with Path(self.path).open(encoding="ascii") as file:
            return parse_jwt(file.read(TOKEN_LETTERS_MAX + 1), self.extensions)


@dataclass(frozen=True)
class UnsecuredTokens(TokenSource):
    """Tokens without a signature: anyone can make them."""

    principal: str
    claims: tuple[tuple[str, str | tuple[str, ...]], ...]
    life_seconds: int = 3_600
    extensions: Pairs = ()

    def fetch(self, now: float) -> OAuthToken:
        """Make one."""
        claims = dict(self.claims)
        return unsecured_jwt(claims, principal=self.principal, life_seconds=self.life_seconds, now=now, extensions=self.extensions)


class TokenProvider:
    """Keeps the token of a source until it ages, for all connections of a client. Equal by its source; pickled without the token."""

    def __init__(self, source: TokenSource, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self.source = source
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._token: OAuthToken | None = None
        self._refresh_at = 0.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenProvider) and other.source == self.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __repr__(self) -> str:
        return f"TokenProvider({self.source!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenProvider, (self.source,)

    def token(self) -> OAuthToken:
        """The current token, or a fresh one. Raises AuthenticationError where there is none, or it has expired."""
        with self._lock:
            now = self._now()
            if self._token is None or now >= self._refresh_at:
                self._token = self._fetch(now)
                self._refresh_at = now + (self._token.expires_at - now) * REFRESH_FACTOR
            return self._token

    def lifetime_ms(self, token: OAuthToken) -> int:
        """How long a token is valid from now on."""
        return max(int((token.expires_at - self._now()) * 1000), 1)

    def _now(self) -> float:
        return self._clock_ns() / 1e9

    def _fetch(self, now: float) -> OAuthToken:
        try:
            token = self.source.fetch(now)
        except Exception as error:  # a callback of the application may raise anything
            raise AuthenticationError(f"no token for OAUTHBEARER: {type(self.source).__name__} failed: {error}") from error
        if token.expires_at <= now:
            raise AuthenticationError(f"no token for OAUTHBEARER: it expired {now - token.expires_at:.0f} s ago")
        return token


def parse_unsecured(config: str) -> UnsecuredTokens:
    """librdkafka's sasl.oauthbearer.config: `principal=alice scope=a,b lifeSeconds=60 extension_name=value`. Raises ValueError."""
    values = dict(parse_pairs("sasl.oauthbearer.config", config.split()))
    extensions = taken(values, "extension_")
    principal_claim, scope_claim = values.pop("principalClaimName", "sub"), values.pop("scopeClaimName", "scope")
    principal, scope = values.pop("principal", ""), values.pop("scope", "")
    life_seconds = _seconds("lifeSeconds", values.pop("lifeSeconds", "3600"))
    if values:
        raise ValueError(f"sasl.oauthbearer.config has {min(values)}, which is not supported: leave it out")
    if not principal:
        raise ValueError("sasl.oauthbearer.config needs principal=... for unsecured tokens")
    claims: tuple[tuple[str, str | tuple[str, ...]], ...] = ((principal_claim, principal),)
    if scope:
        claims += ((scope_claim, tuple(scope.split(","))),)
    return UnsecuredTokens(principal, claims, life_seconds, extensions)


def parse_unsecured_options(options: Mapping[str, str]) -> UnsecuredTokens:
    """The options of Kafka's OAuthBearerLoginModule: `unsecuredLoginStringClaim_sub="alice"` and others. Raises ValueError."""
    values = dict(options)
    extensions = taken(values, "unsecuredLoginExtension_")
    claims = taken(values, "unsecuredLoginStringClaim_")
    principal_claim = values.pop("unsecuredLoginPrincipalClaimName", "sub")
    life_seconds = _seconds("unsecuredLoginLifetimeSeconds", values.pop("unsecuredLoginLifetimeSeconds", "3600"))
    if values:
        raise ValueError(f"sasl.jaas.config has the option {min(values)}, which is not supported: leave it out")
    principal = dict(claims).get(principal_claim)
    if not principal:
        raise ValueError(f'sasl.jaas.config needs unsecuredLoginStringClaim_{principal_claim}="...": the name of the user')
    return UnsecuredTokens(principal, claims, life_seconds, extensions)


def taken(values: dict[str, str], prefix: str) -> Pairs:
    """Take the values whose names begin so, without that."""
    names = [name for name in values if name.startswith(prefix)]
    return tuple((name.removeprefix(prefix), values.pop(name)) for name in names)


def parse_pairs(name: str, words: Iterable[str]) -> Pairs:
    """Words of a property, each `name=value`. Raises ValueError."""
    pairs = [word.partition("=") for word in words]
    for key, _, value in pairs:
        if not key or not value:
            raise ValueError(f"{name} must hold name=value, not {key!r}")
    return tuple((key, value) for key, _, value in pairs)


def _seconds(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 2**31:
        raise ValueError(f"{name} must be a number of seconds, not {text!r}")
    return int(text)
