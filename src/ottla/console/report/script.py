"""Joins the page's modules into one script without imports: a sandboxed frame of a notebook runs only that, under a policy of hashes.

Each module becomes a function that returns its exports. The result is ASCII: in a page of another charset the hash of anything else fails.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Final

ENTRY: Final = "main"
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function|class|const)) (\w+)", re.MULTILINE)


def asset(name: str) -> str:
    """The text of a file of the page."""
    return (files(__package__) / "assets" / name).read_text("utf-8")


@cache
def joined_script() -> str:
    """All modules that the entry needs, each after those that it imports."""
    modules: dict[str, str] = {}
    _add(ENTRY, modules)
    parts = [f"const {_name(module)} = (() => {{\n{body}}})();\n" for module, body in modules.items()]
    return '"use strict";\n(() => {\n' + "".join(parts) + "})();\n"


def _add(module: str, modules: dict[str, str]) -> None:
    if module in modules:
        return
    text = asset(f"{module}.js")
    for _, imported in _IMPORT.findall(text):
        _add(imported, modules)
    exported = [name for _, name in _EXPORT.findall(text)]
    body = _IMPORT.sub(lambda match: f"const {{{match[1]}}} = {_name(match[2])};\n", text)
    body = _EXPORT.sub(r"\1 \2", body)
    modules[module] = f"{body}return {{ {', '.join(exported)} }};\n" if exported else body


def _name(module: str) -> str:
    return f"module_{module}"
