"""Kernels are compiled without the interpreter's lock, and kept where a folder can be written; helpers become a part of them."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.arrow.primitives import compilation


@compilation.helper
def _doubled(number: int) -> int:
    return 2 * number


def _plus_doubled(one: int, other: int) -> int:
    return one + _doubled(other)


def test_a_kernel_calls_helpers():
    assert compilation.jit(_plus_doubled)(1, 20) == 41


def test_a_kernel_releases_the_lock_and_is_kept():
    kernel: Any = compilation.jit(_plus_doubled)
    assert kernel.targetoptions["nogil"]
    assert type(kernel._cache).__name__ == "FunctionCache"


def test_without_a_folder_for_the_cache_kernels_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch):
    plain = compilation.njit

    def njit(cache: bool = False, **options: Any) -> Callable[..., Any]:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        compiled: Callable[..., Any] = plain(**options)
        return compiled

    monkeypatch.setattr(compilation, "njit", njit)
    assert compilation.jit(_plus_doubled)(1, 20) == 41
