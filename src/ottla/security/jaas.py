"""Reads Kafka's `sasl.jaas.config`: one login module with its options. It is data: no class is loaded by its name."""

import re
from collections.abc import Collection
from typing import Final

_MODULE: Final = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);\s*", re.DOTALL | re.IGNORECASE)
_OPTION: Final = re.compile(r"""\s*([^\s="';]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL)
_SHADED: Final = "kafkashaded."  # how one vendor's Spark names the classes that it carries with it
PLAIN_MODULES: Final = ("PlainLoginModule", "org.apache.kafka.common.security.plain.PlainLoginModule")
SCRAM_MODULES: Final = ("ScramLoginModule", "org.apache.kafka.common.security.scram.ScramLoginModule")
TRUST_OPTIONS: Final = tuple(f"ssl.truststore.{name}" for name in ("type", "location", "password", "certificates"))
OAUTH_MODULES: Final = ("OAuthBearerLoginModule", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule")
_USER: Final = "user_"
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""As Java's StreamTokenizer reads them in quotes, where a line may not end; other letters stand for themselves."""


def module_options(text: str, modules: Collection[str], form: str) -> dict[str, str]:
    """The options of a module that is one of `modules`. Raises ValueError with `form`, which says how it must be written; never a value."""
    found = _MODULE.fullmatch(text)
    if found is None:
        raise ValueError(form)
    if found[1].removeprefix(_SHADED) not in modules:
        raise ValueError(f"{form} It names {found[1]}")
    options, at, rest = {}, 0, found[2]
    while option := _OPTION.match(rest, at):
        at = option.end()
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", _unescaped, quoted, flags=re.DOTALL)
    if rest[at:].strip():
        raise ValueError(form)
    return options


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])


def plain_users(text: str) -> dict[str, str]:
    """The passwords of PLAIN by user, of a broker's `user_<name>="<password>"`. Raises ValueError.

    `username` and `password` are the broker's own for other brokers, which here share a process.
    """
    form = f'it must read: {PLAIN_MODULES[1]} required user_<name>="<password>" ...;'
    options = module_options(text, PLAIN_MODULES, form)
    unknown = [name for name in options if not name.startswith(_USER) and name not in ("username", "password", "serviceName")]
    if unknown:
        raise ValueError(f"{form} It has the option {unknown[0]}")
    return {name.removeprefix(_USER): password for name, password in options.items() if name.startswith(_USER)}


def issuer_options(text: str) -> dict[str, str]:
    """The options of OAUTHBEARER on a broker: `ssl.truststore.*`, for the keys of the issuer (JaasOptionsUtils). Raises ValueError."""
    options = module_options(text, OAUTH_MODULES, f'it must read: {OAUTH_MODULES[1]} required [ssl.truststore.<name>="..." ...];')
    unknown = [name for name in options if name.startswith("ssl.") and name not in TRUST_OPTIONS]
    if unknown:
        raise ValueError(f"the option {unknown[0]} is not supported: write some of {', '.join(TRUST_OPTIONS)}")
    return options
