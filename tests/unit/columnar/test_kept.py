"""Machine code on the disk is found, and its absence too."""

import os
import subprocess
import sys
import types
from pathlib import Path

from ottla.columnar.kept import is_kept

TELL = """
from ottla.columnar import kept, kernels
print(kept.is_kept(kernels))
"""


def test_without_kernels_nothing_is_kept() -> None:
    assert not is_kept(types.ModuleType("empty"))


def test_an_empty_cache_keeps_nothing(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", TELL], env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "False"


def test_what_was_compiled_is_kept() -> None:
    from ottla.columnar import group_loading, group_loading_kernels

    group_loading.warm_up()
    assert is_kept(group_loading_kernels)
