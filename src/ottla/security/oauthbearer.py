"""The client's side of OAUTHBEARER: a token instead of a password. Pure: time is an argument.

Sources: RFC 7628 (messages), RFC 6750 (what a token consists of), KIP-255 (extensions, unsecured tokens), KIP-768.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ACKNOWLEDGEMENT: Final = b"\x01"
"""What the client answers to a refusal, so that the server can end the exchange with an error."""
TOKEN_LETTERS_MAX: Final = 1_000_000
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_SHOWN_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token: `expires_at` in seconds since 1970; `extensions` are sent with it. Its repr shows no secret."""

    value: str = field(repr=False)
    expires_at: float
    principal: str = ""
    extensions: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be sent."""
        if len(self.value) > TOKEN_LETTERS_MAX or not _TOKEN.fullmatch(self.value):
            raise ValueError("a token is made of letters, digits and -._~+/ with = at its end (RFC 6750)")
        for key, value in self.extensions:
            if not _KEY.fullmatch(key) or key == "auth":
                raise ValueError(f"the name of an extension is made of letters, and is not auth: {key!r} (RFC 7628)")
            if not _VALUE.fullmatch(value):
                raise ValueError(f"the value of the extension {key} is made of printable ASCII (RFC 7628)")


def initial_response(token: OAuthToken) -> bytes:
    """The client's first message."""
    extensions = "".join(f"{key}={value}\x01" for key, value in token.extensions)
    return f"n,,\x01auth=Bearer {token.value}\x01{extensions}\x01".encode()


def refusal(message: bytes) -> str:
    """What a server's refusal says, for people: `status`, `scope` and `openid-configuration` of its JSON."""
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return repr(message[:_SHOWN_MAX].decode(errors="replace"))
    known = [f"{name} {said[name]}" for name in ("status", "scope", "openid-configuration") if isinstance(said.get(name), str)]
    return ", ".join(known)[:_SHOWN_MAX] or "no reason given"


def parse_jwt(text: str, extensions: tuple[tuple[str, str], ...] = ()) -> OAuthToken:
    """A signed token whose claims say when it expires; the signature is the broker's business. Raises ValueError."""
    parts = text.strip().split(".")
    if len(parts) != 3:
        raise ValueError("it is no JSON Web Token: header.claims.signature")
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON Web Token: its claims are no JSON") from error
    expires_at = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
        raise ValueError("its claims do not say when it expires (exp)")
    principal = claims.get("sub")
    return OAuthToken(text.strip(), float(expires_at), principal if isinstance(principal, str) else "", extensions)


def unsecured_jwt(
    claims: Mapping[str, Any], *, principal: str, life_seconds: int, now: float, extensions: tuple[tuple[str, str], ...] = ()
) -> OAuthToken:
    """A token without a signature, for brokers that accept any (development). `now`: seconds since 1970.

    Its times are whole milliseconds, as a broker's are: one that looks within the same millisecond would find it issued in the future.
    """
    now = int(now * 1000) / 1000
    everything = {**claims, "iat": now, "exp": now + life_seconds}
    value = f"{_encoded({'alg': 'none'})}.{_encoded(everything)}."
    return OAuthToken(value, now + life_seconds, principal, extensions)


def _encoded(value: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
