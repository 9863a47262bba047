"""The broker's side of OAUTHBEARER: the message with a token, its claims, and which key signed it. Pure: time is an argument.

Whether a signature is right is decided by `verify`, which the broker passes (`broker/network/token_keys.py`).
Sources: RFC 7628 (messages), OAuthBearerSaslServer, BrokerJwtValidator, OAuthBearerUnsecuredValidatorCallbackHandler; KIP-255, KIP-768.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.security.oauthbearer import ACKNOWLEDGEMENT
from ottla.security.sasl_server import AuthenticationFailed, SaslServer

_HEADER: Final = re.compile(rb"n,(?:a=((?:[^=,]|=2C|=3D)+))?,")
_KEY: Final = re.compile(rb"[A-Za-z]+")
_BEARER: Final = re.compile(rb"(?i:Bearer) +([A-Za-z0-9\-._~+/]+=*)")
_INVALID: Final = '{"status":"invalid_token"}'


class InvalidToken(ValueError):
    """A token that is not accepted, with the reason for the log: it repeats no part of the token but names of claims."""


Verify = Callable[[str, str, str], Mapping[str, Any]]
"""From the token, its `alg` and its `kid` to its claims; raises InvalidToken where no known key has signed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token must claim. `verify` None: tokens without a signature are accepted, and no others."""

    verify: Verify | None
    audiences: tuple[str, ...] = ()
    issuer: str = ""
    user_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: int = 30


class TokenServer(SaslServer):
    """OAUTHBEARER. A refusal is first the answer, with a reason as JSON; it ends the exchange when the client has acknowledged it."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        self._refused_because = ""

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Check the token of a first message; fail at a second message."""
        if self._refused_because:
            what = self._refused_because if token == ACKNOWLEDGEMENT else "a refusal that was not acknowledged"
            raise AuthenticationFailed(what, _INVALID)
        try:
            authorization_id, bearer = _first_message(token)
        except ValueError as error:
            raise AuthenticationFailed("a malformed message", "Invalid OAUTHBEARER client first message") from error
        try:
            user, expires_at_ms = check_token(bearer, self._rules, now_ms)
        except InvalidToken as error:
            self._refused_because = str(error)
            return _INVALID.encode()
        if authorization_id not in ("", user):
            refusal = "Authentication failed: Client requested an authorization id that is different from the token's principal name"
            raise AuthenticationFailed(f"user {user!r} asked for the rights of another", refusal)
        self.expires_at_ms = expires_at_ms
        self.user = user
        return b""


def _first_message(message: bytes) -> tuple[str, str]:
    """The authorization id and the token. Raises ValueError."""
    head, *pairs = message.split(b"\x01")
    header = _HEADER.fullmatch(head)
    if header is None or pairs[-2:] != [b"", b""]:
        raise ValueError("no header, or no end")
    values: dict[bytes, bytes] = {}
    for pair in pairs[:-2]:
        key, equals, value = pair.partition(b"=")
        if not equals or not _KEY.fullmatch(key) or key in values:
            raise ValueError("no pairs of names and values")
        values[key] = value
    bearer = _BEARER.fullmatch(values.get(b"auth", b""))
    if bearer is None:
        raise ValueError("no token")
    authorization_id = (header[1] or b"").replace(b"=2C", b",").replace(b"=3D", b"=").decode()
    return authorization_id, bearer[1].decode()


def check_token(token: str, rules: TokenRules, now_ms: int) -> tuple[str, int]:
    """The user of a JSON Web Token, and when it expires (ms since 1970). Raises InvalidToken."""
    header_part, claims_part, signature = parts if len(parts := token.split(".")) == 3 else ("", "", "")
    header = _json(header_part, "the header")
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or not isinstance(key_id, str):
        raise InvalidToken("its header has no alg, or a kid that is no text")
    if rules.verify is None:
        if algorithm != "none" or signature:
            raise InvalidToken("it is signed, and only tokens without a signature are accepted here")
        claims: Mapping[str, Any] = _json(claims_part, "the claims")
    elif algorithm == "none" or not signature:
        raise InvalidToken("it is not signed")
    else:
        claims = rules.verify(token, algorithm, key_id)
    return _user(claims, rules), _check_times(claims, rules, now_ms)


def _user(claims: Mapping[str, Any], rules: TokenRules) -> str:
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise InvalidToken(f"its claim {rules.user_claim} names no user")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise InvalidToken("its claim iss is not the expected issuer")
    audience = claims.get("aud", ())
    if rules.audiences and not set(rules.audiences) & set([audience] if isinstance(audience, str) else _texts(audience, "aud")):
        raise InvalidToken("its claim aud has no expected audience")
    scope = claims.get(rules.scope_claim, "")
    if not isinstance(scope, str):
        _texts(scope, rules.scope_claim)
    return user


def _texts(value: object, claim: str) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise InvalidToken(f"its claim {claim} is no text and no list of texts")
    return list(value)


def _check_times(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> int:
    """When the token expires, in ms since 1970. Kafka requires `exp`, and `iat` of signed tokens."""
    expires_at_ms, skew_ms = _milliseconds(claims, "exp"), rules.clock_skew_s * 1000
    if expires_at_ms is None:
        raise InvalidToken("it does not say when it expires (exp)")
    issued_at_ms, not_before_ms = _milliseconds(claims, "iat"), _milliseconds(claims, "nbf")
    if issued_at_ms is None and rules.verify is not None:
        raise InvalidToken("it does not say when it was issued (iat)")
    if now_ms >= expires_at_ms + skew_ms:
        raise InvalidToken(f"it expired {(now_ms - expires_at_ms) // 1000} s ago")
    if max(issued_at_ms or 0, not_before_ms or 0) > now_ms + skew_ms:
        raise InvalidToken("it is not valid yet (iat, nbf)")
    return expires_at_ms


def _milliseconds(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**40:
        raise InvalidToken(f"its claim {name} is no time")
    return int(value * 1000)


def _json(part: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError) as error:
        raise InvalidToken(f"{what} of the token is no JSON") from error
    if not isinstance(value, dict):
        raise InvalidToken(f"{what} of the token is no JSON object")
    return value
