"""Importing the package costs nothing; what it needs is named when it is missing."""

import subprocess
import sys

import pytest

import ottla.columnar


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, ottla.columnar; print(sorted({'numpy', 'numba', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("missing", ["numpy", "numba", "pyarrow"])
def test_a_missing_extra_is_named(missing: str):
    code = f"import sys; sys.modules[{missing!r}] = None; import ottla.protocol.arrow.decoder"
    errors = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert errors.strip().endswith(f'MissingExtraError: {missing} is not installed: pip install "ottla[arrow]"')


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ottla.columnar.nonsense
