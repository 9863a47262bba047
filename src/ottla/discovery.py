"""Imports a drop-in folder as a mapping from file names: adding a file touches no list (law 6).

A drop-in module holds one constant (API, COMMAND, PIPELINE, ASSIGNOR). Modules whose name begins with an underscore are helpers.
"""

import importlib
import pkgutil
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def drop_ins(package: ModuleType, constant: str, kind: type[T]) -> dict[str, T]:
    """Every module of `package` by its file name, as the `kind` that its `constant` holds.

    Raises TypeError, naming the file, when the constant is missing or of another kind, and LookupError when there is no module at all (a
    directory that cannot be read looks like that): a drop-in must not be left out silently.
    """
    found: dict[str, T] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        if info.name.startswith("_"):
            continue
        value = getattr(importlib.import_module(f"{package.__name__}.{info.name}"), constant, None)
        if not isinstance(value, kind):
            raise TypeError(f"{package.__name__}.{info.name} must hold {constant}, a {kind.__name__}")
        found[info.name] = value
    if not found:
        raise LookupError(f"{package.__name__} has no modules, or its directory cannot be read: {', '.join(package.__path__)}")
    return found
