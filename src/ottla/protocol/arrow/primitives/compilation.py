"""How kernels and their helpers are compiled, and the names of their arguments' types."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

# In machine code every number is a 64-bit one: Python's own types, and NumPy's, would not show that.
Int = Any
Array = Any
F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile on first use and keep the machine code beside the source (or in NUMBA_CACHE_DIR)."""
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # No folder to keep it in can be written: an installation that is read-only still works, it compiles once a process.
        compiled = njit(nogil=True)(function)
    return cast(F, compiled)


def helper(function: F) -> F:
    """A function of numbers that becomes a part of every kernel that calls it; Python cannot call it, which makes it compile faster."""
    compile_later: Any = njit  # its stubs lack some of its options
    return cast(F, compile_later(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))
