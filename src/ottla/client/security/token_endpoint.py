"""Tokens of an OAuth server for OAUTHBEARER: the client sends its id and secret, and gets a JSON Web Token (RFC 6749, 4.4).

Sources: KIP-768, KIP-1139 (names of the properties); Kafka's HttpJwtRetriever and Retry (what is sent, and tried again).
"""

import json
import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import SplitResult, quote_plus, urlencode, urlsplit

from ottla.client.security.tokens import Pairs, TokenSource
from ottla.security.oauthbearer import TOKEN_LETTERS_MAX, OAuthToken, parse_jwt

URL: Final = "sasl.oauthbearer.token.endpoint.url"
_SHOWN_MAX: Final = 300
_LATER: Final = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505}
"""Answers after which the server may give a token a little later; all others are final."""


@dataclass(frozen=True, kw_only=True)
class EndpointTokens(TokenSource):
    """Tokens of the server at `url`, for a client of its own (grant type client_credentials).

    `url` is https, or http to this machine alone (`check_url`). `encodes` encodes id and secret for a form before they go into the header
    Authorization, as RFC 6749 asks and many servers do not. `ca_location` or `ca_pem`: whom the client trusts, else whom the machine
    trusts. A server that cannot be reached, or answers 5xx, is asked again for `retry_backoff_max_ms` in all.
    """

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: Pairs = ()
    encodes: bool = False
    ca_location: str = ""
    ca_pem: str = field(default="", repr=False)
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000

    def fetch(self, now: float, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic) -> OAuthToken:
        """Ask for one. Raises OSError where the server cannot be reached or answers later, ValueError where it refuses."""
        end, wait = clock() + self.retry_backoff_max_ms / 1000, self.retry_backoff_ms / 1000
        while True:
            try:
                return self._ask(clock)
            except (OSError, HTTPException) as error:
                left = end - clock()
                if isinstance(error, ssl.SSLCertVerificationError) or left <= 0:
                    raise OSError(f"{self.url}: {error or type(error).__name__}") from error
                sleep(min(wait, left))
                wait *= 2

    def _ask(self, clock: Callable[[], float]) -> OAuthToken:
        connection = self._connect(urlsplit(self.url))
        try:
            connection.request("POST", self._target(), urlencode(self._form()), self._headers())
            if connection.sock is not None:
                connection.sock.settimeout(self.read_timeout_ms / 1000)
            answer = connection.getresponse()
            body, end = b"", clock() + self.read_timeout_ms / 1000
            while len(body) <= 2 * TOKEN_LETTERS_MAX and (part := answer.read1(2**16)):
                if clock() > end:
                    raise TimeoutError("its answer took too long")
                body += part
        finally:
            connection.close()
        if answer.status in _LATER:
            raise OSError(f"it answered {answer.status} {answer.reason}: {_reason(body)}")
        if answer.status not in (200, 201):
            raise ValueError(f"{self.url} answered {answer.status} {answer.reason}: {_reason(body)}")
        try:
            token = json.loads(body)["access_token"]
            return parse_jwt(token, self.extensions)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.url} answered without an access_token") from error
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the token of {self.url} cannot be used: {error}") from error

    def _connect(self, url: SplitResult) -> HTTPConnection:
        timeout, host = self.connect_timeout_ms / 1000, url.hostname or ""
        if url.scheme == "http":
            return HTTPConnection(host, url.port, timeout=timeout)
        try:
            context = ssl.create_default_context(cafile=self.ca_location or None, cadata=self.ca_pem or None)
        except (OSError, ValueError) as error:
            name = "https.ca.location" if self.ca_location else "https.ca.pem"
            raise ValueError(f"{name} holds no PEM certificates that can be read: {error}") from error
        return HTTPSConnection(host, url.port, timeout=timeout, context=context)

    def _target(self) -> str:
        url = urlsplit(self.url)
        return (url.path or "/") + (f"?{url.query}" if url.query else "")

    def _form(self) -> dict[str, str]:
        return {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})

    def _headers(self) -> dict[str, str]:
        encode: Callable[[str], str] = quote_plus if self.encodes else str
        credentials = f"{encode(self.client_id)}:{encode(self.client_secret)}".encode()
        return {
            "Accept": "application/json",
            "Authorization": f"Basic {b64encode(credentials).decode()}",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }


def check_url(url: str) -> None:
    """Raises ValueError unless the secret may be sent there: over https, or to this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(f"{URL} is no URL: {url!r}") from None
    if parts.username or parts.password or parts.fragment:
        raise ValueError(f"{URL} has a user, a password or a fragment: the client's id and secret have properties of their own")
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_here(host))):
        raise ValueError(
            f"{URL} must be https://... of an OAuth server (http:// only to this machine) or file:///path of a token, not {url!r}"
        )


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _reason(body: bytes) -> str:
    """What an answer says (RFC 6749, 5.2), for people."""
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    known = [str(said[name]) for name in ("error", "error_description") if said.get(name)] if isinstance(said, dict) else []
    return ascii(": ".join(known) or body.decode(errors="replace"))[1:-1][:_SHOWN_MAX] or "no reason given"
