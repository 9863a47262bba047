"""Whether a module's machine code is kept from an earlier process: loading it takes part of a second, compiling it many."""

from types import ModuleType
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher


def is_cached(module: ModuleType) -> bool:
    """True when every kernel of the module, as its source is now, has machine code on the disk; what it imports has its own."""
    # Numba reports only afterwards what it found; this repeats its lookup.
    kernels = [value for value in vars(module).values() if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__]
    caches = [getattr(kernel, "_cache", None) for kernel in kernels]
    files: list[Any] = [cache._cache_file for cache in caches if isinstance(cache, FunctionCache)]
    return bool(files) and all(file._load_index() for file in files)
