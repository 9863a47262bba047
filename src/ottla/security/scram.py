"""The client's side of SCRAM: client and server prove to each other that they know a password. Pure: the nonce is an argument.

Sources: RFC 5802 (the exchange), RFC 7677 (SHA-256), KIP-84 (Kafka takes user and password as UTF-8, without SASLprep).
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Final

from ottla.protocol.errors import PeerError

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 1_000_000
"""A hostile server could ask for more: a million take about a second to compute."""

_GS2_HEADER: Final = b"n,,"
_CHANNEL: Final = b64encode(_GS2_HEADER)


class ScramClient:
    """One exchange: `first`, then `final` with the server's first message, then `is_server` with its last one.

    `nonce` is fresh for each exchange: printable ASCII without commas.
    """

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce.encode()
        self._first_bare = b"n=%s,r=%s" % (username.replace("=", "=3D").replace(",", "=2C").encode(), self._nonce)
        self._server_signature = b""

    def first(self) -> bytes:
        """The client's first message."""
        return _GS2_HEADER + self._first_bare

    def final(self, server_first: bytes) -> bytes:
        """The client's proof, from the server's first message. Raises PeerError for a malformed message, or too few or many iterations."""
        fields = _fields(server_first)
        nonce, salt, iterations = fields.get(b"r", b""), _base64(fields.get(b"s", b"")), _number(fields.get(b"i", b""))
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salt:
            raise PeerError("a SCRAM message whose nonce does not continue the client's")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise PeerError(f"SCRAM with {iterations} iterations: {ITERATIONS_MIN} to {ITERATIONS_MAX} are taken")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = b"c=%s,r=%s" % (_CHANNEL, nonce)
        signed = b",".join((self._first_bare, server_first, without_proof))
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return without_proof + b",p=" + b64encode(proof)

    def is_server(self, server_final: bytes) -> bool:
        """Whether the server's last message proves that it knows the password. Raises PeerError for a malformed message."""
        fields = _fields(server_final)
        if b"v" not in fields and b"e" not in fields:
            raise PeerError("a SCRAM message without the server's proof")
        return bool(self._server_signature) and hmac.compare_digest(_base64(fields.get(b"v", b"")), self._server_signature)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def plain(username: str, password: str) -> bytes:
    """The one message of SASL PLAIN. Source: RFC 4616."""
    return b"\0%s\0%s" % (username.encode(), password.encode())


def _fields(message: bytes) -> dict[bytes, bytes]:
    return {part[:1]: part[2:] for part in message.split(b",") if part[1:2] == b"="}


def _base64(text: bytes) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise PeerError("a SCRAM message with bytes that are no base64") from error


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > 9:
        raise PeerError("a SCRAM message without a count of iterations")
    return int(text)
