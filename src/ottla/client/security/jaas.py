"""The property `sasl.jaas.config`: a Java login module with its options, of which user and password are read.

It supports Kafka's two modules with passwords, by their short and full names, and refuses all others.
"""

import re
from typing import Final

_MODULE: Final = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);\s*", re.DOTALL | re.IGNORECASE)
_OPTION: Final = re.compile(r"""\s*(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL)
_PLAIN: Final = ("PlainLoginModule", "org.apache.kafka.common.security.plain.PlainLoginModule")
_SCRAM: Final = ("ScramLoginModule", "org.apache.kafka.common.security.scram.ScramLoginModule")
_SHADED: Final = "kafkashaded."  # how one vendor's Spark names the classes that it carries with it


def parse_jaas(text: str, *, is_scram: bool) -> tuple[str, str]:
    """User and password. Raises ValueError for malformed text or a module of another mechanism; no message shows the password."""
    found = _MODULE.fullmatch(text)
    expected = (_SCRAM if is_scram else _PLAIN)[1]
    form = f'sasl.jaas.config must read: {expected} required username="..." password="...";'
    if found is None:
        raise ValueError(form)
    module = found[1].removeprefix(_SHADED)
    if module not in (_SCRAM if is_scram else _PLAIN):
        raise ValueError(f"{form} It names {found[1]}")
    options, at, rest = {}, 0, found[2]
    while option := _OPTION.match(rest, at):
        at = option.end()
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
    if rest[at:].strip() or not options.get("username") or not options.get("password"):
        raise ValueError(form)
    unknown = sorted(set(options) - {"username", "password"})
    if unknown:
        raise ValueError(f"sasl.jaas.config has the option {unknown[0]}, which is not supported: leave it out")
    return options["username"], options["password"]
