"""The broker's side of PLAIN and SCRAM: tokens of a client in, tokens and a user out. Pure: randomness is an argument.

A refusal is an AuthenticationFailed, whose text is for the client; its `cause` is for the log alone, and names no secret.
Sources: PlainSaslServer (RFC 4616), ScramSaslServer and ScramMessages (RFC 5802, 7677). Better than Kafka: the exchange of an unknown
user of SCRAM goes on to the proof, so that a stranger does not learn from the step who exists; the channel binding `c=` is compared.
"""

import hmac
import re
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hashlib import new as new_hash
from typing import Final, NamedTuple

from ottla.security.scram import HASHES, ITERATIONS_MIN

_CLIENT_FIRST: Final = re.compile(
    rb"n,(?:a=((?:[^=,]|=2C|=3D)+))?,(n=((?:[^=,]|=2C|=3D)+),r=([\x21-\x2B\x2D-\x7E]+)((?:,[A-Za-z]+=[^,]*)*))"
)
_CLIENT_FINAL: Final = re.compile(rb"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2B\x2D-\x7E]+)(?:,[A-Za-z]+=[^,]*)*),p=([A-Za-z0-9+/]+={0,2})")
_SALT_BYTES: Final = 16


class AuthenticationFailed(Exception):
    """The client is not let in. `cause` says why, for the broker's log; without a message, one sentence serves all causes."""

    def __init__(self, cause: str, message: str = "") -> None:
        super().__init__(message)
        self.cause = cause


class SaslServer(ABC):
    """One exchange. `user` is "" until it is complete; `expires_at_ms`: when what the client showed expires, by the wall clock."""

    user = ""
    expires_at_ms: int | None = None

    @abstractmethod
    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """The answer to a token of the client; `now_ms` by the wall clock. Raises AuthenticationFailed."""


class PlainServer(SaslServer):
    """PLAIN, with the passwords by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Compare the password; an unknown user takes as long as a wrong password."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError as error:
            raise AuthenticationFailed("a token that is not UTF-8", "Invalid SASL/PLAIN response: it is not UTF-8") from error
        if len(parts) != 3:
            refusal = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise AuthenticationFailed(f"a token of {len(parts)} parts", refusal)
        authorization_id, user, password = parts
        if not user:
            raise AuthenticationFailed("no user", "Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("no password", "Authentication failed: password not specified")
        known = self._passwords.get(user)
        is_right = hmac.compare_digest(password.encode(), (password if known is None else known).encode())
        if known is None or not is_right:
            cause = f"there is no user {user!r}" if known is None else f"the password of user {user!r} is wrong"
            raise AuthenticationFailed(cause, "Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            refusal = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationFailed(f"user {user!r} asked for the rights of another", refusal)
        self.user = user
        return b""


CredentialOf = Callable[[str], tuple[bytes, bytes, bytes, int] | None]


class ScramCredential(NamedTuple):
    """How a password is checked; with it, and without the password, nobody can log in, but may guess offline."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def scram_keys(mechanism: str, salted_password: bytes) -> tuple[bytes, bytes]:
    """StoredKey and ServerKey of a salted password."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return new_hash(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name)


class ScramServer(SaslServer):
    """SCRAM. `credential` gives salt, StoredKey, ServerKey and iterations of a user; `nonce` is fresh for each exchange;
    `secret`, the same for all, makes the salts of users that do not exist.
    """

    def __init__(self, mechanism: str, credential: CredentialOf, *, nonce: str, secret: bytes) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credential_of = credential
        self._nonce = nonce.encode()
        self._secret = secret
        self._user = ""
        self._is_known = False
        self._credential = ScramCredential(b"", b"", b"", 0)
        self._signed = b""
        self._full_nonce = b""
        self._binding = b""

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """The server's first message, then its last one."""
        return self._last(token) if self._full_nonce else self._first(token)

    def _first(self, token: bytes) -> bytes:
        match = _CLIENT_FIRST.fullmatch(token)
        if match is None:
            raise AuthenticationFailed("a malformed first message")
        authorization_id, first_bare, name, nonce, extensions = match.groups()
        if b"tokenauth=true" in extensions.split(b","):
            raise AuthenticationFailed("delegation tokens are not supported")
        try:
            self._user = _user_name(name)
            asked_for = _user_name(authorization_id) if authorization_id else self._user
        except UnicodeDecodeError as error:
            raise AuthenticationFailed("a user that is not UTF-8") from error
        if asked_for != self._user:
            raise AuthenticationFailed(f"user {self._user!r} asked for the rights of {asked_for!r}")
        self._binding = b64encode(token[: len(token) - len(first_bare)])
        found = self._credential_of(self._user)
        self._is_known = found is not None
        shown = self._credential = self._nobodys_credential() if found is None else ScramCredential(*found)
        if shown.iterations < ITERATIONS_MIN:
            raise AuthenticationFailed(
                f"the credential of user {self._user!r} has {shown.iterations} iterations; {ITERATIONS_MIN} are needed"
            )
        self._full_nonce = nonce + self._nonce
        first = b"r=%s,s=%s,i=%d" % (self._full_nonce, b64encode(shown.salt), shown.iterations)
        self._signed = b"%s,%s," % (first_bare, first)
        return first

    def _nobodys_credential(self) -> ScramCredential:
        """What a user has who does not exist: the same salt at each attempt, and keys that no password has."""
        salt = hmac.digest(self._secret, f"{self._mechanism}\0{self._user}".encode(), "sha256")[:_SALT_BYTES]
        key = new_hash(self._hash, self._secret).digest()
        return ScramCredential(salt, key, key, ITERATIONS_MIN)

    def _last(self, token: bytes) -> bytes:
        match = _CLIENT_FINAL.fullmatch(token)
        if match is None:
            raise AuthenticationFailed("a malformed last message")
        without_proof, binding, nonce, encoded = match.groups()
        if nonce != self._full_nonce or binding != self._binding:
            raise AuthenticationFailed("a nonce or channel binding of another exchange")
        credential = self._credential
        try:
            proof = b64decode(encoded, validate=True)
        except ValueError as error:
            raise AuthenticationFailed("a proof that is no base64") from error
        signed = self._signed + without_proof
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            raise AuthenticationFailed("a proof of another length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(new_hash(self._hash, client_key).digest(), credential.stored_key)
        if not (is_right and self._is_known):
            raise AuthenticationFailed(
                f"the password of user {self._user!r} is wrong" if self._is_known else f"there is no user {self._user!r}"
            )
        self.user = self._user
        return b"v=" + b64encode(hmac.digest(credential.server_key, signed, self._hash))


def _user_name(encoded: bytes) -> str:
    return encoded.replace(b"=2C", b",").replace(b"=3D", b"=").decode()
