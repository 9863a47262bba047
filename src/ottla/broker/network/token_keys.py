"""The public keys of an issuer of tokens (JWKS), and the check of a token's signature with them.

Source: RefreshingHttpsJwks, with its bounds: keys are read again every hour, and early, once a minute at most, for a `kid` that is not
among them. Algorithms are pinned: RSA and elliptic curves; never HMAC, whose "key" would be public. As in Java, the server may redirect,
but not to an address without encryption.
"""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

from ottla.broker.network.tls import JKS, trusted_of_pkcs12
from ottla.config import ConfigError
from ottla.extras import MissingExtraError, require
from ottla.security.token_validation import InvalidToken

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
EARLY_REFRESH_MS: Final = 60_000
KEYS_BYTES_MAX: Final = 1024 * 1024
KEYS_MAX: Final = 100
TIMEOUT_S: Final = 10.0
_Keys = Mapping[str, tuple[Any, str | None]]
_NAME: Final = "sasl.oauthbearer.jwks.endpoint.url"


class TokenKeys:
    """The keys at a URL: `https://...`, or `file:///...`. They are read when it is made. Raises ConfigError.

    `truststore`: the options `ssl.truststore.*`, which say whose certificate an https server must have; without, those that the machine
    trusts.
    """

    def __init__(self, url: str, *, refresh_ms: int, clock_ms: Callable[[], int], truststore: Mapping[str, str] | None = None) -> None:
        try:
            require("security", "jwt", "cryptography")
        except MissingExtraError as error:
            raise ConfigError(f"tokens that are signed need a package: {error}") from error
        if urlsplit(url).scheme not in ("https", "file"):
            raise ConfigError(f"{_NAME}: write https://... or file:///...")
        self._url = url
        self._tls = _tls(truststore or {}) if urlsplit(url).scheme == "https" else None
        self._refresh_ms = refresh_ms
        self._clock_ms = clock_ms
        self._reading: asyncio.Future[_Keys] | None = None
        try:
            self._keys = _read(url, self._tls)
        except (OSError, ValueError, HTTPException, RecursionError) as error:
            is_stranger = isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError)
            hint = "; ssl.truststore.* in the listener's oauthbearer.sasl.jaas.config says whom to trust" if is_stranger else ""
            raise ConfigError(f"{_NAME}: the keys cannot be read: {error}{hint}") from error
        self._read_at_ms = clock_ms()

    def verify(self, token: str, algorithm: str, key_id: str) -> Mapping[str, Any]:
        """The claims of a token that one of the keys has signed. Raises InvalidToken."""
        import jwt

        if algorithm not in ALGORITHMS:
            raise InvalidToken("its alg is not one of those that are accepted")
        now_ms = self._clock_ms()
        key, own_algorithm = self._keys.get(key_id, (None, None))
        if now_ms - self._read_at_ms >= (EARLY_REFRESH_MS if key is None else self._refresh_ms):
            self._read_again(now_ms)
        if key is None:
            raise InvalidToken("no known key has its kid")
        if own_algorithm not in (None, algorithm):
            raise InvalidToken("its alg is not that of its key")
        try:
            claims = jwt.decode(token, key, algorithms=[algorithm], options=_NO_CLAIMS)
        except (jwt.PyJWTError, TypeError) as error:  # TypeError: a key of RSA for ES256, and the like
            raise InvalidToken(f"its signature is not accepted ({type(error).__name__})") from error
        return dict(claims)

    def _read_again(self, now_ms: int) -> None:
        """In another thread: this token is judged by the keys that are there."""
        if self._reading is None:
            self._read_at_ms = now_ms
            self._reading = asyncio.get_running_loop().run_in_executor(None, _read, self._url, self._tls)
            self._reading.add_done_callback(self._was_read)

    def _was_read(self, reading: "asyncio.Future[_Keys]") -> None:
        self._reading = None
        if reading.cancelled():
            return
        error = reading.exception()
        if error is None:
            self._keys = reading.result()
        else:
            log.warning("%s: the keys cannot be read again, those from before stay in use: %s", _NAME, error)


_NO_CLAIMS: Any = {"verify_signature": True} | {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
"""Claims are checked by `security.token_validation`, whose time is an argument."""


class _StaysEncrypted(HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme != "https":
            raise ValueError("the server redirects to an address without encryption")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _tls(truststore: Mapping[str, str]) -> ssl.SSLContext:
    location, certificates = truststore.get("ssl.truststore.location"), truststore.get("ssl.truststore.certificates")
    kind = truststore.get("ssl.truststore.type", "JKS")
    try:
        if not (location or certificates):
            return ssl.create_default_context()
        if location and certificates:
            raise ValueError("give either ssl.truststore.location or ssl.truststore.certificates")
        if kind == "PKCS12" and location:
            return ssl.create_default_context(cadata=trusted_of_pkcs12(location, truststore.get("ssl.truststore.password", "")))
        if kind != "PEM":
            raise ValueError(JKS.format(name="ssl.truststore.type"))
        return ssl.create_default_context(cafile=location, cadata=certificates)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{_NAME}: the certificates to trust cannot be read: {error}") from error


def _fetch(url: str, tls: ssl.SSLContext | None) -> bytes:
    end = time.monotonic() + TIMEOUT_S
    data = b""
    with build_opener(HTTPSHandler(context=tls), _StaysEncrypted).open(url, timeout=TIMEOUT_S) as response:
        while len(data) <= KEYS_BYTES_MAX and (part := response.read1(2**16)):
            if time.monotonic() > end:
                raise TimeoutError("its answer took too long")
            data += part
    return data


def _read(url: str, tls: ssl.SSLContext | None) -> _Keys:
    """The keys by `kid`, each with the algorithm that it is for, or None. Raises ValueError or OSError."""
    import jwt

    if urlsplit(url).scheme == "file":
        with Path(unquote(urlsplit(url).path)).open("rb") as file:
            data = file.read(KEYS_BYTES_MAX + 1)
    else:
        data = _fetch(url, tls)
    if len(data) > KEYS_BYTES_MAX:
        raise ValueError(f"more than {KEYS_BYTES_MAX} bytes")
    found = json.loads(data)
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list) or len(keys) > KEYS_MAX:
        raise ValueError(f'no JSON {{"keys": [...]}} with at most {KEYS_MAX} keys')
    usable: dict[str, tuple[Any, str | None]] = {}
    for each in keys:
        if isinstance(each, dict) and each.get("kty") in ("RSA", "EC") and each.get("use", "sig") == "sig":
            try:
                usable[str(each.get("kid", ""))] = jwt.PyJWK(each).key, each.get("alg")
            except jwt.PyJWTError as error:
                log.warning("%s: a key is left out: %s", _NAME, error)
    if not usable:
        raise ValueError("there is no key of RSA or an elliptic curve for signatures")
    return usable
