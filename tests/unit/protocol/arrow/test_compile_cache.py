"""Machine code on the disk is found, and its absence too."""

import os
import subprocess
import sys
import types
from pathlib import Path

from ottla.protocol.arrow.compile_cache import is_cached

PRINT_IS_CACHED = """
from ottla.protocol.arrow import compile_cache
from ottla.protocol.arrow.decoding import batch_headers
print(compile_cache.is_cached(batch_headers))
"""


def test_without_kernels_nothing_is_kept() -> None:
    assert not is_cached(types.ModuleType("empty"))


def test_an_empty_cache_keeps_nothing(tmp_path: Path) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_IS_CACHED],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == "False"


def test_what_was_compiled_is_kept() -> None:
    from ottla.groups.log.compiled_loading import kernels, reducer

    reducer.load_kernels()
    assert is_cached(kernels)
