"""The property `sasl.jaas.config`: a Java login module with its options.

It supports Kafka's two modules with passwords and the one with tokens, by their short and full names, and refuses all others.
"""

import re
from typing import Final

_MODULE: Final = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);\s*", re.DOTALL | re.IGNORECASE)
_OPTION: Final = re.compile(r"""\s*(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL)
_PLAIN: Final = ("PlainLoginModule", "org.apache.kafka.common.security.plain.PlainLoginModule")
_SCRAM: Final = ("ScramLoginModule", "org.apache.kafka.common.security.scram.ScramLoginModule")
_OAUTH: Final = ("OAuthBearerLoginModule", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule")
_SHADED: Final = "kafkashaded."  # how one vendor's Spark names the classes that it carries with it


def parse_jaas(text: str, *, is_scram: bool) -> tuple[str, str]:
    """User and password. Raises ValueError for malformed text or a module of another mechanism; no message shows the password."""
    modules = _SCRAM if is_scram else _PLAIN
    form = f'sasl.jaas.config must read: {modules[1]} required username="..." password="...";'
    options = _options(text, modules, form)
    if not options.get("username") or not options.get("password"):
        raise ValueError(form)
    unknown = sorted(set(options) - {"username", "password"})
    if unknown:
        raise ValueError(f"sasl.jaas.config has the option {unknown[0]}, which is not supported: leave it out")
    return options["username"], options["password"]


def parse_oauth_jaas(text: str) -> dict[str, str]:
    """The options of the module with tokens, which are none where a callback or a file gives them. Raises ValueError."""
    return _options(text, _OAUTH, f'sasl.jaas.config must read: {_OAUTH[1]} required unsecuredLoginStringClaim_sub="...";')


def _options(text: str, modules: tuple[str, str], form: str) -> dict[str, str]:
    found = _MODULE.fullmatch(text)
    if found is None:
        raise ValueError(form)
    if found[1].removeprefix(_SHADED) not in modules:
        raise ValueError(f"{form} It names {found[1]}")
    options, at, rest = {}, 0, found[2]
    while option := _OPTION.match(rest, at):
        at = option.end()
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
    if rest[at:].strip():
        raise ValueError(form)
    return options
