"""Users of SCRAM as `kafka-storage format --add-scram` takes them (KIP-900): `SCRAM-SHA-256=[name=alice,password=secret]`. Pure.

Source: ScramParser. No message repeats a password.
"""

import re
from base64 import b64decode
from hashlib import pbkdf2_hmac
from typing import Final, NamedTuple

from ottla.security.sasl_server import scram_keys
from ottla.security.scram import HASHES, ITERATIONS_MIN

ITERATIONS_MAX: Final = 16_384
FORM: Final = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
_WORDS: Final = re.compile(r"\s*(SCRAM-SHA-(?:256|512))\s*=\s*\[(.*)\]\s*", re.DOTALL)
_ENTRY: Final = re.compile(r'\s*([a-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]*))\s*(?:,|\Z)', re.DOTALL)
_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


class ScramUser(NamedTuple):
    """A user and how the password is checked; `mechanism` as KRaft's records number them."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def parse_scram_user(text: str, new_salt: bytes) -> ScramUser:
    """One user; `new_salt` where the words have none. Raises ValueError."""
    match = _WORDS.fullmatch(text)
    if match is None:
        raise ValueError(f"write {FORM}, with SCRAM-SHA-256 or SCRAM-SHA-512")
    mechanism, values = match[1], _values(match[2])
    name, password, salted = values.get("name"), values.get("password"), values.get("saltedpassword")
    if not name:
        raise ValueError(f"{mechanism}: You must supply 'name' to add-scram")
    if bool(password) == bool(salted):
        raise ValueError(f"{mechanism}: You must supply one of 'password' or 'saltedpassword' to add-scram")
    if salted and not values.get("salt"):
        raise ValueError(f"{mechanism}: You must supply 'salt' with 'saltedpassword' to add-scram")
    iterations = values.get("iterations", str(ITERATIONS_MIN))
    if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        raise ValueError(f"{mechanism}: 'iterations' must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    salt = _base64("salt", values["salt"]) if values.get("salt") else new_salt
    salted_password = (
        _base64("saltedpassword", salted) if salted else pbkdf2_hmac(HASHES[mechanism], (password or "").encode(), salt, int(iterations))
    )
    return ScramUser(name, _NUMBERS[mechanism], salt, *scram_keys(mechanism, salted_password), int(iterations))


def _values(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _ENTRY.match(text, at)
        if match is None or match[1] in values or match[1] not in ("name", "password", "salt", "saltedpassword", "iterations"):
            raise ValueError(f"write {FORM}; the keys are name, password, salt, saltedpassword and iterations, once each")
        values[match[1]] = match[3].strip() if match[2] is None else re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL)
        at = match.end()
    return values


def _base64(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"'{name}' is no base64") from error
